"""Options that several commands have, and from options, files and presets to the estimator to fit."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from viewsmith.core.errors import InputError

if TYPE_CHECKING:
    from viewsmith.estimators import ViewsmithEstimator

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="digits, breast_cancer, wine; a file: npz npy csv tsv parquet h5ad fasta fasta.gz; or a folder of images",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `viewsmith fit` wrote.")]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Label column of a table or of obs (h5ad); never used by fit.")
]
Labels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Labels of a FASTA file: name and label in two columns.")
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="NETWORK",
        help="What sees foreground and quality of images: encoder (the default), or CLIP's network of images, "
        "clip:FOLDER or clip:OWNER/NAME (extra unclip).",
    ),
]
ImageSize = Annotated[int | None, typer.Option(metavar="PIXELS", help="Crop and resize images of a folder to squares.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class ListingCommand(TyperCommand):
    """A command whose help names what is registered, in place of ``[KIND]``; looked up only when help is printed."""

    def get_help(self, ctx: Any) -> str:
        import viewsmith.estimators  # noqa: F401, it registers parts
        from viewsmith.core.registry import names as registered

        for parameter in self.params:
            text = str(getattr(parameter, "help", None) or "")
            if found := re.match(r"\[(.+?)\]", text):
                listed = ", ".join(registered(found[1]))  # type: ignore[arg-type]
                parameter.help = listed + text[found.end() :]  # type: ignore[attr-defined]
        return super().get_help(ctx)


def make_estimator(
    method: str | None,
    preset: str | None,
    config: Path | None,
    pairs: list[str],
    given: dict[str, Any],
    domain: str | None = None,
) -> ViewsmithEstimator:
    """The estimator to fit. What is nearer to the command wins: preset, then file, then --set, then flags.

    Options that the method does not have itself are those of the framework, view makers and encoder that are chosen.
    Before the data are read, `domain` is None: names are checked, and the values of presets and parts come later.
    """
    from viewsmith import estimators as _  # noqa: F401, it registers methods
    from viewsmith.core.registry import find
    from viewsmith.domains import domain_of
    from viewsmith.estimators.build.options import check_options
    from viewsmith.estimators.build.routing import route_options

    content = _config_file(config) if config else {}
    named = content.pop("method", None)
    if method is not None and named not in (None, method):
        raise InputError(f"{config} is of the method {named!r}, and --method is {method!r}: leave --method out")
    method = method or named or "contrastive"
    cls: type[ViewsmithEstimator] = find("method", str(method)).build  # type: ignore[assignment]
    parameters = {"verbose": True, "random_state": 0}
    if preset is not None:
        parameters |= _preset(cls, preset, domain)
    parameters |= content | _assignments(pairs) | given
    if preset is not None and domain is not None:
        for option, what in cls.preset_needs.get(preset + domain_of(domain).preset_suffix, {}).items():
            if parameters.get(option) is None:
                raise InputError(f"the preset {preset!r} of {cls.name} needs {what}")
    with contextlib.suppress(ValueError):  # a text from --set; fit says what it expected
        parameters["random_state"] = int(str(parameters["random_state"]))
    return check_options(cls, *route_options(cls, parameters, domain))


def check_only(context: typer.Context, why: str, allowed: Sequence[str]) -> None:
    """Raise InputError if others than the allowed options were given, which would do nothing."""
    for option in context.params:
        source = context.get_parameter_source(option)
        if option in allowed or source is None or source.name == "DEFAULT":
            continue
        flag = option.rstrip("_").replace("_", "-")
        raise InputError(f"--{flag} is given {why}, which takes no such option: leave it out")


def names(text: str) -> list[str]:
    """Names in a comma-separated text."""
    return [name.strip() for name in text.split(",") if name.strip()]


def set_threads(threads: int | None) -> None:
    """Let torch compute on so many threads; None: on as many as it does."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _preset(cls: type[ViewsmithEstimator], name: str, domain: str | None) -> dict[str, Any]:
    """Options of a preset: those named NAME are for vectors, those named NAME-DOMAIN for another domain."""
    from viewsmith.domains import domain_of

    known = dict.fromkeys(preset.partition("-")[0] for preset in cls.presets)
    if name not in known:
        raise InputError(f"unknown preset {name!r}: known are {', '.join(known)}")
    if domain is None:
        return {}
    own = name + domain_of(domain).preset_suffix
    if own not in cls.presets:
        raise InputError(f"the preset {name!r} of {cls.name} has nothing for {domain}: leave --preset out")
    return cls.presets[own]


def _config_file(path: Path) -> dict[str, Any]:
    """Options of a TOML file and perhaps a method: flat, or the config.toml of a run."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"no configuration file at {path}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no valid TOML: {error}") from error
    if isinstance(content.get("parameters"), dict):
        return content["parameters"] | ({"method": content["method"]} if "method" in content else {})
    return content


def _assignments(pairs: list[str]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set {pair!r} has no value: expected KEY=VALUE")
        values[key.strip().replace("-", "_")] = value.strip()
    return values
