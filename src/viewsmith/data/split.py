"""The split of a data set into train and test rows: given, drawn by class, or by whole groups."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import pluralize, warn
from viewsmith.domains.targets import kind_of

Split = Literal["given", "stratified", "random", "groups", "none"]

TEST_FRACTION = 0.2


def split_indices(y: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Stratified 80/20 split of labeled rows, determined by labels and seed; of numbers, a random one.

    A class with a single row is in the train split only.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Class labels, or numbers (of type float).
    seed : int
        Seed of the draw.

    Returns
    -------
    train_index, test_index : ndarray of int64, increasing
        Together 0 .. n-1.

    Raises
    ------
    InputError
        The test split would be too small for all classes; or there is one number.
    """
    from sklearn.model_selection import train_test_split

    if kind_of(y) == "number":
        if len(y) < 2:
            raise InputError("cannot split one labeled row 80/20: label more rows, or leave the labels out")
        parts = train_test_split(np.arange(len(y)), test_size=TEST_FRACTION, random_state=seed)
        return np.sort(parts[0]), np.sort(parts[1])
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    divisible = np.flatnonzero(counts[codes] > 1)
    n_divisible_classes = int((counts > 1).sum())
    n_test = math.ceil(TEST_FRACTION * len(divisible))
    if n_test < max(n_divisible_classes, 1):
        raise InputError(
            f"cannot split {pluralize(len(y), 'labeled row')} of {pluralize(len(counts), 'class', 'classes')} 80/20 by "
            f"class: the test split would have {pluralize(n_test, 'row')}; give the split (X_train and X_test, folders "
            "train and test), or leave the labels out; are they a continuous target? then give --target number"
        )
    train, test = train_test_split(divisible, test_size=TEST_FRACTION, random_state=seed, stratify=codes[divisible])
    single = np.flatnonzero(counts[codes] == 1)
    return np.sort(np.concatenate([train, single])), np.sort(test)


def split_groups(groups: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Split rows so that whole groups are test: random groups until they have 20 % of the rows; one stays for training.

    Parameters
    ----------
    groups : ndarray, shape (n,)
    seed : int
        Seed of the order of the groups.

    Returns
    -------
    train_index, test_index : ndarray of int64, increasing
        Together 0 .. n-1.

    Raises
    ------
    InputError
        Fewer than two groups.
    """
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(f"cannot split by groups: all rows have the group {names[0]}; give at least two groups")
    order = np.random.default_rng(seed).permutation(len(names))
    enough = int(np.searchsorted(counts[order].cumsum(), TEST_FRACTION * len(codes))) + 1
    test = np.isin(codes, order[: min(enough, len(names) - 1)])
    return np.flatnonzero(~test), np.flatnonzero(test)


def split_by_label(
    n: int, y: np.ndarray | None, labeled: np.ndarray, n_train: int | None, what: str, fresh: bool
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    """Train rows, test rows (None: all are for training) and kind of the split of a source that is not split by groups.

    The split is that of the source, if it has one (`n_train`); else it is drawn by class among the `labeled` rows.
    """
    rows = np.arange(n)
    if n_train is not None:
        return rows[:n_train], rows[n_train:], "given"
    if y is None or (fresh and n == 1):
        return rows, None, "none"
    try:
        _, test = split_indices(y[labeled])
        kind: Split = "random" if kind_of(y) == "number" else "stratified"
        return np.setdiff1d(rows, labeled[test]), labeled[test], kind  # rows without a label are for training
    except InputError as error:
        if fresh:
            raise InputError(f"{what}: {error}") from error
        # A fitted run may be given a few new rows: only commands that need a split may raise an error.
        warn(f"{what}: the rows are not split: {error}")
        return rows, None, "none"


def split_by_groups(
    groups: np.ndarray | None, n_train: int | None, what: str, fresh: bool
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    """Train rows, test rows (None: all are for training) and kind of the split by groups of a source."""
    assert groups is not None
    if n_train is not None:
        raise InputError(
            f"{what} has its own split into train and test: leave the split by groups out (--split-groups)"
        )
    if not fresh and len(np.unique(groups)) < 2:
        return np.arange(len(groups)), None, "none"
    return *split_groups(groups), "groups"
