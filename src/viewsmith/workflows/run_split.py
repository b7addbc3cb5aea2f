"""Rows that a run was trained on, recognized in data that are read for it: their split is that of the run."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import torch

from viewsmith.core.messages import pluralize
from viewsmith.data import Dataset
from viewsmith.data.split import Split
from viewsmith.domains.few_labels import missing_labels
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.rows import fingerprint, row_hashes


def with_split_of_run(dataset: Dataset, model: ViewsmithEstimator) -> Dataset:
    """The data set with the split of the run if it has the same rows in the same order, whatever its labels.

    A split that the data have themselves stays. Warns about test rows that the run was trained on.
    """
    same = _has_rows_of_run(dataset, model)
    if same:
        dataset = _split_as_in_run(dataset, model)
    if dataset.test_index is not None and not (same and model.context_["data"].get("transductive")):
        _warn_trained(dataset, _trained_rows(dataset, model, same))
    return dataset


def _has_rows_of_run(dataset: Dataset, model: ViewsmithEstimator) -> bool:
    summary, record = model.summary_, model.context_.get("data", {})
    split = summary.get("split", {})
    n_rows = split["train"] + split.get("test", 0) if split else summary.get("rows_on_disk", summary.get("rows"))
    # The number is compared first, because the fingerprint of rows on disk takes a pass over them.
    return len(dataset.x) == n_rows and fingerprint(dataset.x) == record.get("fingerprint")


def _split_as_in_run(dataset: Dataset, model: ViewsmithEstimator) -> Dataset:
    split = model.summary_.get("split", {})
    cannot_be_split = dataset.y is not None and dataset.split == "none"  # by these labels, which has been said
    if dataset.split == "given" or split.get("kind", "none") == "none" or cannot_be_split:
        return dataset
    if split["kind"] == "given":
        train, test = np.split(np.arange(len(dataset.x)), [split["train"]])
    else:
        train, test = np.asarray(split["train_index"], np.int64), np.asarray(split["test_index"], np.int64)
    # "given" is of files that have the parts separately, which are also written so.
    kind: Split = "groups" if split["kind"] == "groups" else "stratified"
    return dataclasses.replace(dataset, train_index=train, test_index=test, split=kind)


def _trained_rows(dataset: Dataset, model: ViewsmithEstimator, same: bool) -> np.ndarray:
    """Whether each row was trained on, bool (n,), as far as the run knows."""
    split = model.summary_.get("split", {})
    trained = np.zeros(len(dataset.x), dtype=bool)
    if same and "train_index" in split:
        trained[split["train_index"]] = True
    elif same:
        trained[: split.get("train")] = True
    elif (known := model.context_.get("row_hashes")) is not None and (hashes := row_hashes(dataset.x)) is not None:
        trained = torch.isin(hashes, known).numpy()
    return trained


def _warn_trained(dataset: Dataset, trained: np.ndarray) -> None:
    test = dataset.test_index
    if test is not None and dataset.y is not None and dataset.partly_labeled:
        test = test[~missing_labels(dataset.y[test])]  # others are not scored
    if test is None or not trained[test].any():
        return
    warnings.warn(
        f"{dataset.source}: {int(trained[test].sum()):,} of {pluralize(len(test), 'test row')} are rows that the run "
        "was trained on, so scores of them say little about new rows: give other rows, or train again with these data "
        "and labels, which keeps test rows out of the training",
        UserWarning,
        stacklevel=4,
    )
