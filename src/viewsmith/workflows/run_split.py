"""Rows that a run was trained on, recognized in data that are read for it: their split is that of the run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.core.messages import pluralize, warn
from viewsmith.data import Dataset
from viewsmith.data.split import Split
from viewsmith.domains.targets import without_label
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.rows import fingerprint, row_hashes


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
    """The data set with the split of the run if it has the same rows in the same order, whatever its labels.

    A split that the data have themselves stays. If they are to be `scored`, warns about test rows that the run was
    trained on.

    Raises
    ------
    InputError
        The split in the summary of the run is damaged.
    """
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
