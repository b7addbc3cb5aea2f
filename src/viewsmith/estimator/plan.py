"""What the stages of `fit` pass on: training data, resolved settings, the context that modules are built from; and
configurations, which are written from an estimator and checked when they are read. Rows of the training on disk, their
fingerprints, and views drawn block by block."""

import contextlib
import dataclasses
import hashlib
import itertools
import math
import os
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from viewsmith.core import __version__, distributed
from viewsmith.core.errors import InputError, error_text, warn
from viewsmith.core.files import read_mapped, write_mapped
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.core.registry import Entry, Kind, get
from viewsmith.core.rows import ArrayRows, RowSource, is_pil, row_blocks, too_large_for_memory
from viewsmith.core.samples import Rows, Samples, batches, block_size, blocks, evenly_spaced, shared_tensor
from viewsmith.core.schedule import Method
from viewsmith.core.tensors import stream
from viewsmith.data.map_style import is_map_style
from viewsmith.estimator.arguments import Arguments
from viewsmith.estimator.options import MODULE, check_options, places, schema, slots
from viewsmith.frameworks.supervision import FewLabels
from viewsmith.modalities import Modality
from viewsmith.modalities.images.encoders import SMALLEST
from viewsmith.modalities.tables.encoder import TableEncoder
from viewsmith.networks.features import name_of
from viewsmith.networks.scaling import PrincipalAxes
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
    # size and spread of the scaled training rows, by which rows off their scale are seen (`viewsmith.estimator.plan`)
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
    fault = f"the images have {{have}}, but the {part} {name} needs at least {{least}}"
    way = f"{smaller}enlarge them, or use every row as a flat vector with modality='vectors' (--modality vectors)"
    data.modality.check_size(fault, size, smallest, way)


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


# Widest rows that are kept as they are where the encoder has no principal axes.
WIDEST = 200


def training_rows(method: Method, x: Rows, file: Path | None, *, max_rows: int | None = None, seed: int = 0) -> Rows:
    """The rows to train on: those given, or of rows on disk their coordinates, float32 (n, k), mapped from a file, if
    the method `takes_coordinates`, or a copy if their file can only be read in order."""
    if isinstance(x, Tensor) or not isinstance(x.rows, RowSource):
        return x
    rows = x.rows
    if not method.takes_coordinates or rows.ndim > 2:
        if rows.by_index:
            return x
        copy = _shared(rows.blocks(), rows.shape, file, rows.dtype)
        return Samples(ArrayRows(copy, rows.name, rows.dtype), x.scale)
    if max_rows is not None and len(rows) > max_rows and not rows.small:
        drawn = torch.randperm(len(rows), generator=stream(seed, "rows"))[:max_rows]
        rows = rows.select(drawn.sort().values.numpy())
    axes = next((m for m in method.modules() if isinstance(m, PrincipalAxes)), None)
    width = rows.shape[1] if axes is None else axes.axes.shape[1]
    if width > WIDEST and axes is None and not rows.small:
        raise InputError(
            f"{rows.name} has {width:,} features, of rows that stay on disk: neighbors are searched on at most "
            f"{WIDEST} principal axes, give their number with input_components (auto: 50) and the encoder mlp"
        )

    def coordinates() -> Iterator[np.ndarray]:
        for block, count in blocks(rows):
            with torch.no_grad():
                scaled = x.scale(block)
                found = scaled if axes is None else axes(scaled)
            yield found[:count].numpy()

    return torch.from_numpy(_shared(coordinates(), (len(rows), width), file))


def _shared(
    parts: Iterator[np.ndarray], shape: tuple[int, ...], file: Path | None, dtype: Any = np.float32
) -> np.ndarray:
    """Rows in a file that all processes map; without a name for it, each has its own."""
    if file is None:
        return write_mapped(parts, shape, dtype=dtype)
    if distributed.rank() == 0:
        write_mapped(parts, shape, file, dtype)
    distributed.barrier()
    return read_mapped(file)


#: From scaled rows, the slice of all rows that they are, and a random stream to views of these rows.
Draw = Callable[[Tensor, slice, torch.Generator], Tensor]

#: Rows of a training of which a run keeps a hash each: at most 800 kB.
MOST_HASHED = 100_000


def fingerprint(x: np.ndarray | RowSource) -> str:
    """Short digest of the content of rows, the same in memory and read block by block."""
    digest = hashlib.sha256()
    for block in row_blocks(x):
        digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()[:16]


def row_hashes(x: np.ndarray | RowSource) -> Tensor | None:
    """A number for the content of each row, int64 (n,), to find it in other data; None for more than `MOST_HASHED`
    rows, and rows too large for memory."""
    if len(x) > MOST_HASHED or too_large_for_memory(x):
        return None
    rows = (row for block in row_blocks(x) for row in np.asarray(block))
    # Zeros at the end are left out: sequences are padded by them, in another file perhaps to another length.
    digests = (hashlib.blake2b(row.tobytes().rstrip(b"\0"), digest_size=8).digest() for row in rows)
    return torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.int64)


def device_of(*modules: nn.Module) -> torch.device:
    """The device of the first tensor of these modules; an input layer may have none."""
    return next(itertools.chain(*((*m.buffers(), *m.parameters()) for m in modules))).device


def unscaled(rows: np.ndarray | RowSource) -> Tensor | RowSource:
    """Rows as the input layer takes them: a tensor that shares their memory, or the source itself."""
    return rows if isinstance(rows, RowSource) else shared_tensor(rows)


def represent_blocks(
    represent: Callable[[Tensor], Tensor], rows: np.ndarray | RowSource, views_a_row: int, progress: bool
) -> Iterator[np.ndarray]:
    """What `represent` makes of unscaled rows, float32, block by block in order."""
    parts: Iterable[tuple[Tensor, int]] = blocks(unscaled(rows), views_a_row)
    if progress:
        parts = with_progress(parts, "transform", len(rows), "rows", size=lambda part: part[1], told=TOLD)
    for block, count in parts:
        with torch.no_grad():
            made = represent(block)
        yield made.float()[:count].cpu().numpy()


@contextlib.contextmanager
def prepared(method: Method, pool: Rows, seed: int) -> Iterator[None]:
    """The method with a pool of scaled rows, if its views use other rows."""
    try:
        if method.needs_pool:
            if len(pool) < 2:
                raise InputError(
                    "views of this model need other rows: expected at least two rows, got one; give pool=rows"
                )
            with torch.no_grad():
                method.prepare(pool, seed)
        yield
    finally:
        method.release()


def view_blocks(draw: Draw, x: Rows, n_views: int, seed: int) -> Iterator[np.ndarray]:
    """Views of scaled rows, block by block in order, with one random stream for each view: (b, n_views, ...)."""
    size = block_size(x[:1])
    generators = [stream(seed, "views", number, device=x.device) for number in range(n_views)]
    parts = [slice(start, min(start + size, len(x))) for start in range(0, len(x), size)]
    for part, block in zip(parts, batches(x, parts), strict=True):
        with torch.no_grad():
            yield torch.stack([draw(block, part, generator).cpu() for generator in generators], dim=1).numpy()


def drawn(model: Any, X: Any, x: Rows, index: Tensor | None, n_views: int, seed: int) -> Iterator[np.ndarray]:
    """Views of X (scaled: x, the rows `index` of the pool) in the units of the data, (b, n_views, ...)."""

    def view(block: Tensor, part: slice, generator: torch.Generator) -> Tensor:
        positions = None if index is None else index[part]
        return model.scaler_.inverse(model.method_.view(block, index=positions, generator=generator))

    for views in view_blocks(view, x, n_views, seed):
        yield model.modality_.in_input_format(views, extent(X, model.facts_))


@torch.no_grad()
def embed_views(method: Method, x: Rows, index: Tensor | None, seed: int) -> Iterator[np.ndarray]:
    """Representations of a view of each scaled row (of row `index` of the pool), float32, block by block in order."""
    generator, size = stream(seed, "views", device=x.device), block_size(x[:1])
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        views = method.view(x[part], index=None if index is None else index[part], generator=generator)
        yield method.represent(views).float().cpu().numpy()


def collected(parts: Iterable[np.ndarray], n_rows: int) -> np.ndarray:
    """Blocks of `n_rows` rows as one array."""
    made: np.ndarray | None = None
    done = 0
    for part in parts:
        # Filled in place: collected parts and their concatenation would take twice the memory.
        made = np.empty((n_rows, *part.shape[1:]), part.dtype) if made is None else made
        made[done : done + len(part)] = part
        done += len(part)
    assert made is not None
    return made


def extent(X: Any, facts: Facts) -> tuple[int, ...]:
    """Shape of the user's samples, (n, ...); of a dataset, and a list of samples of any lengths, that of the rows they
    were read as."""
    as_read = is_map_style(X) or (isinstance(X, list) and any(map(is_pil, X)))
    as_read = as_read or (isinstance(X, list) and len({np.shape(each) for each in X}) > 1)
    return (len(X), *facts.row_shape) if as_read else np.shape(X)


# ---- rows off the scale of the fit -----------------------------------------------------------------------------------
SEEN, SEEN_VALUES = 1000, 2**24  # rows that are looked at, and values, of which large rows have many
SEEN_AT_ONCE = 2**18

# Times the size of the training rows from which on, and times their spread up to which, new ones are off their scale.
# Test parts of 16 sets: 0.97 to 1.04 and 0.88 to 1.12; batches and subjects held out: at most 1.6 and at least 0.37;
# whole classes held out: at most 2.6 and at least 0.27.
FAR, NEAR = 6.0, 0.03
FEWEST = 10  # rows of which a spread says something


def reach(x: Tensor) -> dict[str, float]:
    """Median and largest root mean square of scaled rows (n, ...), and their spread: the root mean square of the
    standard deviations of their values. Values that are not known (NaN) are left out of the former, and 0 in the
    latter."""
    rows = x.flatten(1)
    # In float64 some at a time: of large images all copies together would take half a gigabyte.
    some, columns = (max(1, SEEN_AT_ONCE // max(1, side)) for side in reversed(rows.shape))
    size = torch.cat([part.double().square().nanmean(1) for part in rows.split(some)]).sqrt()
    parts = (part.double().nan_to_num().var(0, correction=0) for part in rows.split(columns, 1))
    spread = torch.cat(list(parts)).mean().sqrt()
    return {"size": float(size.median()), "largest": float(size.max()), "spread": float(spread)}


def reach_of(x: Rows) -> dict[str, float]:
    """`reach` of up to `SEEN` training rows; empty if they are not finite."""
    found = reach(x[evenly_spaced(len(x), _seen(x))])
    finite = all(map(math.isfinite, found.values()))
    return {name: float(f"{value:.6g}") for name, value in found.items() if finite}


def some_of(rows: Any) -> Any:
    """Up to `SEEN` rows, spread evenly unless the rows can only be read in order."""
    if isinstance(rows, RowSource) and not rows.by_index:
        return rows[: _seen(rows)]
    return rows[evenly_spaced(len(rows), _seen(rows)).numpy()]


def _seen(rows: Any) -> int:
    """How many rows are looked at: fewer large ones, which are scaled in memory together."""
    return max(FEWEST, min(SEEN, SEEN_VALUES // max(1, math.prod(rows[:1].shape[1:]))))


def warn_off_scale(x: Tensor, fitted: dict[str, float]) -> None:
    """Warn of new scaled rows (n, ...) that are much larger than those of the fit, or differ much less."""
    if not fitted or not len(x):
        return
    found = reach(x)
    advice = "are units and preprocessing the same?"
    if not found["size"] <= max(FAR * fitted["size"], fitted["largest"]):
        times = float(f"{found['size'] / max(fitted['size'], 1e-30):.0e}")
        warn(f"the rows are off the scale of the fit, {times:,.0f} times as large as its rows after scaling: {advice}")
    elif len(x) >= FEWEST and 0 < found["spread"] < NEAR * fitted["spread"]:
        times = found["spread"] / fitted["spread"]
        warn(f"the rows are off the scale of the fit, their spread is {times:.1g} of that of its rows: {advice}")
