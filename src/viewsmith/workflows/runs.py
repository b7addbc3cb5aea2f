"""Between a model, its run folder and a data set: what the commands need and scripts may call."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.data import Dataset, load_dataset
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.custom_transforms import CUSTOM
from viewsmith.estimators.build.resolve import MODULE
from viewsmith.estimators.neighbors import graph_record, read_neighbors
from viewsmith.estimators.rows import fingerprint
from viewsmith.training.checkpoint import POINTER
from viewsmith.training.run import RunFolder


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes when started by torchrun; nothing otherwise."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or torch.distributed.is_initialized():
        yield
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "nccl"
    torch.distributed.init_process_group(backend)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@contextlib.contextmanager
def withdrawn_on_error(run: Path) -> Iterator[None]:
    """Take back a new run that failed before there was a checkpoint to resume from, and the folders made for it."""
    absent = [path for path in (run, *run.parents) if not path.exists()]
    new = bool(absent) or (run.is_dir() and not any(run.iterdir()))
    try:
        yield
    except BaseException:
        if new and distributed.rank() == 0 and not (run / "checkpoint" / POINTER).exists():
            with contextlib.suppress(OSError):
                for path in run.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                for path in absent:
                    path.rmdir()
        raise


def already_finished(model: ViewsmithEstimator, run: Path, context: dict[str, Any], *, resume: bool) -> bool:
    """Whether a run of just this model and data is complete, so that nothing is left to do.

    Raises
    ------
    InputError
        A run on other data or, if it is complete, of another configuration; or `resume` was not asked for.
    """
    folder = RunFolder(run)
    if not folder.exists():
        return False
    with rebuilding(run):
        there, now = folder.read_config().get("data", {}), context["data"]
        if there.get("fingerprint") != now["fingerprint"]:
            raise InputError(
                f"{run} holds a run on other rows or columns (of {there.get('source')!r}, now {now['source']!r}): "
                "choose another folder, or delete this one"
            )
        if folder.read_summary().get("status") != "finished":
            return False
        folder.open_for(model.configuration(now), resume=resume)
    try:
        folder.read_weights()
    except InputError:
        return False  # damaged: the last checkpoint has them, too
    return True


def load_run(run: Path, own: Mapping[str, Any] = MappingProxyType({})) -> ViewsmithEstimator:
    """The model of a run, with the parts of the user's `own`; whatever keeps it from being rebuilt is an InputError."""
    from viewsmith.estimators import load

    with rebuilding(run):
        if not own and (missing := custom_part(RunFolder(run).read_config())):
            name, kind = missing
            raise InputError(
                f"the {name} of the run {run} is {kind} of the user's own, which commands cannot make: use Python, "
                f"viewsmith.load({str(run)!r}, {name}={kind.split()[-1]})"
            )
        model: ViewsmithEstimator = load(run, **own).set_params(verbose=True)
        return model


def custom_part(config: dict[str, Any]) -> tuple[str, str] | None:
    """Argument and kind of a part that Python alone can give."""
    parameters = config.get("parameters", {})
    kinds = (
        ("encoder", MODULE, "a module"),
        ("framework", MODULE, "a framework"),
        ("view_maker", MODULE, "a view_maker"),
        ("family", CUSTOM, "a family"),
    )
    for name, prefix, kind in kinds:
        if str(parameters.get(name)).startswith(prefix):
            return name, kind
    return None


@contextlib.contextmanager
def rebuilding(run: Path) -> Iterator[None]:
    """Name the run in whatever its files raise when they are not as we wrote them, as an InputError."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, InputError) and str(run) in str(error):
            raise
        detail = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(f"the run {run} is damaged or of another version ({detail}): restore it or train again") from (
            error
        )


def data_record(dataset: Dataset, transductive: bool = False) -> dict[str, Any]:
    """What a run keeps of its data: the part of the configuration, and the split."""
    split: dict[str, Any] = {"kind": dataset.split, "train": len(dataset.train_index), "transductive": transductive}
    if dataset.test_index is not None:
        split["test"] = len(dataset.test_index)
    if dataset.split == "stratified":
        split |= {"train_index": dataset.train_index.tolist(), "test_index": np.asarray(dataset.test_index).tolist()}
    return {
        "data": {
            # A file name may hold bytes that are no text, and the configuration is text.
            "source": dataset.source.encode("utf-8", "replace").decode("utf-8"),
            "domain": dataset.domain,
            "transductive": transductive,
            "fingerprint": fingerprint(dataset.x),
            "schema": json.dumps(dataset.schema),
            **graph_record(read_neighbors(dataset.fit_neighbors(transductive), len(dataset.fit_rows(transductive)))),
        },
        "split": split,
        "feature_names": dataset.feature_names,
    }


def load_for(model: ViewsmithEstimator, data: str, label: str | None, labels: Path | None = None) -> Dataset:
    """DATA as the model's training data were read: same columns, same order, same domain."""
    return load_dataset(data, label=label, labels=labels, schema=_schema(model))


def _schema(model: ViewsmithEstimator) -> dict[str, Any]:
    """`Dataset.schema` of what the model was fitted on; of a fit in Python what is known, the names of a DataFrame."""
    resolved = model.resolved_
    named = resolved.feature_names if resolved.named else None
    schema = {
        "columns": named,
        "one_hot": {},
        "drop": [],
        "label": None,
        "domain": resolved.domain,
        "impute": model.options_.impute,
        "row_shape": model.domain_.kept_shape(resolved.row_shape),
        "feature_names": named,
    }
    # Of rows that were given in Python a run keeps a fingerprint alone.
    if "source" not in model.context_.get("data", {}):
        return schema
    try:
        kept: dict[str, Any] = json.loads(model.context_["data"]["schema"])
        if kept.keys() >= schema.keys():
            return kept
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise InputError("the config.toml of the run is damaged or of another version: its data.schema is not complete")


def split_rows(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one side of the split, and their numbers in the array or table they came from."""
    if split not in ("train", "test"):
        raise InputError(f"--split is {split!r}, expected train or test")
    if split == "test" and dataset.test_index is None:
        raise InputError(f"{dataset.source} has no test rows: use --split train")
    index = dataset.train_index if split == "train" else dataset.test_index
    assert index is not None
    start = index[0] if dataset.split == "given" else 0
    return dataset.x[index], index - start
