"""What a command refuses before it imports torch: paths that do not exist, places that cannot be written to, names of
parts that nothing has, and wrong options. Everything is checked again, with all reasons, by the code that uses it.

Names, options and presets of all parts of the package are in `declared.json`, which `python
tests/cli/test_cli_declared.py` writes.
"""

import ast
import contextlib
import dataclasses
import functools
import gc
import itertools
import json
import math
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import Bounds, Entry, Kind, find, has_others, plugins, standing_in
from viewsmith.data.options import DataOptions
from viewsmith.data.places import BUILTIN, check_free, check_parent, check_run, check_source, is_result
from viewsmith.data.unread import refuse_unread
from viewsmith.estimator.options import Part

if TYPE_CHECKING:
    from viewsmith.data import Dataset
    from viewsmith.estimator.base import ViewsmithEstimator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Within the context garbage is not collected: modules make half a million objects, all of which stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


FILE = Path(__file__).with_name("declared.json")

#: What annotations consist of; modules and models are not given in text.
TYPES = {"typing": typing, "Bounds": Bounds, "Any": Any, "Mapping": Mapping, "Sequence": Sequence}


@functools.cache
def content() -> dict[str, Any]:
    """What is declared: classes of estimators, and parts by kind."""
    return json.loads(FILE.read_text(encoding="utf-8"))


@contextlib.contextmanager
def parts_declared() -> Iterator[None]:
    """The registry has the declared parts alone, whose options can be checked, and which cannot be built; if there are
    parts of others, it has all, which are then imported."""
    if has_others():
        import viewsmith.methods.loading  # noqa: F401, it registers parts

        yield
        return
    with standing_in(_entries()):
        yield


@functools.cache
def _entries() -> list[Entry]:
    found = []
    for kind, parts in content()["parts"].items():
        for part in parts:
            tags = part["tags"] | {"options": _Options(part["options"])}
            build: Any = SimpleNamespace(**part["attributes"])
            if kind == "method":
                build, tags = _class(part["class"]), part["tags"]
            elif kind == "modality":
                build = functools.partial(_Modality, **part["attributes"])
            found.append(Entry(typing.cast(Kind, kind), part["name"], build, "", tuple(part["modalities"]), "", tags))
    return found


class _Modality(SimpleNamespace):
    """Defaults of a modality; its argument, as in ``letters:ABC``, changes none of them."""

    def __init__(self, argument: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)


class _Options(dict[str, Any]):
    """Options of a part by name: their annotations, evaluated when they are asked for."""

    def items(self) -> Any:
        return {name: _annotation(text) for name, text in super().items()}.items()


@functools.cache
def _annotation(text: str) -> Any:
    return eval(text, {**TYPES})  # of this package's own file


@functools.cache
def _class(name: str) -> type:
    """A class with the options of an estimator, or of a part of one, and nothing else."""
    told = content()["classes"][name]
    annotations = {option: _annotation(text) for option, (text, _) in told["options"].items()}
    defaults = {option: ast.literal_eval(default) for option, (_, default) in told["options"].items()}
    constants = {constant: ast.literal_eval(value) for constant, value in told["constants"].items()}
    annotations |= dict.fromkeys(constants, ClassVar[Any])
    # Of no module: no text is searched for its documentation.
    body = {"__annotations__": annotations, "__module__": "", **defaults, **constants}
    made = type(name, tuple(_class(base) for base in told["bases"]) or (Part,), body)
    # An estimator has its options as attributes.
    return dataclasses.dataclass(kw_only=True, eq=False, repr=False, init="name" in constants)(made)


def check_paths(
    *,
    data: str | None = None,
    run: str | Path | None = None,
    new_run: Path | None = None,
    file: Path | None = None,
    read: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Raise InputError for a run, data or labels that do not exist, a place for results that is not free, or an option
    of reading data out of its range."""
    if data is not None and is_result(Path(data)):
        raise InputError(f"{data} is a run, expected data{': give the run first, then the data' if run else ''}")
    if run is not None:
        check_run(run)
    if new_run is not None:
        check_free(new_run)
    if data is not None:
        check_source(data)
        if data not in BUILTIN and not plugins():  # a plug-in may read it
            refuse_unread(Path(data))
    if (labels := read.get("labels")) is not None and not Path(labels).exists():
        raise InputError(f"labels: {labels} does not exist; expected a file, or a folder with one for each recording")
    if file is not None:
        check_parent(file)
    check_names("modality", [read.get("modality")], also=["auto"])
    DataOptions(**read).checked()


#: Data with at most so many bytes, or files in a folder, are read before the options of a method are checked.
QUICK_BYTES, QUICK_FILES = 2**25, 1000


def reads_quickly(data: str) -> bool:
    """Whether reading data takes less time than importing estimators: then faults of the data are found first."""
    path = Path(data.partition("::")[0])
    if path.is_dir():
        return next(itertools.islice(path.rglob("*"), QUICK_FILES, None), None) is None
    return not path.exists() or path.stat().st_size <= QUICK_BYTES


def check_names(kind: Kind, given: Iterable[str | None], also: Iterable[str] = ()) -> None:
    """Raise InputError for a name that no part of a kind has, in any modality."""
    with parts_declared():
        for name in given:
            if name is not None and name not in also:
                find(kind, name)


#: Outputs of models, by `transform(output=...)`.
OUTPUTS = "representation|projection|map|view-[0-9]+"

#: Values of flags that are checked where the options are declared, too, beside torch.
CHOICES: dict[str, tuple[str, ...]] = {
    "precision": ("32", "bf16"),
    "inference": ("expectation", "top", "uniform"),
    "by": ("tsne", "umap", "pca", "map"),
    "split": ("train", "test"),
    "format": ("timm", "torchvision", "onnx", "safetensors"),
}
#: The same for values that are no list: a condition, and what is expected, in words.
CONDITIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "epochs": (
        lambda text: text == "auto" or (text.isdecimal() and int(text) > 0),
        "a whole number above 0, or 'auto'",
    ),
    "minutes": (lambda minutes: minutes > 0, "a number above 0"),
    "batch_size": (lambda rows: rows > 1, "a whole number of at least 2"),
    "device": (lambda text: bool(re.fullmatch(r"auto|cpu|cuda(:\d+)?", text)), "'auto', 'cpu', 'cuda' or 'cuda:N'"),
    "checkpoint_every": (lambda seconds: 0 <= seconds < math.inf, "a number of at least 0"),
    "max_q": (lambda q: 0 < q <= 1, "a number in (0, 1]"),
    "output": (lambda text: bool(re.fullmatch(OUTPUTS, text)), "'representation', 'projection', 'map' or 'view-1'"),
}


def check_values(**given: Any) -> None:
    """Raise InputError for the value of a flag that no method has, those of plug-ins apart; None is not given."""
    for name, value in given.items():
        if value is None or (name == "output" and plugins()):
            continue
        known = CHOICES.get(name)
        holds, expected = (known.__contains__, join_names(known)) if known else CONDITIONS.get(name, (bool, ""))
        if expected and not holds(value):
            raise InputError(f"--{name.replace('_', '-')} is {value!r}, expected {expected}")


#: Scores of evaluations, listed here because where they are declared torch is imported (a test compares).
PROTOCOLS = (
    "linear, knn, svm, kmeans_accuracy, nmi, ari, kmeans_accuracy_l2, nmi_l2, ari_l2, linear_1pct, linear_10pct, "
    "softmax_50, r2, mae, knn_r2, r2_1pct, r2_10pct"
)


#: Names of presets of methods, and of loggers.
PRESETS, TRACKERS = "paper, paper2d", "tensorboard, mlflow, wandb"


def check_listed(listed: str, what: str, given: Iterable[str], number: str = "one or more of ") -> None:
    """Raise InputError for a name that is not in a list; methods of plug-ins may have other presets and scores."""
    if (unknown := [name for name in given if name not in listed.split(", ")]) and not plugins():
        raise InputError(f"unknown {what} {unknown[0]!r}; expected {number}{listed}")


def beside(run: Path) -> dict[str, Any]:
    """Options of `load_dataset` for data of a run: processes share them, decoded images of a large folder are kept."""
    shared = int(os.environ.get("WORLD_SIZE", "1")) > 1  # as torchrun sets it
    return {"shared": shared, "cache_if_large": run.with_name(f"{run.name}.cache")}


def data_of_run(run: Path, data: str, read: Mapping[str, Any], *, labeled: bool = False) -> "Dataset | None":
    """Data in the form that the model of a run takes, before it is loaded, whose imports take seconds; None if reading
    them takes longer, or needs the model. `labeled`: there have to be labels, and test rows."""
    if not reads_quickly(data):
        return None
    from viewsmith.data.sources import read_for_run

    dataset = read_for_run(run, data, {**read, **beside(run)})
    if labeled and dataset is not None:
        from viewsmith.data.dataset import check_split

        if dataset.label_fault is not None:
            raise InputError(dataset.label_fault)
        check_split(dataset)
    return dataset


def model_and_data(
    run: Path, data: str, read: Mapping[str, Any], *, labeled: bool = False
) -> "tuple[ViewsmithEstimator, Dataset]":
    """The model of a run, and its data, which are read first if that is quick (`data_of_run`)."""
    dataset = data_of_run(run, data, read, labeled=labeled)
    from viewsmith.workflows.runs import load_for, load_run

    model = load_run(run)
    return model, load_for(model, data, labeled=labeled, dataset=dataset, **read, **beside(run))
