"""A data set: rows, in memory or read from disk as they are needed, labels, and the split into train and test."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.row_source import AnyRows, RowSource
from viewsmith.data.split import Split
from viewsmith.domains.targets import Target, kind_of, without_label

# Values of the sample of a data set on disk, 512 MB as float32.
SAMPLE_VALUES = 2**27


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels if known, and the split into train and test.

    Attributes
    ----------
    x : ndarray, shape (n, ...), or RowSource
        All rows in input order; with a given split the train rows, then the test rows. Vectors are float32 (n, d),
        images uint8 (n, H, W) or (n, H, W, 1 or 3), DNA uint8 ASCII letters (n, L), 0 after the end of a sequence. Of a
        table that is not plain numbers, a `viewsmith.domains.tables.array.TableArray` of encoded rows. Vectors that are
        too large for memory are a source, from which slices and rows by index are read.
    y : ndarray, shape (n,), or None
        Labels of the rows: classes as integers, booleans or text, or numbers (a continuous target) as float64.
    train_index, test_index : ndarray of int64, increasing; test_index is None without a split
        Rows of `x` in the train and the test split.
    split : {"given", "stratified", "random", "groups", "none"}
        "given": by the file. "stratified": drawn here by class (80/20, seed 0). "random": the same for numbers, without
        classes. "groups": whole groups are test rows (about 20 %
        of the rows, seed 0). "none": all rows are for training.
    domain : str
        Name of the domain.
    source : str
        The file, folder or built-in name, as given by the user.
    feature_names : list of str, or None
        Names of the columns of `x`, if known.
    schema : dict
        Columns, options and shape with which another file must be read to get the same features in the same order, as
        plain JSON values; the argument ``schema`` of `load_dataset`.
    label_name : str or None
        The column of the labels; None if they have no column (arrays, built-in data sets).
    row_names : list of str, or None
        Names of the rows of `x`, if the source has names: image files, FASTA records, cells.
    neighbors : sparse matrix, shape (n, n), or None
        Neighbor graph of the rows of `x`; None if it was not requested.
    groups : ndarray of str, shape (n,), or None
        Groups of the rows; None if they were not requested.
    partly_labeled : bool
        Whether rows may have no label, which is -1 or "" in `y`, and NaN among numbers.
    label_fault : str or None
        Of rows for a fitted run whose labels cannot be used, and are therefore left out: why.
    """

    x: AnyRows
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
    neighbors: Any = None
    groups: np.ndarray | None = None
    partly_labeled: bool = False
    label_fault: str | None = None

    def __repr__(self) -> str:
        """One line: what it is, where it is from, and its sizes."""
        size = " x ".join(f"{number:,}" for number in self.x.shape)
        split = f"{len(self.train_index):,} train" + (
            "" if self.test_index is None else f", {len(self.test_index):,} test"
        )
        labels = "no labels" if self.y is None else f"labels {self.label_name!r}" if self.label_name else "labels"
        return f"Dataset({self.source!r}: {self.domain}, {size} ({split}), {labels})"

    @property
    def x_train(self) -> Any:
        """Train rows of `x`."""
        return take(self.x, self.train_index)

    @property
    def x_test(self) -> Any:
        """Test rows of `x`, or None without a split."""
        return None if self.test_index is None else take(self.x, self.test_index)

    @property
    def y_train(self) -> np.ndarray | None:
        """Labels of the train rows, or None if they are not known."""
        return None if self.y is None else take(self.y, self.train_index)

    @property
    def y_test(self) -> np.ndarray | None:
        """Labels of the test rows, or None if they are not known or there is no split."""
        return None if self.y is None or self.test_index is None else take(self.y, self.test_index)

    @property
    def target(self) -> Target:
        """What labels are: classes, or numbers that are to be predicted."""
        return "class" if self.y is None else kind_of(self.y)

    def in_memory(self) -> Dataset:
        """The data set itself; of one on disk, as many random rows, drawn with seed 0, as have `SAMPLE_VALUES` values.

        For what needs rows in memory together: evaluation and figures.
        """
        if not isinstance(self.x, RowSource):
            return self
        n = len(self.x)
        kept = max(2, SAMPLE_VALUES // self.n_features)
        index = np.arange(n) if kept >= n else np.sort(np.random.default_rng(0).choice(n, kept, replace=False))
        is_train = np.zeros(n, dtype=bool)
        is_train[self.train_index] = True
        train = np.flatnonzero(is_train[index])
        test = None if self.test_index is None else np.flatnonzero(~is_train[index])
        names = None if self.row_names is None else [self.row_names[i] for i in index]
        graph = None if self.neighbors is None else self.neighbors.tocsr()[index][:, index]
        return dataclasses.replace(
            self,
            x=self.x[index],
            y=None if self.y is None else self.y[index],
            train_index=train,
            test_index=test,
            row_names=names,
            neighbors=graph,
            groups=None if self.groups is None else self.groups[index],
        )

    @property
    def groups_train(self) -> np.ndarray | None:
        """Groups of the train rows, or None if there are none."""
        return None if self.groups is None else take(self.groups, self.train_index)

    @property
    def groups_test(self) -> np.ndarray | None:
        """Groups of the test rows, or None if there are none or there is no split."""
        return None if self.groups is None or self.test_index is None else take(self.groups, self.test_index)

    @property
    def n_features(self) -> int:
        """Number of values in a row: columns, pixels times channels, or letters."""
        return math.prod(self.x.shape[1:])

    def fit_rows(self, transductive: bool) -> Any:
        """Rows for `fit`: the train rows, or all rows if `transductive`."""
        return self.x if transductive else self.x_train

    def fit_labels(self, transductive: bool) -> np.ndarray | None:
        """Labels of `fit_rows`, for the settings of `fit` that use labels; None if they are not known.

        Missing ones are None if there are some.

        Raises
        ------
        InputError
            The labels of test rows would be among them, or they are numbers, which no setting of `fit` reads.
        """
        if self.target == "number":
            raise InputError(
                f"{self.source}: labels are numbers, but training with labels needs classes: leave supervision out, or "
                "give --target class"
            )
        if transductive and self.test_index is not None and self.y is not None:
            raise InputError(
                "fit would read the labels of the test rows, because it reads labels with these settings and trains on "
                "all rows (--transductive): leave --transductive out"
            )
        y = self.y if transductive else self.y_train
        if y is not None and self.partly_labeled:
            absent, y = without_label(y), y.astype(object)
            y[absent] = None
        return y

    def fit_groups(self, transductive: bool) -> np.ndarray | None:
        """Groups of `fit_rows`; None if there are none."""
        return self.groups if transductive else self.groups_train

    def fit_neighbors(self, transductive: bool) -> Any:
        """Neighbor graph of `fit_rows`, a sparse matrix of shape (m, m) for m rows; None if there is no graph."""
        if self.neighbors is None or transductive or self.test_index is None:
            return self.neighbors
        return self.neighbors.tocsr()[self.train_index][:, self.train_index]


def take(rows: Any, index: np.ndarray) -> Any:
    """Rows at an increasing index; of a source, without reading them.

    Rows that are next to each other are returned without a copy, which matters for a given split of a large data set.
    """
    if isinstance(rows, RowSource):
        return rows if len(index) == len(rows) else rows.select(index)
    first, last = int(index[0]), int(index[-1])
    return rows[first : last + 1] if last - first + 1 == len(index) else rows[index]
