"""Between a model, its run folder and a data set: what the commands need and scripts may call."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.data import Dataset, load_dataset
from viewsmith.domains.checks import check_labels
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.custom_transforms import OWN, FamilyOption
from viewsmith.estimators.rows import fingerprint
from viewsmith.reports import ReportContent, write_report
from viewsmith.training.checkpoint import POINTER
from viewsmith.training.run import RunFolder
from viewsmith.workflows.figures import pictures as make_pictures


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
    """Take back a new run that failed before there was a checkpoint to go on from, and the folders made for it."""
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
        blank = clone(model)
        blank.fitted_ = {"seed": model.random_state}
        folder.open_for(blank._config(context), resume=resume)
    try:
        folder.read_weights()
    except InputError:
        return False  # damaged: the last checkpoint has them, too
    return True


def load_run(run: Path, own: Mapping[str, Any] = MappingProxyType({})) -> ViewsmithEstimator:
    """The model of a run, with the parts of the user's `own`; whatever keeps it from being rebuilt is an InputError."""
    from viewsmith.estimators import load

    with rebuilding(run):
        if not own and (missing := _own_part(RunFolder(run).read_config())):
            name, kind = missing
            raise InputError(
                f"the {name} of the run {run} is {kind} of the user's own, which commands cannot make: use Python, "
                f"viewsmith.load({str(run)!r}, {name}={kind.split()[-1]})"
            )
        return load(run, **own)


def _own_part(config: dict[str, Any]) -> tuple[str, str] | None:
    """Argument and kind of a part that Python alone can give."""
    parameters = config.get("parameters", {})
    for name, prefix, kind in (("encoder", "module:", "a module"), ("family", OWN, "a family")):
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
        },
        "split": split,
        "feature_names": dataset.feature_names,
    }


def load_for(model: ViewsmithEstimator, data: str, label: str | None, labels: Path | None = None) -> Dataset:
    """DATA as the model's training data were read: same columns, same order, same domain."""
    return load_dataset(data, label=label, labels=labels, schema=_schema(model))


def _schema(model: ViewsmithEstimator) -> dict[str, Any]:
    """`Dataset.schema` of what the model was fitted on; of a fit in Python what is known, the names of a DataFrame."""
    named = model.fitted_["feature_names"] if model.fitted_["named"] else None
    schema = {
        "columns": named,
        "one_hot": {},
        "drop": [],
        "label": None,
        "domain": model.fitted_["domain"],
        "impute": model.options_.impute,
        "row_shape": [None] if model.fitted_["domain"] == "dna" else model.fitted_["row_shape"],
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


def part(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one side of the split, and their numbers in the array or table they came from."""
    if split not in ("train", "test"):
        raise InputError(f"--split is {split!r}, expected train or test")
    if split == "test" and dataset.test_index is None:
        raise InputError(f"{dataset.source} has no test rows: use --split train")
    index = dataset.train_index if split == "train" else dataset.test_index
    assert index is not None
    start = index[0] if dataset.split == "given" else 0
    return dataset.x[index], index - start


def report_content(
    folder: RunFolder,
    *,
    data: Any = None,
    y: Any = None,
    label: str | None = None,
    labels: Path | None = None,
    pictures: bool = False,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> ReportContent:
    """Everything a report shows of a run; maps, profiles and galleries need its data and are made on request.

    See `report`; `own` are the parts of the model that no text describes, by argument of `viewsmith.load`.
    """
    with rebuilding(folder.path):
        config, summary = folder.read_config(), folder.read_summary()
        source = config.get("data", {}).get("source")
        content: dict[str, Any] = {
            "title": f"{config.get('method', 'run')} on {Path(source or 'arrays').name}",
            "method": str(config.get("method")),
            "config": config,
            "summary": summary,
            "metrics": folder.read_metrics(),
            "warnings": list(summary.get("warnings", [])),
            "evaluation": folder.read_evaluation(),
        }
    if pictures and not folder.model.exists():
        warnings.warn("no maps and galleries: the training has not ended yet", UserWarning, stacklevel=2)
    elif pictures and not own and (missing := _own_part(config)):
        line = (
            f"no maps and galleries: the {missing[0]} is {missing[1]} of the user's own; in Python, "
            f"viewsmith.report({str(folder.path)!r}, X, {missing[0]}={missing[1].split()[-1]}) draws them"
        )
        warnings.warn(line, UserWarning, stacklevel=2)
    elif pictures:
        model = load_run(folder.path, own)
        try:
            if data is None and source is None:
                raise InputError("the run names no data; give --data")
            given = data is not None and not isinstance(data, str | Path)
            rows = _arrays(model, data, y) if given else load_for(model, str(data or source), label, labels)
            content |= make_pictures(model, rows)
        except InputError as error:
            warnings.warn(f"no maps and galleries: {error}", UserWarning, stacklevel=2)
    return ReportContent(**content)


def report(
    run: str | os.PathLike[str],
    data: Any = None,
    y: Any = None,
    *,
    label: str | None = None,
    labels: Path | None = None,
    encoder: nn.Module | None = None,
    family: FamilyOption | None = None,
    features: nn.Module | None = None,
) -> Path:
    """Write ``report.html`` of a run, as the command does, also of models with parts that commands cannot make.

    Parameters
    ----------
    run : path
    data : str, path or array-like, optional
        What maps and views are drawn from; default: the data that the run names.
    y : array-like, optional
        Labels of an array, the colors of maps.
    label, labels : str, path, optional
        Of a file, see `viewsmith.data.load_dataset`.
    encoder, family, features : optional
        As in `viewsmith.load`.

    Returns
    -------
    Path
        Of the report.

    Raises
    ------
    InputError
        There is no run, or it is damaged, or not of such parts.
    """
    given = {"encoder": encoder, "family": family, "features": features}
    own = {name: part for name, part in given.items() if part is not None}
    folder = RunFolder(run)
    folder.require()
    content = report_content(folder, data=data, y=y, label=label, labels=labels, pictures=True, own=own)
    write_report(folder.report, content)
    return folder.report


def _arrays(model: ViewsmithEstimator, X: Any, y: Any) -> Dataset:
    """Samples that are at hand as a data set without a split."""
    x = model._known_rows(X)
    labels = None if y is None else check_labels(np.asarray(y), len(x), "y")
    rows = np.arange(len(x))
    domain, names = model.fitted_["domain"], model.fitted_["feature_names"] or None
    return Dataset(x, labels, rows, None, "none", domain, "arrays", names, {}, None)
