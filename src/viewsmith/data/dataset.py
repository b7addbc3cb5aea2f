"""One data set in memory: all its rows, and which of them are for training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import pluralize

Split = Literal["given", "stratified", "none"]

TEST_FRACTION = 0.2


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels where known, and the split into train and test.

    Attributes
    ----------
    x : ndarray, shape (n, ...)
        All rows in input order; with a given split the train rows, then the test rows. Vectors are float32 (n, d),
        images uint8 (n, H, W) or (n, H, W, 1 or 3), DNA uint8 ASCII letters (n, L), 0 after the end of a sequence.
    y : ndarray, shape (n,), or None
        Labels of the same rows: integers, booleans or text.
    train_index, test_index : ndarray of int64, increasing; test_index is None without a split
        Rows of `x` on either side of the split.
    split : {"given", "stratified", "none"}
        Given by the file, drawn here (80/20, seed 0), or all rows for training.
    domain : str
    source : str
        The file, folder or built-in name as the user gave it.
    feature_names : list of str, or None
        Names of the columns of `x` where they are known.
    schema : dict
        What another file has to look like to get the same columns in the same order; plain JSON values. Pass it to
        `load_dataset` as ``schema``.
    label_name : str or None
        The column that the labels come from; None where they have no column (arrays, built-in sets).
    row_names : list of str, or None
        Names of the rows of `x` where the source has some: image files, FASTA records, cells.
    """

    x: np.ndarray
    y: np.ndarray | None
    train_index: np.ndarray
    test_index: np.ndarray | None
    split: Split
    domain: str
    source: str
    feature_names: list[str] | None
    schema: dict[str, Any]
    label_name: str | None
    row_names: list[str] | None = None

    @property
    def x_train(self) -> np.ndarray:
        """Train rows of `x`."""
        return _take(self.x, self.train_index)

    @property
    def x_test(self) -> np.ndarray | None:
        """Test rows of `x`, or None without a split."""
        return None if self.test_index is None else _take(self.x, self.test_index)

    @property
    def y_train(self) -> np.ndarray | None:
        """Labels of the train rows, or None where they are not known."""
        return None if self.y is None else _take(self.y, self.train_index)

    @property
    def y_test(self) -> np.ndarray | None:
        """Labels of the test rows, or None where they are not known or there is no split."""
        return None if self.y is None or self.test_index is None else _take(self.y, self.test_index)

    @property
    def n_features(self) -> int:
        """Number of values in one row: columns, pixels times channels, or letters."""
        return math.prod(self.x.shape[1:])

    def fit_rows(self, transductive: bool) -> np.ndarray:
        """Rows that `fit` may see: the train rows, or all of them when `transductive`."""
        return self.x if transductive else self.x_train

    def fit_labels(self, transductive: bool) -> np.ndarray | None:
        """Labels of these rows, for the one setting of `fit` that reads labels; None where they are not known."""
        return self.y if transductive else self.y_train


def split_indices(y: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Stratified 80/20 split of labeled rows; the same one for the same labels and seed.

    A class with a single row cannot be on both sides: its row goes to train.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Class labels.
    seed : int
        Seed of the draw.

    Returns
    -------
    train_index, test_index : ndarray of int64, increasing
        Together 0 .. n-1.

    Raises
    ------
    InputError
        When the test part is too small to hold every class: few rows, or a target that is not a class.
    """
    from sklearn.model_selection import train_test_split

    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[codes] > 1)
    n_shared_classes = int((counts > 1).sum())
    n_test = math.ceil(TEST_FRACTION * len(shared))
    if n_test < max(n_shared_classes, 1):
        raise InputError(
            f"cannot split {pluralize(len(y), 'labeled row')} of {pluralize(len(counts), 'class', 'classes')} 80/20 by "
            f"class: the test part would have {pluralize(n_test, 'row')}; give the split (X_train and X_test, folders "
            "train and test), or leave the labels out (a continuous target is not a label)"
        )
    train, test = train_test_split(shared, test_size=TEST_FRACTION, random_state=seed, stratify=codes[shared])
    alone = np.flatnonzero(counts[codes] == 1)
    return np.sort(np.concatenate([train, alone])), np.sort(test)


def _take(rows: np.ndarray, index: np.ndarray) -> np.ndarray:
    # An unbroken run of rows is a view: a given split of a large data set costs no second copy.
    first, last = int(index[0]), int(index[-1])
    return rows[first : last + 1] if last - first + 1 == len(index) else rows[index]
