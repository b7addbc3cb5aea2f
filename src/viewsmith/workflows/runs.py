"""Runs of commands: their data, their training with its folder, and their reports."""

import contextlib
import dataclasses
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, InUseError, pluralize, warn
from viewsmith.data.dataset import Dataset, Split, take
from viewsmith.data.labels import few_label_codes, few_label_numbers, group_codes, without_label
from viewsmith.data.options import DataOptions
from viewsmith.data.places import config_of, downloaded
from viewsmith.data.sources import read_dataset, schema_of
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.figures import as_dataset
from viewsmith.estimator.inputs import codes_digest, graph_record, read_neighbors
from viewsmith.estimator.options import MODULE
from viewsmith.estimator.plan import fingerprint, row_hashes
from viewsmith.methods.crl_tac.families import CUSTOM
from viewsmith.methods.loading import load
from viewsmith.modalities.vectors.counts import warn_counts
from viewsmith.reports import Figure, ReportContent, write_report
from viewsmith.training.run import POINTER, RunFolder


@dataclass(frozen=True)
class _Recorded:
    """The split that a run has recorded: its rows are 0 .. n-1; `test` is None if all were for training."""

    train: np.ndarray
    test: np.ndarray | None
    kind: Split

    @property
    def n_rows(self) -> int:
        return len(self.train) + (0 if self.test is None else len(self.test))


def with_split_of_run(dataset: Dataset, model: ViewsmithEstimator, *, scored: bool = True) -> Dataset:
    """The data set with the split of the run if it has the same rows in order and no split itself; if `scored`, warns
    about test rows that the run saw."""
    record, recorded = model.context_.get("data", {}), _recorded(model)
    # The number is compared first, because the fingerprint of rows on disk takes a pass over them.
    same = len(dataset.x) == recorded.n_rows and fingerprint(dataset.x) == record.get("fingerprint")
    if same:
        dataset = _split_as_in_run(dataset, recorded)
    if not scored or dataset.test_index is None or (same and record.get("transductive")):
        return dataset
    trained = np.zeros(len(dataset.x), dtype=bool)
    if same:
        trained[recorded.train] = True
    elif (known := model.context_.get("row_hashes")) is not None and (hashes := row_hashes(dataset.x)) is not None:
        trained = torch.isin(hashes, known).numpy()
    _warn_trained(dataset, trained)
    return dataset


def _recorded(model: ViewsmithEstimator) -> _Recorded:
    summary = model.summary_
    split = summary.get("split")
    try:
        if split is None:  # of rows that were given in Python
            return _Recorded(np.arange(summary.get("rows_on_disk", summary.get("rows", 0))), None, "none")
        n_train, n_rows = split["train"], split["train"] + split.get("test", 0)
        if split["kind"] in ("none", "given"):
            test = None if split["kind"] == "none" else np.arange(n_train, n_rows)
            return _Recorded(np.arange(n_train), test, split["kind"])
        rows = [np.asarray(split[name], np.int64) for name in ("train_index", "test_index")]
        if not np.array_equal(np.sort(np.concatenate(rows)), np.arange(n_rows)):
            raise ValueError("rows are missing")
        return _Recorded(rows[0], rows[1], split["kind"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the summary.json of the run is damaged: its split is not complete ({error}); restore it or train again"
        ) from error


def _split_as_in_run(dataset: Dataset, recorded: _Recorded) -> Dataset:
    cannot_be_split = dataset.y is not None and dataset.split == "none"  # by these labels, which has been said
    if dataset.split == "given" or recorded.test is None or cannot_be_split:
        return dataset
    # "given" is of files that have the parts separately, which are also written so.
    kind: Split = recorded.kind if recorded.kind in ("groups", "random") else "stratified"
    return dataclasses.replace(dataset, train_index=recorded.train, test_index=recorded.test, split=kind)


def _warn_trained(dataset: Dataset, trained: np.ndarray) -> None:
    test = dataset.test_index
    if test is not None and dataset.y is not None and dataset.partly_labeled:
        test = test[~without_label(dataset.y[test])]  # others are not scored
    if test is None or not trained[test].any():
        return
    warn(
        f"{dataset.source}: {int(trained[test].sum()):,} of {pluralize(len(test), 'test row')} are rows that the run "
        "was trained on, so scores of them say little about new rows: give other rows, or train again with these data "
        "and labels, which keeps test rows out of the training"
    )


#: Options that name what of an .h5ad file is read.
OF_CELLS = ("layer", "use_rep")


@contextlib.contextmanager
def process_group(device: str = "auto") -> Iterator[None]:
    """Join the group of torchrun, by NCCL or, on the CPU, gloo; after an exception it is left as it is: to destroy it
    could wait for a process that has died."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or torch.distributed.is_initialized():
        yield
        return
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    yield
    torch.distributed.destroy_process_group()


@contextlib.contextmanager
def removed_on_error(run: Path) -> Iterator[None]:
    """Remove a new run, and the folders made for it, if it fails before its first checkpoint."""
    absent = [path for path in (run, *run.parents) if not path.exists()]
    new = bool(absent) or (run.is_dir() and not any(run.iterdir()))
    try:
        yield
    except InUseError:
        raise  # another process has made the run since
    except BaseException:
        if new and distributed.rank() == 0 and not (run / "checkpoint" / POINTER).exists():
            with contextlib.suppress(OSError):
                RunFolder(run).remove()  # not files that the user has put there meanwhile
                for path in absent:
                    path.rmdir()
        raise


def already_finished(
    model: ViewsmithEstimator, run: Path, context: dict[str, Any], given: str = "", *, resume: bool
) -> bool:
    """Whether there is a finished run of this model on these data."""
    folder = RunFolder(run)
    if not folder.exists():
        return False
    with reading_run(run):
        saved, data = folder.read_config().get("data", {}), context["data"]
        if saved.get("fingerprint") != data["fingerprint"]:
            before, now = saved.get("source"), data["source"]
            which = (
                f"of {before!r}, now {now!r}" if before != now else f"{now!r} has changed, or has another label or role"
            )
            raise InputError(
                f"{run} has a run on other rows or columns ({which}): choose another folder, or delete this one"
            )
        config = model.configuration(data)
        started, epochs = folder.resumed_epochs(model.epochs)
        longer = epochs != folder.read_config().get("fitted", {}).get("epochs")
        if folder.read_summary().get("status") != "finished" or (resume and longer):
            return False
        if not longer:
            config["parameters"]["epochs"] = started
        folder.open_for(config | {"fitted": {"given": given}}, resume=resume)
    try:
        folder.read_weights()
    except InputError:
        return False  # damaged: the last checkpoint has the weights, too
    return True


def load_run(run: Path, custom: Mapping[str, Any] = MappingProxyType({})) -> ViewsmithEstimator:
    """Load the model of a run, with its custom parts; raises InputError for every reason why this fails."""
    run = downloaded(run)
    if config_of(run).get("method") == "discovery":
        raise InputError(f"{run} is of the command discover: use it with locate or crop, or train on its crops")
    with reading_run(run):
        if not custom and (missing := custom_part(RunFolder(run).read_config())):
            name, variable = missing
            raise InputError(
                f"the {name} of the run {run} is custom, which commands cannot load: use Python, "
                f"viewsmith.load({str(run)!r}, {name}={variable})"
            )
        model: ViewsmithEstimator = load(run, **custom).set_params(verbose=True)
        model.context_["row_hashes"] = RunFolder(run).read_row_hashes()
        return model


def custom_part(config: dict[str, Any]) -> tuple[str, str] | None:
    """Argument of a custom part, which is given only in Python, and a variable name for it in messages."""
    prefixes = {"encoder": MODULE, "framework": MODULE, "view_maker": MODULE, "family": CUSTOM}
    given = {name: str(config.get("parameters", {}).get(name)) for name in prefixes}
    custom = next((name for name, prefix in prefixes.items() if given[name].startswith(prefix)), None)
    return None if custom is None else (custom, "module" if custom == "encoder" else custom)


@contextlib.contextmanager
def reading_run(run: Path) -> Iterator[None]:
    """Convert exceptions from damaged files of a run to an InputError that names the run."""
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
    """Record of the data in a run: the part of the configuration, the split and the names of features."""
    split: dict[str, Any] = {"kind": dataset.split, "train": len(dataset.train_index), "transductive": transductive}
    drawn = dataset.split in ("stratified", "random", "groups")
    if dataset.test_index is not None:
        split["test"] = len(dataset.test_index)
    if drawn:
        split |= {"train_index": dataset.train_index.tolist(), "test_index": np.asarray(dataset.test_index).tolist()}
    return {
        "data": {
            # A file name may have bytes that are not UTF-8, but the configuration is UTF-8.
            "source": dataset.source.encode("utf-8", "replace").decode("utf-8"),
            "modality": dataset.modality,
            "transductive": transductive,
            "fingerprint": fingerprint(dataset.x),
            "schema": json.dumps(dataset.schema),
            # Labels and groups draw the split, so with other ones other rows may be for training.
            **({"split": fingerprint(dataset.train_index[:, None])} if drawn else {}),
            **graph_record(read_neighbors(dataset.fit_neighbors(transductive), len(dataset.fit_rows(transductive)))),
        },
        "split": split,
        "feature_names": dataset.feature_names,
        "normalization": dataset.schema.get("normalization", "none"),
        "signal": {name: dataset.schema[name] for name in ("axis", "axis_name") if name in dataset.schema}
        | dataset.schema.get("signal", {}),
    }


def load_for(
    model: ViewsmithEstimator,
    data: str | Path,
    *,
    labeled: bool = False,
    dataset: Dataset | None = None,
    **options: Any,
) -> Dataset:
    """Read data as the training data of the model were read: same columns, same order, same modality, same split;
    `dataset`, if they were read before the model (`read_for_run`)."""
    if dataset is None:
        dataset = read_dataset(data, DataOptions(schema=_schema(model), table=model.table_, **options))
    if dataset.label_fault is not None:
        if labeled:
            raise InputError(dataset.label_fault)
        warn(f"{dataset.label_fault}; these labels are left out")
    of_cells = Path(data).suffix.lower() in (".h5ad", ".zarr") and dataset.schema.get("use_rep") is None
    if of_cells and model.options_.normalization == "auto" and model.facts_.normalization == "none":
        warn_counts(dataset.x, dataset.source)
    return with_split_of_run(dataset, model, scored=labeled)


def _schema(model: ViewsmithEstimator) -> dict[str, Any]:
    """`Dataset.schema` of the training data; after a fit in Python, with the names of a DataFrame or an AnnData."""
    facts = model.facts_
    named = facts.feature_names or None
    schema: dict[str, Any] = {
        "columns": named,
        "one_hot": {},
        "drop": [],
        "label": None,
        "modality": facts.modality,
        "impute": model.options_.impute,
        "row_shape": model.modality_.required_shape(facts.row_shape),
        "feature_names": named,
    }
    further = {name: getattr(model.options_, name) for name in ("layer", "use_rep")}
    further |= {} if facts.normalization == "none" else {"normalization": facts.normalization}
    # For rows given in Python, a run saves only a fingerprint.
    if "source" not in model.context_.get("data", {}):
        return schema | {name: value for name, value in further.items() if value is not None}
    if (kept := schema_of(model.context_["data"])) is not None:
        return kept
    raise InputError("the config.toml of the run is damaged or of another version: its data.schema is not complete")


def given_digest(model: ViewsmithEstimator, dataset: Dataset, transductive: bool = False) -> str:
    """Digest of the labels and groups that a fit of this model would use, `Facts.given`; empty if it uses none."""
    rows, codes = len(dataset.fit_rows(transductive)), []
    if model.supervision != "none":
        find = few_label_numbers if model.supervision == "numbers" else few_label_codes
        codes.append(find(dataset.fit_labels(transductive, numbers=model.supervision == "numbers"), rows))
    if model.group_mode == "align" and dataset.groups is not None:
        codes.append(group_codes(dataset.fit_groups(transductive), rows))
    return " ".join(codes_digest(each) for each in codes)


def fit_dataset(model: ViewsmithEstimator, dataset: Dataset, transductive: bool = False, **of_run: Any) -> None:
    """Fit a model to the training rows of a data set, with the labels, neighbors and groups that it uses."""
    y = dataset.fit_labels(transductive, numbers=model.supervision == "numbers") if model.reads_labels() else None
    groups = dataset.fit_groups(transductive)
    # A split may leave one group, which matters if the training uses groups.
    if groups is not None and model.group_mode == "none" and dataset.split == "groups" and len(np.unique(groups)) < 2:
        groups = None
    neighbors = dataset.fit_neighbors(transductive)
    model.fit(dataset.fit_rows(transductive), y, neighbors=neighbors, groups=groups, **of_run)


def split_rows(dataset: Dataset, split: str) -> tuple[Any, np.ndarray]:
    """Training or test rows, and their numbers in the array or table they came from."""
    if split not in ("train", "test"):
        raise InputError(f"--split is {split!r}, expected train or test")
    if split == "test" and dataset.test_index is None:
        raise InputError(f"{dataset.source} has no test rows: use --split train")
    index = dataset.train_index if split == "train" else dataset.test_index
    assert index is not None
    start = index[0] if dataset.split == "given" else 0
    return take(dataset.x, index), index - start


@contextlib.contextmanager
def warnings_once(shown: set[str]) -> Iterator[None]:
    """Show the warnings of one of several trainings, at its end, without those that earlier ones gave, too."""
    with warnings.catch_warnings(record=True, action="always") as found:
        yield
    for text, category in {str(each.message): each.category for each in found}.items():
        if text not in shown:
            shown.add(text)
            warnings.warn(text, category, stacklevel=3)


def report_content(
    folder: RunFolder,
    *,
    data: Any = None,
    dataset: Dataset | None = None,
    y: Any = None,
    label: str | None = None,
    labels: Path | None = None,
    pictures: bool = False,
    figures: Sequence[Figure] = (),
    custom: Mapping[str, Any] = MappingProxyType({}),
) -> ReportContent:
    """Content of the report of a run (see `report`); figures of its data are given, or made if `pictures`; `custom` are
    parts by argument of `load`, `dataset` are data that were read before the model."""
    with reading_run(folder.path):
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
            "figures": figures,
        }
    if pictures and not folder.model.exists():
        warn("no maps and galleries: the training has not finished")
    elif pictures and not custom and (missing := custom_part(config)):
        warn(
            f"no maps and galleries: the {missing[0]} is custom, which commands cannot load; use Python, "
            f"viewsmith.report({str(folder.path)!r}, X, {missing[0]}={missing[1]})"
        )
    elif pictures:
        model, rows = load_run(folder.path, custom), None
        try:
            if data is None and source is None:
                raise InputError("the run has no path of its data; give --data")
            is_array = data is not None and not isinstance(data, str | Path)
            of_file: dict[str, Any] = {"label": label, "labels": labels, "dataset": dataset}
            rows = as_dataset(model, data, y) if is_array else load_for(model, data or str(source), **of_file)
            content["figures"] = model.figures(rows.in_memory())
        except InputError as error:
            if rows is None and (data, label, labels) != (None, None, None):  # what was asked for cannot be read
                raise
            todo = "; give the data (--data)" if data is None and source is not None else ""
            warn(f"no maps and galleries: {error}{todo}")
    return ReportContent(**content)


def report(
    run: str | os.PathLike[str],
    data: Any = None,
    y: Any = None,
    *,
    label: str | None = None,
    labels: Path | None = None,
    **custom: Any,
) -> Path:
    """Write ``report.html`` of a run, as the command does, also for models with custom parts.

    Parameters
    ----------
    run : path
    data : str, path or array-like, optional
        Data for maps and views; default: the data of the run.
    y : array-like, optional
        Labels of an array, for the colors of maps.
    label, labels : str, path, optional
        Labels of a file, see `viewsmith.data.load_dataset`.
    **custom
        ``encoder``, ``framework``, ``view_maker``, ``family`` or ``features`` as in `viewsmith.load`.

    Returns
    -------
    Path
        Path of the report.

    Raises
    ------
    InputError
        There is no run, it is damaged, or the custom parts are not those of the run; `data` cannot be read.
    """
    return write_run_report(run, data=data, y=y, label=label, labels=labels, pictures=True, custom=custom)


def write_run_report(run: str | os.PathLike[str], **of_data: Any) -> Path:
    """Write the report of a run, in the first process only; `of_data` are arguments of `report_content`."""
    folder = RunFolder(run)
    folder.check_exists()
    if distributed.rank() == 0:
        write_report(folder.report, report_content(folder, **of_data))
    return folder.report
