"""Validation rows, a part of the labeled train rows, to compare settings without test rows; and repeated splits."""

from __future__ import annotations

import dataclasses

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import pluralize
from viewsmith.data.dataset import Dataset
from viewsmith.data.split import TEST_FRACTION, split_groups, split_indices
from viewsmith.domains.targets import kind_of, without_label


def resplit(dataset: Dataset, seed: int) -> Dataset:
    """The data set with another random split into train and test rows, of the kind it has.

    Parameters
    ----------
    dataset : Dataset
        Split by class, by groups, or at random (numbers), with labels.
    seed : int
        0 is the split that the data set was read with.

    Returns
    -------
    Dataset
        A data set whose split was given, or that has none, as it is.
    """
    if seed == 0:
        return dataset
    if dataset.split == "groups" and dataset.groups is not None:
        train, test = split_groups(dataset.groups, seed)
    elif dataset.split in ("stratified", "random") and dataset.y is not None:
        labeled = np.flatnonzero(~_absent(dataset, dataset.y))
        test = labeled[split_indices(dataset.y[labeled], seed)[1]]
        train = np.setdiff1d(np.arange(len(dataset.x)), test)
    else:
        return dataset
    return dataclasses.replace(dataset, train_index=train, test_index=test)


def validation_split(dataset: Dataset, seed: int = 0, *, whole_groups: bool = False) -> Dataset:
    """The train rows alone, with a fifth of the labeled ones as test rows.

    Parameters
    ----------
    dataset : Dataset
        In memory. Of its test rows nothing is read.
    seed : int
        Seed of the draw.
    whole_groups : bool
        Groups are drawn, with all their rows, until they have a fifth of the labeled rows. Their rows without a label
        are left out. Otherwise a fifth of each class with at least two rows is drawn, at least one row, or a fifth of
        the rows if labels are numbers; rows without a label are train rows.

    Returns
    -------
    Dataset
        With the split "given". Only its train rows may have no label.

    Raises
    ------
    InputError
        The train rows have no labels, or too few for at least two classes among the others and one test row.
    """
    y = dataset.y_train
    absent = np.ones(0, dtype=bool) if y is None else _absent(dataset, y)
    if y is None or absent.all():
        raise InputError(
            f"{dataset.source}: no train row has a label, which settings are scored with; give --label COLUMN (table, "
            "obs), --labels FILE (FASTA), or y_train"
        )
    labeled = np.flatnonzero(~absent)
    if whole_groups:
        groups = dataset.groups_train
        assert groups is not None
        held = np.isin(groups, np.unique(groups[labeled[split_groups(groups[labeled], seed)[1]]]))
    else:
        held = np.zeros(len(y), dtype=bool)
        draw = _fifth_of_rows if kind_of(y) == "number" else _fifth_of_classes
        held[labeled[draw(y[labeled], seed)]] = True
    train, test = np.flatnonzero(~held), np.flatnonzero(held & ~absent)
    classes = len(np.unique(y[train][~absent[train]]))
    if classes < 2 and len(test) and kind_of(y) == "number":
        raise InputError(f"{dataset.source}: all train rows have the target {y[train][0]:g}, nothing to predict")
    if classes < 2 or not len(test):
        raise InputError(
            f"{dataset.source} has {pluralize(len(labeled), 'labeled train row')}, of which {len(test)} would be "
            f"validation rows and the others of {pluralize(classes, 'class', 'classes')}: label more rows, so that at "
            "least two classes are left"
        )
    return _rows(dataset, np.concatenate([train, test]), len(train))


def _absent(dataset: Dataset, y: np.ndarray) -> np.ndarray:
    return without_label(y) if dataset.partly_labeled else np.zeros(len(y), dtype=bool)


def _fifth_of_rows(y: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of the rows, at least one of two or more."""
    members = np.random.default_rng(seed).permutation(len(y))
    return members[: max(1, round(TEST_FRACTION * len(members))) if len(members) > 1 else 0]


def _fifth_of_classes(y: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of the rows of each class, at least one, of classes with at least two rows."""
    rng, found = np.random.default_rng(seed), []
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        found.append(members[: max(1, round(TEST_FRACTION * len(members))) if len(members) > 1 else 0])
    return np.concatenate(found)


def _rows(dataset: Dataset, index: np.ndarray, n_train: int) -> Dataset:
    """Rows of the train rows: the first `n_train` are train rows, the others test rows."""
    graph = dataset.fit_neighbors(False)
    rows = dataset.train_index[index]
    return dataclasses.replace(
        dataset,
        x=dataset.x_train[index],
        y=None if dataset.y is None else dataset.y[rows],
        train_index=np.arange(n_train),
        test_index=np.arange(n_train, len(index)),
        split="given",
        row_names=None if dataset.row_names is None else [dataset.row_names[i] for i in rows],
        neighbors=None if graph is None else graph.tocsr()[index][:, index],
        groups=None if dataset.groups is None else dataset.groups[rows],
    )
