"""What the stages of `fit` pass on: training data, resolved settings, the context that modules are built from; and
configurations, which are written from an estimator and checked when they are read."""

import dataclasses
import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from viewsmith.core import __version__
from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import Entry, Kind, get
from viewsmith.core.rows import RowSource, too_large_for_memory
from viewsmith.core.samples import Rows
from viewsmith.estimator.arguments import Arguments
from viewsmith.estimator.options import MODULE, check_options, places, schema, slots
from viewsmith.frameworks.supervision import FewLabels
from viewsmith.modalities import Modality
from viewsmith.modalities.images.encoders import SMALLEST
from viewsmith.modalities.tables.encoder import TableEncoder
from viewsmith.networks.features import name_of
from viewsmith.views.base import PrecomputedGraph

F = TypeVar("F", bound="Facts")


@dataclass(frozen=True)
class TrainingData:
    """Training rows as read, checked and scaled."""

    modality: Modality
    rows: np.ndarray | RowSource  # (n, ...): as read: float32 vectors, uint8 images or letters
    layer: nn.Module  # the input layer, fitted on them
    x: Rows  # scaled rows, or samples that are scaled, and if on disk read, when they are indexed
    scaling: str  # name of the scaling, with "auto" resolved
    statistics: dict[str, Any]  # statistics of the input layer that view makers need
    device: torch.device  # device of the training
    seed: int  # seed of the run
    labels: Any = None  # as given to fit; used only by methods that need them (`reads_labels`)
    # neighbor graph of the rows, as given to fit or with mutual neighbors in other groups
    neighbors: PrecomputedGraph | None = None
    # facts about the groups of the rows, for the summary; empty if there are none
    groups: dict[str, Any] = field(default_factory=dict)
    group_codes: np.ndarray | None = None  # (n,): the group of each row, as given to fit
    normalization: str = "none"  # whether the rows are counts that were log-normalized
    names: Sequence[str] | None = None  # of the features, as in the file

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.rows.shape[1:]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What `fit` has found in the data: plain values, saved with the model beside the options without "auto"."""

    modality: str
    row_shape: tuple[int, ...]
    seed: int
    statistics: dict[str, Any] = field(default_factory=dict)  # see `TrainingData`
    view_derived: dict[str, Any] = field(default_factory=dict)  # what view makers derived from options and data
    # by strength, if it was chosen automatically: the distance of views from the data, or label-free scores
    strength_scores: dict[str, float] = field(default_factory=dict)
    # by transformation: whether views use it, and what a test of the samples has shown, if that decided
    symmetries: dict[str, dict[str, Any]] = field(default_factory=dict)
    # plain values of the encoder of a table (`TableEncoder.as_dict`); None for plain numbers
    table: dict[str, Any] | None = None
    # whether the features have names from a DataFrame; `feature_names` are these names, or those of a file or an
    # AnnData
    named: bool = False
    feature_names: list[str] = field(default_factory=list)
    # whether the rows are counts that were log-normalized when they were read
    normalization: Literal["log", "none"] = "none"
    # size and spread of the scaled training rows, by which rows off their scale are seen (`viewsmith.estimator.rows`)
    reach: dict[str, float] = field(default_factory=dict)
    packages: dict[str, str]  # parts registered by other packages, ``KIND NAME``, and the package of each
    # digests of the rows whose labels were used (``supervision="labels"``), joined: they are not scored
    labeled_rows: str = ""
    given: str = ""  # digest of the labels and groups that the training used, which a resumed training needs again

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls: type[F], content: Mapping[str, Any]) -> F:
        """Inverse of `as_dict`, from the facts among other values; accepts the string "none" for None."""
        import pydantic

        hints, missing = typing.get_type_hints(cls), dataclasses.MISSING
        given = {}
        for f in dataclasses.fields(cls):
            if f.name in content or (f.default is missing and f.default_factory is missing):
                value = content[f.name]
                given[f.name] = None if value == "none" and type(None) in typing.get_args(hints[f.name]) else value
        return pydantic.TypeAdapter(cls).validate_python(given)


def plain(value: Any) -> Any:
    """A value as it is written to a configuration: nested values that are None are left out."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def text_of(part: Any) -> str:
    """The text for a part in a configuration: its name, the class of a custom object, or the name of a function."""
    return part if isinstance(part, str) else f"{MODULE}{name_of(part)}"


@dataclass(frozen=True)
class BuildContext(Generic[F]):
    """Everything that a model is built from."""

    options: Any  # the estimator's arguments, without "auto" where a part has the option
    facts: F
    # inputs that only a new model needs and that a configuration cannot describe, such as the views of a view cache
    inputs: Any = None
    # whether the model is new, so that files of initial weights are read; otherwise weights come from a run
    fresh: bool = False
    labels: Tensor | None = None  # (n,): classes of the training rows, for a new model whose framework reads labels
    neighbors: PrecomputedGraph | None = None  # neighbor graph of the training rows, for a new model
    few_labels: FewLabels | None = None  # labels of some training rows, for a new model with ``supervision="labels"``
    layer: nn.Module | None = None  # the input layer; for a new model fitted to the training rows

    @classmethod
    def of_new(cls, options: Arguments, facts: F, data: TrainingData, **given: Any) -> "BuildContext[F]":
        """The plan of a new model for training rows; `given` are `inputs`, `labels` and `few_labels`."""
        return cls(options, facts, fresh=True, neighbors=data.neighbors, layer=data.layer, **given)


# Features from which vectors are projected to their principal axes, and the number of axes.
WIDE, AXES = 200, 50


def check_sample(
    entry: Entry | None, views: Sequence[Entry], derived: dict[str, Any], options: Arguments, data: TrainingData
) -> None:
    """Raise InputError unless the encoder accepts samples, and smaller views of them."""
    sizes = (view.tag("smaller", lambda *_: None)(data.row_shape, derived) for view in views)
    smaller = [size for size in sizes if size is not None]
    if entry is None:
        assert isinstance(options.encoder, nn.Module)
        for _, pixels in smaller:
            x = data.x[:2]
            probe(options.encoder, name_of(options.encoder), x.new_zeros(*x.shape[:2], *pixels))
        return
    encoder = str(options.encoder)
    check_least("encoder", encoder, entry, data)
    longest = entry.tag("longest")
    if longest is not None and data.row_shape[0] > longest:
        raise InputError(
            f"the longest sequence has {data.row_shape[0]} bases, but the encoder {encoder} accepts at most {longest}: "
            "split the sequences, or use the encoder cnn"
        )
    for option, pixels in smaller:
        check_crops(option, pixels, entry, encoder, data.modality, data.row_shape[:2])


def check_least(part: str, name: str, entry: Entry, data: TrainingData) -> None:
    """Raise InputError unless samples are large enough for a network."""
    size, smallest = data.row_shape[:2], entry.tag("smallest", 1)
    smaller = f"use another {part}, " if min(size) >= SMALLEST else ""
    data.modality.check_size(
        f"the images have {{have}}, but the {part} {name} needs at least {{least}}",
        size,
        smallest,
        f"{smaller}enlarge them, or use every row as a flat vector with modality='vectors' (--modality vectors)",
    )


def check_crops(
    option: str,
    pixels: Sequence[int],
    entry: Entry,
    encoder: str,
    modality: Modality,
    size: Sequence[int],
    todo: str = "use other views",
) -> None:
    """Raise InputError if crops of images of `size` are too small for the encoder; `todo` is advice on the crops."""
    if len(size) < 2:  # only images have sizes
        return
    least = entry.tag("smallest", 1)
    others = min(pixels) >= SMALLEST and least > SMALLEST
    enlarge = "" if min(size) > SMALLEST else ", enlarge the images, or use rows as vectors (--modality vectors)"
    modality.check_size(
        f"the {option} of images of {size[0]} x {size[1]} pixels have {{have}}, but the encoder {encoder} needs "
        "at least {least}",
        pixels,
        least,
        f"{todo}{', or another encoder' if others else ''}{enlarge}",
    )


def probe(module: nn.Module, name: str, sample: Tensor, part: str = "encoder") -> int:
    """Width of the output of a network for two samples; `part` says what it is."""
    training = module.training
    try:
        device = next((p.device for p in module.parameters()), sample.device)
        with torch.no_grad():
            h = module.eval()(sample.to(device))
    except Exception as error:
        raise InputError(
            f"the {part} {name} fails on samples of shape {tuple(sample.shape[1:])}: {error_text(error)}"
        ) from error
    finally:
        module.train(training)
    if not isinstance(h, Tensor) or h.shape[:1] != (2,) or h.ndim != 2:
        shape = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise InputError(f"the {part} {name} returns {shape} for 2 samples, expected (2, width)")
    return h.shape[1]


def principal_axes(options: Arguments, data: TrainingData, views: Sequence[Entry]) -> int | None:
    """Number of principal components that the encoder of vectors gets; None: it gets the features."""
    on_disk = isinstance(data.rows, RowSource) and len(data.row_shape) == 1
    if not (on_disk or isinstance(data.x, Tensor)):
        return None
    n, d = data.rows.shape
    axes = options.input_components
    if axes == "auto":
        # Neighbors are searched in memory, which rows on disk do not fit into.
        wide = d > (AXES if too_large_for_memory(data.rows) else WIDE)
        axes = AXES if wide and any(view.tag("neighbors") for view in views) else None
    return None if axes is None else min(axes, d, n)


# Options of where and how long to train and who watches: a resumed run may change them.
NOT_CONFIGURATION = ("verbose", "minutes", "device", "checkpoint_every", "callbacks")


def configuration(estimator: Any, seed: Any, data: Any, fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that rebuilds the model: method, parameters and their parts, origin of the data, resolved settings."""
    name, parameters, cls = estimator.name, estimator.get_params(deep=False), cast(type, type(estimator))
    kept = {k: v for k, v in parameters.items() if k not in NOT_CONFIGURATION} | {"random_state": seed}
    kept = {k: _as_text(v) for k, v in kept.items()}
    config: dict[str, Any] = {"viewsmith": __version__, "method": name}
    entry = get("method", name)
    if entry is not None and entry.origin != "viewsmith":
        config["package"] = entry.origin
    found = places(cls)
    config["parts"] = {slot: [option for option in kept if found[option] == slot] for slot in slots(cls)}
    config["parameters"] = kept
    if data is not None:
        config["data"] = data
    return config | {"fitted": dict(fitted)}


#: Options that a configuration has among what was resolved, besides those that can be "auto" and those that changed.
RECORDED = ("framework", "framework_options", "view_maker", "view_options", "encoder", "encoder_options")


def recorded(given: Mapping[str, Any], options: Any, facts: Facts) -> dict[str, Any]:
    """What fit has resolved, plain values by name: facts, and options, unless no part has them ("auto")."""
    cls: Any = type(options)
    found, fields = facts.as_dict(), schema(cls).model_fields
    for name, value in options.get_params(deep=False).items():
        text, before = plain(_as_text(value)), plain(_as_text(given[name]))
        automatic = fields[name].default == "auto" or "'auto'" in str(fields[name].annotation)
        number = isinstance(value, int | float | str | tuple) and text != "auto"  # no custom part
        kept = name in RECORDED or (automatic and number) or text != before
        if kept and name not in found and name not in NOT_CONFIGURATION:
            found[name] = text
    return found


def of_record(
    estimator: Any, fitted: Mapping[str, Any], custom: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Any, Any]:
    """Options without "auto" and facts, from the given options and what `recorded` has; `custom` has parts by name."""
    cls, given = type(estimator), estimator.get_params(deep=False)
    facts = cls.facts_type.from_dict(fitted)
    names = (name for name in dict.fromkeys(("epochs", *fitted)) if name in given and name not in vars(facts))
    known = {name: fitted[name] for name in names}
    found = known.pop("scaling", given.get("scaling"))  # the layer of a plug-in's modality may name its own
    options = check_options(cls, given | known | dict(custom))
    options.scaling = str(found)
    return options, facts


def _as_text(value: Any) -> Any:
    """An option in a configuration: paths, modules, functions and models as text."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return text_of(value) if callable(value) or isinstance(value, BaseEstimator) else value


def read_encoder(facts: Facts, where: object) -> TableEncoder | None:
    """The encoder of a table from its plain values in a configuration; None if there are none."""
    if facts.table is None:
        return None
    try:
        encoder = TableEncoder.from_dict(facts.table)
        if len(encoder.features) != facts.row_shape[0]:
            raise ValueError(f"{len(encoder.features)} features instead of {facts.row_shape[0]}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} is damaged: its table has {error}; restore it or train again") from error
    return encoder


def check_packages(packages: Mapping[str, str], where: object) -> None:
    """Raise InputError if a part of a model, ``KIND NAME``, comes from a package that is not installed."""
    for part, package in packages.items():
        # Kinds and names may contain spaces; no kind is a prefix of another.
        kind: Kind = next(k for k in typing.get_args(Kind) if part.startswith(f"{k} "))
        check_package(kind, part.removeprefix(f"{kind} "), package, where)


def check_package(kind: Kind, name: str, package: str, where: object) -> None:
    """Raise InputError, with the package to install, if a part is not registered."""
    if get(kind, name) is not None:
        return
    if package == "__main__":
        missing = "was registered by a script or notebook: run that part of it first"
    else:
        missing = f"is part of the package {package!r}, which is not installed: install it first"
    raise InputError(f"the model of {where} uses the {kind} {name!r}, which {missing}")
