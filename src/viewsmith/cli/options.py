"""Options of several commands, and the estimator from options, files and presets."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from viewsmith.cli import early
from viewsmith.core.errors import InputError, check, quoted, undamaged, warn
from viewsmith.core.registry import Flag, annotations_of, built, entries, find, texts_of
from viewsmith.core.registry import names as registered
from viewsmith.data.options import DataOptions, ModelDataOptions
from viewsmith.data.places import check_map_path, check_not_of_run, is_result
from viewsmith.estimator.options import KINDS, OF_TRAINING, check_given, check_options, expanded, route_options

if TYPE_CHECKING:
    from viewsmith.estimator.base import ViewsmithEstimator

Data = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="digits, breast_cancer, wine; a file: npz npy csv parquet h5ad fasta wav edf hea ts ...; or a folder of "
        "images or recordings (`viewsmith methods` lists all)",
    ),
]

Run = Annotated[Path, Argument(metavar="RUN", help="Folder that `viewsmith fit` wrote.")]
Threads = Annotated[int | None, Option(min=1, help="CPU threads.")]
Config = Annotated[Path | None, Option(metavar="FILE.toml", help="Options from a file.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
MethodName = Annotated[
    str | None,
    Option(help="[method] (default: linear-contrast for images, recordings, proteins and long DNA, else contrastive)"),
]
Seed = Annotated[int, Option(min=0, help="Same seed, same result.")]

LabelColumns = Annotated[
    list[str] | None, Option("--label", metavar="COLUMN", help="Label column; several, each scored: give it again.")
]

Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set an option of the method or its parts (`viewsmith methods METHOD`)."),
]

#: Flags of many commands that are no options of `load_dataset`.
COMMON = {"threads": Threads, "debug": Annotated[bool, Option("--debug", help="Show the traceback of an error.")]}

#: Options of `load_dataset` of recordings, images of instruments, sequences and text tables.
OF_RECORDINGS = (
    *("length", "step", "rate", "channels", "time", "recording", "axes", "channel_files", "tile", "overlap", "level"),
    *("masks", "alphabet", "genome", "width", "feature", "encoding", "header"),
)

#: Options of `load_dataset` that estimators have, too.
OF_MODEL = tuple(field.name for field in fields(ModelDataOptions))


NOT_BREAKING = "\N{NON-BREAKING HYPHEN}"


#: What stands for a value in help, by typer's text for its type.
VALUES = {"<int>": "N", "<int range>": "N", "<float>": "NUMBER", "<str>": "NAME"}


class ListingCommand(TyperCommand):
    """A command whose help lists registered names in place of ``[KIND]``."""

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(200)  # the first sentence is not cut

    def get_help(self, ctx: Any) -> str:
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type = lambda ctx: ""  # type: ignore[attr-defined]
            elif parameter.metavar is None and not parameter.is_flag:  # type: ignore[attr-defined]
                parameter.metavar = VALUES.get(parameter.display_type(ctx))  # type: ignore[attr-defined]
            text = str(getattr(parameter, "help", None) or "")
            if found := re.match(r"\[(.+?)\]", text):
                text = listed(found[1]) + text[found.end() :]
            # Lines are not broken within a name, which is to be copied.
            parameter.help = re.sub(r"(?<=\w)-(?=\w)", NOT_BREAKING, text)  # type: ignore[attr-defined]
        return re.sub(r"{([A-Z]+)}", r"\1", super().get_help(ctx).replace(NOT_BREAKING, "-"))


def listed(kind: str) -> str:
    """The registered names of a kind, those of plug-ins, which are then imported, included."""
    with early.parts_declared():
        return ", ".join(registered(kind))  # type: ignore[arg-type]


def with_flags(*names: str, **of_model: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of a command: options of `load_dataset` that are flags are given in `read`, by name, and arguments of
    estimators in `given`; names in `COMMON` are flags, too."""
    declared = of_model | {name: COMMON[name] if name in COMMON else flag_of(DataOptions, name) for name in names}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name not in ("read", "given")]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in declared.items()
        ]
        added = [p.replace(default=False) if get_args(p.annotation)[0] is bool else p for p in added]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            found = {name: _value(name, values.pop(name)) for name in declared}
            set_threads(found.get("threads"))
            found = {name: value for name, value in found.items() if value is not None and name not in COMMON}
            for argument in {"read", "given"} & signature.parameters.keys():
                values[argument] = {n: v for n, v in found.items() if (n in of_model) == (argument == "given")}
            command(**values)

        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        return run

    return decorate


#: Options of names between commas, which may be given several times.
LISTS = ("drop", "one_hot", "channels", "columns")


def flag_of(cls: type, name: str) -> Any:
    """The flag of a declared option, as typer reads it."""
    annotation = annotations_of(cls)[name]
    inner, *further = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    told = next((each for each in further if isinstance(each, Flag)), Flag())
    text = texts_of(cls)[name].partition("\n\n")[0]
    each = () if get_origin(inner) is tuple else get_args(inner)
    kinds = {inner, *(get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in each)}
    kinds &= {bool, Path} if str in kinds else {bool, int, float, Path}  # 2s, or a number of points, is a text
    shown = f"[{told.lists}]: {text}" if told.lists else text
    option = Option(f"--{told.name or name.replace('_', '-')}", metavar=told.metavar, help=shown)
    if name in LISTS:
        return Annotated[list[str] | None, option]
    return Annotated[bool if bool in kinds else (kinds.pop() if kinds else str) | None, option]


def flag_name(name: str) -> str:
    """The flag of an option of `load_dataset`, without its dashes."""
    further = getattr(annotations_of(DataOptions)[name], "__metadata__", ())
    return next((each.name for each in further if isinstance(each, Flag) and each.name), name.replace("_", "-"))


def _value(name: str, given: Any) -> Any:
    """The value of a flag as `load_dataset` takes it; None if it is not given."""
    if name in LISTS:
        return None if given is None else roles(",".join(given)) if name == "columns" else names(",".join(given))
    return None if given is False else given


def as_arguments(read: Mapping[str, Any]) -> list[str]:
    """Options of `load_dataset` as flags, for a command that is suggested."""
    words = []
    for name, value in read.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        words += [f"--{flag_name(name)}", *([] if value is True else [text])]
    return words


def data_options(
    read: Mapping[str, Any], model: ViewsmithEstimator | None = None, run: Path | None = None, **further: Any
) -> DataOptions:
    """How a command reads data: by its flags, as options of a model say, and what stays on disk beside a run."""
    options = {**read, **further}
    if model is not None:
        options |= {name: getattr(model, name) for name in OF_MODEL}
        options |= {} if "modality" in read or model.modality == "auto" else {"modality": model.modality}
    return DataOptions(**options, **({} if run is None else early.beside(run)))


def make_estimator(*asked: Any) -> ViewsmithEstimator:
    """The estimator to fit, see `_estimator`."""
    import viewsmith.methods.loading  # noqa: F401, it registers methods

    return _estimator(*asked)


def declared_estimator(*asked: Any) -> ViewsmithEstimator:
    """The options of `make_estimator`, checked, without the methods, which take seconds to import; parts of plug-ins
    are imported."""
    with early.parts_declared():
        return _estimator(*asked)


def _estimator(
    method: str | None,
    preset: str | None,
    config: Path | None,
    pairs: list[str],
    given: dict[str, Any],
    modality: str | None = None,
    row_shape: Sequence[int] = (),
) -> ViewsmithEstimator:
    """An estimator by preset, file, --set, flags, the later first; options that the method does not have are those of
    its parts; before data are read, `modality` is None: what is right in one of them is taken."""
    content = config_file(config) if config else {}
    named = content.pop("method", None)
    if method is not None and named not in (None, method):
        raise InputError(f"{config} is for the method {named!r}, but --method is {method!r}: leave --method out")
    asked = (content, assignments(pairs), given)
    method = (None if method == "auto" else method) or named or default_method(modality, preset, asked, row_shape)
    cls: type[ViewsmithEstimator] = find("method", str(method)).build  # type: ignore[assignment]
    parameters = {"verbose": True, "random_state": 0}
    if preset is not None and modality is None:  # its parts, and so its options, depend on the modality
        fault = None
        for modal in registered("modality"):
            if preset + built("modality", modal).preset_suffix not in cls.presets:
                continue
            try:
                return _estimator(str(method), preset, config, pairs, given, modal)
            except InputError as error:
                fault = fault or error
        if fault is not None:
            raise fault
    if preset is not None:
        parameters |= _preset(cls, preset, modality)
    for each in asked:  # the later ones first
        parameters |= expanded(cls, each)
    if preset is not None and modality is not None:
        for option, need in cls.preset_needs.get(preset + built("modality", modality).preset_suffix, {}).items():
            if parameters.get(option) is None:
                raise InputError(f"the preset {preset!r} of {cls.name} needs {need}")
    with contextlib.suppress(ValueError):  # a string from --set; fit validates it
        parameters["random_state"] = int(str(parameters["random_state"]))
    estimator = check_options(cls, *route_options(cls, parameters, modality))
    check_given(estimator, modality)
    return estimator


def default_method(
    modality: str | None, preset: str | None, asked: Sequence[Mapping[str, Any]], row_shape: Sequence[int] = ()
) -> str:
    """The default of the modality for samples of a shape; contrastive if an option of a training is given. Before the
    data are read also contrastive, unless an option is of the closed form or its features alone."""
    given = set[str]().union(*map(option_names, asked))
    if preset is not None or not given.isdisjoint(OF_TRAINING):
        return "contrastive"
    if modality is not None:
        found = built("modality", modality)
        long = row_shape and found.longest_trained is not None and row_shape[0] > found.longest_trained
        return "linear-contrast" if long else found.default_method
    trained, closed = ({f.name for f in fields(find("method", m).build)} for m in ("contrastive", "linear-contrast"))  # type: ignore[arg-type]
    of_features = {name for entry in entries("features") for name in entry.options}
    kinds = [kind for kind in KINDS.values() if kind != "features"]
    others = {name for kind in kinds for entry in entries(kind) for name in entry.options}
    return "linear-contrast" if given & ((closed - trained) | (of_features - others)) else "contrastive"


def option_names(given: Mapping[str, Any]) -> set[str]:
    """Names of options, without those of their parts: of ``noise.strength``, and of the table ``[noise]``."""
    found = {name.rpartition(".")[2] for name, value in given.items() if not isinstance(value, dict)}
    return found.union(*(option_names(value) for value in given.values() if isinstance(value, dict)))


def check_only(context: typer.Context, why: str, allowed: Sequence[str]) -> None:
    """Raise InputError if an option was given that is not allowed, because it would have no effect."""
    for option in context.params:
        source = context.get_parameter_source(option)
        if option in allowed or source is None or source.name == "DEFAULT":
            continue
        flag = option.rstrip("_").replace("_", "-")
        raise InputError(f"--{flag} has no effect {why}: leave it out")


def check_out(out: Path, data: str, read: Mapping[str, Any] = MappingProxyType({}), flag: str = "--out") -> None:
    """Raise InputError if a command would replace its own data or labels, or a file of a run; a copy of an .h5ad file
    keeps what it has."""
    check_not_of_run(out, flag)
    if out.suffix.lower() != ".h5ad" and out.exists():
        for what, given in (("data", data), ("labels", read.get("labels")), ("masks", read.get("masks"))):
            if given is not None and Path(given).exists() and out.samefile(given):
                raise InputError(f"{flag} is {str(out)!r}, the {what} themselves: choose another path")
    if out.suffix.lower() not in ("", ".png", ".tif", ".tiff") or not Path(data).is_dir():
        return
    samples, inside = Path(data).resolve(), out.resolve().parents
    if samples in inside and not any(is_result(place) for place in inside if samples in place.parents):
        raise InputError(
            f"{flag} is {str(out)!r} in the folder of the samples, where images would become samples: choose a place "
            "outside of it"
        )


def check_map(path: Path, data: str, read: Mapping[str, Any]) -> Path:
    """The picture beside a map of a scene; raises InputError if one of both would replace something else than an
    earlier map."""
    check_map_path(path)
    picture = path.with_suffix(".png")
    for file in (path, picture):
        check_out(file, data, read, "--map")
    if picture.exists() and not path.exists():
        raise InputError(
            f"--map also writes {quoted(picture)}, which exists and is not of an earlier map: give another name"
        )
    return picture


def label_column(label: str | None, supervise: str | None) -> str | None:
    """The column of the labels, from --label and --supervise; raises InputError if they differ."""
    if label is not None and supervise is not None and label != supervise:
        raise InputError(f"--label is {label!r} and --supervise is {supervise!r}: give the same column, or one of them")
    return label if supervise is None else supervise


def names(text: str) -> list[str]:
    """Names in a comma-separated text."""
    return [name.strip() for name in text.split(",") if name.strip()]


def roles(text: str | None) -> dict[str, str] | None:
    """Roles of columns by name, from ``NAME=ROLE,NAME=ROLE``; None for no text."""
    if text is None:
        return None
    found = {}
    for part in names(text):
        name, equals, role = part.rpartition("=")
        if not equals:
            raise InputError(f"--columns has {part!r}, expected NAME=ROLE: numeric, category, text, date or drop")
        found[name.strip()] = role.strip()
    return found


def of_data(pairs: Sequence[str]) -> set[str]:
    """The options, of those that are set, which say how data are read."""
    return option_names(assignments(pairs)) & {*OF_MODEL, "modality", "supervision"}


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads of torch, which may be imported later; None: leave it unchanged."""
    if threads is None:
        return
    if "torch" not in sys.modules:
        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)))
    else:
        import torch

        torch.set_num_threads(threads)


def check_budget(budget: float | None) -> None:
    """Raise InputError unless a number of minutes is above 0."""
    check(budget is None or 0 < budget < float("inf"), "--budget", budget, "a number of minutes above 0")


def _preset(cls: type[ViewsmithEstimator], name: str, modality: str | None) -> dict[str, Any]:
    """Options of a preset: NAME for vectors, NAME-MODALITY for other modalities."""
    known = dict.fromkeys(preset.partition("-")[0] for preset in cls.presets)
    if name not in known:
        expected = f"expected {' or '.join(known)}" if known else f"{cls.name} has none, leave --preset out"
        raise InputError(f"unknown preset {name!r}: {expected}")
    if modality is None:
        return {}
    full_name = name + built("modality", modality).preset_suffix
    if full_name not in cls.presets:
        raise InputError(f"{cls.name} has no preset {name!r} for {modality}: leave --preset out")
    return cls.presets[full_name]


def config_file(path: Path) -> dict[str, Any]:
    """Options of a TOML file, and its method if it has one: a flat file, or the config.toml of a run."""
    from viewsmith.core.files import of_all_parts, read_toml  # with numpy

    try:
        content = read_toml(path)
    except FileNotFoundError as error:
        raise InputError(f"no configuration file at {path}") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML ({error}): correct the file") from error
    if isinstance(content.get("parameters"), dict):
        with undamaged(path, "restore it"):
            parameters: dict[str, Any] = of_all_parts(content)["parameters"]
        return parameters | ({"method": content["method"]} if "method" in content else {})
    return content


def warn_of_label(config: Path) -> None:
    """Warn if a file is the config.toml of a run with a column of labels, which is no option of a file."""
    from viewsmith.core.files import read_toml

    data: Any = read_toml(config).get("data")
    label = None
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):  # of no run, or damaged
        label = json.loads(data["schema"]).get("label")
    if label is not None:
        warn(f"{config} is of a run with --label {quoted(label)}, which no file sets: without it the column is data")


def assignments(pairs: Sequence[str], option: str = "--set", form: str = "KEY=VALUE") -> dict[str, str]:
    """Values by name, from ``KEY=VALUE`` texts of an option; raises InputError for a text of another form."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        check(bool(equals), option, repr(pair), f"{form}: add a value")
        values[key.strip().replace("-", "_")] = value.strip()
    return values
