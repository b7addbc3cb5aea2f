"""A data set: rows, labels, and the split into train and test rows: given, drawn by class, or by whole groups."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize, warn
from viewsmith.core.progress import html_table
from viewsmith.core.rows import AnyRows, RowSource
from viewsmith.data.labels import Target, kind_of, without_label

Split = Literal["given", "stratified", "random", "groups", "none"]
TEST_FRACTION = 0.2


def split_indices(y: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Stratified 80/20 split of labeled rows by labels and seed, a class of one row in train; of numbers, random."""
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
            "train and test), or leave the labels out (folders of images as groups: --groups folder); are they a "
            "continuous target? then give --target number"
        )
    train, test = train_test_split(divisible, test_size=TEST_FRACTION, random_state=seed, stratify=codes[divisible])
    single = np.flatnonzero(counts[codes] == 1)
    return np.sort(np.concatenate([train, single])), np.sort(test)


def split_groups(groups: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Split rows so that whole groups are test: random groups until they have 20 % of the rows; one stays
    for training."""
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(f"cannot split by groups: all rows have the group {names[0]}; give at least two groups")
    order = np.random.default_rng(seed).permutation(len(names))
    enough = int(np.searchsorted(counts[order].cumsum(), TEST_FRACTION * len(codes))) + 1
    test = np.isin(codes, order[: min(enough, len(names) - 1)])
    return np.flatnonzero(~test), np.flatnonzero(test)


def split_by_label(
    n: int,
    y: np.ndarray | None,
    labeled: np.ndarray,
    n_train: int | None,
    source_name: str,
    fresh: bool,
    seed: int | None = None,
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    """Train rows, test rows (None: all are for training) and kind of split: the source's (`n_train`), else by class
    among the `labeled` rows; rows without labels are split only if a seed is given."""
    rows = np.arange(n)
    if n_train is not None:
        return rows[:n_train], rows[n_train:], "given"
    if fresh and n > 1 and y is None and seed is not None:
        y = np.zeros(n)  # a random split, as of numbers
    if y is None or (fresh and n == 1):
        return rows, None, "none"
    try:
        _, test = split_indices(y[labeled], seed or 0)
        kind: Split = "random" if kind_of(y) == "number" else "stratified"
        return np.setdiff1d(rows, labeled[test]), labeled[test], kind  # rows without a label are for training
    except InputError as error:
        if fresh:
            raise InputError(f"{source_name}: {error}") from error
        # A fitted run may be given a few new rows: only commands that need a split may raise an error.
        warn(f"{source_name}: the rows are not split: {error}")
        return rows, None, "none"


def split_by_groups(
    groups: np.ndarray | None, n_train: int | None, source_name: str, fresh: bool, seed: int = 0
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    """Train rows, test rows (None: all are for training) and kind of the split by groups of a source."""
    assert groups is not None
    if n_train is not None:
        raise InputError(
            f"{source_name} has its own split into train and test: leave the split by groups out (--split-groups)"
        )
    if not fresh and len(np.unique(groups)) < 2:
        return np.arange(len(groups)), None, "none"
    return *split_groups(groups, seed), "groups"


@dataclass(frozen=True, eq=False)
class Windows:
    """Where windows of recordings are."""

    recordings: np.ndarray  #: (n,): name of the recording of each row
    starts: np.ndarray  #: (n,): its first point in the recording
    rate: float | None  #: points per second; None: not known
    ends: np.ndarray | None = None  #: (n,): of sounds, which differ in length, the point after the last

    @property
    def wholes(self) -> np.ndarray:
        """Name of the recording of each row."""
        return self.recordings

    def distinct(self, found: np.ndarray) -> np.ndarray:
        """Which events of one kind, given as parts with `sample`, `start`, `end` and `score`, are the best of those
        that share a point: of windows that overlap, one event is found in several, and at their ends beside its place.
        Events of one row are left as they are."""
        rows = found["sample"]
        low, high = ((self.starts[rows] + found[end])[:, None] for end in ("start", "end"))
        return _best_apart(found, self.recordings[rows], low, high, share=0)

    def located(self, rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> dict[str, Any]:
        """Columns of a table of events, given their rows and the points in these: recording, points, seconds."""
        first, last = (self.starts[rows] + np.asarray(points) for points in (begin, end))
        last = last if self.ends is None else np.minimum(last, self.ends[rows])
        found: dict[str, Any] = {"recording": self.recordings[rows], "first": first, "last": last}
        if self.rate is not None:
            found |= {"begin_s": np.round(first / self.rate, 6), "end_s": np.round(last / self.rate, 6)}
        return found


@dataclass(frozen=True, eq=False)
class Tiles:
    """Where tiles of scenes are."""

    scenes: list[str]
    shapes: list[tuple[int, int]]  # height and width, in pixels
    transforms: list[tuple[float, ...] | None]  # x = t0 + t1 column + t2 row, y = t3 + t4 column + t5 row
    of: np.ndarray  # (n,): scene of each tile
    lefts: np.ndarray  # (n,): column of its first pixel
    tops: np.ndarray  # (n,): row of its first pixel
    side: int  # pixels
    step: int  # pixels from one tile to the next
    map_keys: tuple[Any, ...] = ()  # tags of a GeoTIFF, as tifffile writes them
    objects: np.ndarray | None = None  # (n,): number of the object in its mask
    fields: np.ndarray | None = None  # (n,): number of the field of each tile on a map of classes, -1 without a class

    @property
    def wholes(self) -> np.ndarray:
        """Name of the scene of each tile."""
        return np.array(self.scenes)[self.of]

    def names(self) -> list[str]:
        """Names of the tiles: scene, column and row; of objects scene and number."""
        if self.objects is not None:
            return [f"{self.scenes[i]}#{number}" for i, number in zip(self.of, self.objects, strict=True)]
        return [f"{self.scenes[i]}@{left},{top}" for i, left, top in zip(self.of, self.lefts, self.tops, strict=True)]

    def placed(self, found: np.ndarray) -> np.ndarray:
        """Boxes of tiles in the pixels of their scene: of parts, of which `sample` is then the number of the scene."""
        moved = found.copy()
        moved["sample"] = self.of[found["sample"]]
        for side, start in (("left", self.lefts), ("right", self.lefts), ("top", self.tops), ("bottom", self.tops)):
            moved[side] += start[found["sample"]]
        return moved

    def distinct(self, found: np.ndarray) -> np.ndarray:
        """Which parts, of one kind, are the best of those of a scene that share more than half of the smaller one: at
        the seams a thing is found in several tiles. Parts of one tile are left as they are."""
        boxes = self.placed(found)
        low, high = (np.stack([boxes[side] for side in sides], 1) for sides in (("left", "top"), ("right", "bottom")))
        return _best_apart(found, boxes["sample"], low, high)

    def coordinates(self, scenes: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
        """Coordinates x and y of places of scenes, as text, which keeps their digits; empty: no scene has any."""
        if all(each is None for each in self.transforms):
            return {}
        t = np.array([each or (math.nan,) * 6 for each in self.transforms])[scenes].T
        x, y = t[0] + t[1] * columns + t[2] * rows, t[3] + t[4] * columns + t[5] * rows
        return {name: [f"{value:.10g}" for value in values] for name, values in (("x", x), ("y", y))}


def _best_apart(
    found: np.ndarray, wholes: np.ndarray, low: np.ndarray, high: np.ndarray, share: float = 0.5
) -> np.ndarray:
    """Which parts, from `low` to `high` (k, axes) in their wholes, are the best of those that share more than `share`
    of the smaller one, those of one sample apart."""
    size, longest = (high - low).prod(axis=1), (high - low)[:, 0].max(initial=0)
    kept = np.zeros(len(found), dtype=bool)
    for whole in np.unique(wholes):
        order = np.flatnonzero(wholes == whole)
        order = order[np.argsort(low[order, 0], kind="stable")]
        for i in order[np.argsort(-found["score"][order], kind="stable")]:
            near = order[slice(*np.searchsorted(low[order, 0], (low[i, 0] - longest, high[i, 0])))]
            near = near[kept[near] & (found["sample"][near] != found["sample"][i])]
            shared = (np.minimum(high[near], high[i]) - np.maximum(low[near], low[i])).clip(0).prod(axis=1)
            kept[i] = not (shared > np.minimum(size[near], size[i]) * share).any()
    return kept


# Values of the sample of a data set on disk, 512 MB as float32.
SAMPLE_VALUES = 2**27

#: Rows on which representations are scored, as many as MNIST has: the time of neighbors grows with their square. The
#: standard error of an accuracy is then at most .004.
SCORED_ROWS = 70_000


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels if known, and the split into train and test."""

    #: All rows in input order; with a given split the train rows, then the test rows. Vectors are float32 (n, d),
    #: images uint8, uint16 or float32 (n, H, W[, C]), DNA uint8 ASCII letters (n, L), 0 after the end of a sequence;
    #: tables that are not plain numbers a `viewsmith.modalities.tables.TableArray` of encoded rows. Rows too large for
    #: memory are a source, from which slices and rows by index are read.
    x: AnyRows
    #: Labels (n,): classes as integers, booleans or text, or numbers (a continuous target) as float64.
    y: np.ndarray | None
    train_index: np.ndarray  #: rows of `x`, increasing
    test_index: np.ndarray | None  #: None without a split
    #: "given" by the file; 80/20 with seed 0: "stratified" by class, "random", whole "groups"; "none": all train
    split: Split
    modality: str
    source: str  #: file, folder or built-in name, as given by the user
    feature_names: list[str] | None  #: of the columns of `x`, if known
    #: Columns, options and shape with which another file must be read to get the same features in the same order, as
    #: plain JSON values; the argument ``schema`` of `load_dataset`.
    schema: dict[str, Any]
    label_name: str | None  #: None if the labels have no column (arrays, built-in data sets)
    row_names: list[str] | None = None  #: image files, FASTA records, cells
    neighbors: Any = None  #: graph of the rows, a sparse matrix (n, n), if it was requested
    groups: np.ndarray | None = None  #: of the rows, as text (n,), if they were requested
    partly_labeled: bool = False  #: rows may have no label: -1 or "" in `y`, NaN among numbers
    windows: Windows | Tiles | None = None  #: of longer recordings, or tiles of larger images: where they are
    label_fault: str | None = None  #: why labels of rows for a fitted run are left out
    rna: bool = False  #: the letters of DNA are those of RNA in the file, U and no T

    def __repr__(self) -> str:
        """One line: what it is, where it is from, and its sizes."""
        size = " x ".join(f"{number:,}" for number in self.x.shape)
        test = "" if self.test_index is None else f", {len(self.test_index):,} test"
        labels = "no labels" if self.y is None else f"labels {self.label_name!r}" if self.label_name else "labels"
        return f"Dataset({self.source!r}: {self.modality}, {size} ({len(self.train_index):,} train{test}), {labels})"

    def _repr_html_(self) -> str:
        """A short table for notebooks."""
        given = {
            "kind": self.modality,
            "rows": f"{len(self.x):,}",
            "shape of a row": " x ".join(f"{number:,}" for number in self.x.shape[1:]),
            "split": f"{self.split}: {len(self.train_index):,} train"
            + ("" if self.test_index is None else f", {len(self.test_index):,} test"),
            "labels": "none",
        }
        if self.y is not None and self.target == "number":
            given["labels"] = f"numbers from {np.nanmin(self.y):.4g} to {np.nanmax(self.y):.4g}"
        elif self.y is not None:
            classes, counts = np.unique(self.y, return_counts=True)
            most = name_list([f"{c} ({n:,})" for c, n in zip(classes.tolist(), counts.tolist(), strict=True)], 10)
            given["labels"] = f"{len(classes)} classes: {most}"
        if self.feature_names:
            given["features"] = name_list(self.feature_names, 8)
        if self.groups is not None:
            given["groups"] = str(len(np.unique(self.groups)))
        return html_table(f"Dataset {self.source}", given.items())

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

    def in_memory(self, most: int | None = None) -> "Dataset":
        """The data set itself; of one on disk, as many random rows, drawn with seed 0, as have `SAMPLE_VALUES` values.

        For what needs rows in memory together: evaluation and figures. Of any data set `most` random rows are kept.
        """
        n = len(self.x)
        on_disk = isinstance(self.x, RowSource)
        kept = min(n if most is None else most, max(2, SAMPLE_VALUES // self.n_features) if on_disk else n)
        if kept == n and not on_disk:
            return self
        index = np.arange(n) if kept >= n else np.sort(np.random.default_rng(0).choice(n, kept, replace=False))
        is_train = np.zeros(n, dtype=bool)
        is_train[self.train_index] = True
        test = None if self.test_index is None else np.flatnonzero(~is_train[index])
        return self._rows(index, train_index=np.flatnonzero(is_train[index]), test_index=test)

    def _rows(self, index: np.ndarray, **split: Any) -> "Dataset":
        """The rows at an index, with another split."""
        return dataclasses.replace(
            self,
            x=self.x[index],
            y=None if self.y is None else self.y[index],
            row_names=None if self.row_names is None else [self.row_names[i] for i in index],
            neighbors=None if self.neighbors is None else self.neighbors.tocsr()[index][:, index],
            groups=None if self.groups is None else self.groups[index],
            **split,
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

    def fit_labels(self, transductive: bool, *, numbers: bool = False) -> np.ndarray | None:
        """Labels of `fit_rows` for settings that use them (missing: None, or NaN of `numbers`), or None if unknown."""
        if self.target == "number" and not numbers:
            raise InputError(
                f"{self.source}: labels are numbers, but these settings need classes: give supervision='numbers' "
                "(--supervise COLUMN), or --target class"
            )
        if transductive and self.test_index is not None and self.y is not None:
            raise InputError(
                "fit would read the labels of the test rows, because it reads labels with these settings and trains on "
                "all rows (--transductive): leave --transductive out"
            )
        y = self.y if transductive else self.y_train
        if y is not None and self.partly_labeled and not numbers:
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
    """Rows at an increasing index: of a source without reading, and of neighboring rows without a copy."""
    if isinstance(rows, RowSource):
        return rows if len(index) == len(rows) else rows.select(index)
    first, last = int(index[0]), int(index[-1])
    return rows[first : last + 1] if last - first + 1 == len(index) else rows[index]


def validation_split(dataset: Dataset, seed: int = 0, *, whole_groups: bool = False) -> Dataset:
    """The train rows alone, with a fifth of the labeled ones, of each class or whole groups, as test rows."""
    y = dataset.y_train
    absent = np.ones(0, bool) if y is None else without_label(y) if dataset.partly_labeled else np.zeros(len(y), bool)
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
        held[labeled[_fifth(y[labeled], seed)]] = True
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
    index, n = dataset.train_index[np.concatenate([train, test])], len(train)
    return dataset._rows(index, train_index=np.arange(n), test_index=np.arange(n, len(index)), split="given")


def _fifth(y: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of the rows, or of the rows of each class, at least one, of two or more rows."""
    rng, found = np.random.default_rng(seed), []
    of_class = [np.arange(len(y))] if kind_of(y) == "number" else [np.flatnonzero(y == label) for label in np.unique(y)]
    for rows in of_class:
        members = rng.permutation(rows)
        found.append(members[: max(1, round(TEST_FRACTION * len(members))) if len(members) > 1 else 0])
    return np.concatenate(found)


def check_split(dataset: Any) -> None:
    """Raise InputError unless the data have labels and test rows."""
    if dataset.y_train is None:
        raise InputError(
            "the data have no labels, which evaluation needs; give --label COLUMN (table, obs), --labels FILE (FASTA, "
            "names of files, a map of a scene), or y_train and y_test"
        )
    if dataset.x_test is None or len(dataset.x_test) == 0:
        if getattr(getattr(dataset, "windows", None), "fields", None) is not None:
            raise InputError(
                "no class of the map has two fields, of which one can be held out (tiles that share pixels are of one "
                "field): give smaller tiles that share less, or take classes and places of `viewsmith embed RUN DATA "
                "--labels MAP --out h.npz` for a split of your own"
            )
        raise InputError(
            "the data have no test rows, which evaluation needs; give --label COLUMN for an 80/20 split, or X_train "
            "and X_test"
        )
    if dataset.y_test is None:
        raise InputError("the test rows have no labels, which evaluation needs; give --label COLUMN or y_test")
