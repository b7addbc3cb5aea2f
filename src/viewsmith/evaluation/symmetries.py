"""Symmetries of data, tested without labels: does a transformation give samples like those of the data?

Two numbers for each transformation t of a set of samples:

- The **distance ratio**: the median distance of t(x_i) to its nearest other sample x_j, over the median distance of x_i
  to its nearest other sample. It is near 1 where a transformed sample still lies among the samples, and above 1 where
  it leaves them.
- **Told apart**: the accuracy, on held-out samples, of a classifier of original against transformed samples (classifier
  two-sample test: Lopez-Paz and Oquab 2017; of mirrored images, visual chirality: Lin et al. 2020). 0.5 is a symmetry
  of the set.

A view that transforms samples off the data changes their meaning. A transformation that is told apart but stays among
the samples need not: a set of shoes that all point to the left is no symmetric set, though a mirrored shoe is a shoe.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.progress import html_table
from viewsmith.core.rows import RowSource
from viewsmith.modalities import Modality, modality_of
from viewsmith.modalities.base import Transformation
from viewsmith.networks.features import Features
from viewsmith.networks.projected import leading_axes

COMPONENTS = 64
BLOCK = 256
#: Part of the median deviation that a feature is divided by at least: one that hardly varies among samples, as the
#: corner of digits, would otherwise be all that is seen of views.
LEAST = 0.1


class FeatureSpace:
    """Principal coordinates of standardized fixed features, fitted to scaled samples x (n, ...): of the samples,
    `standard` (n, d) has the features and `coordinates` (n, k) at most 64 axes."""

    def __init__(self, features: Features, x: Tensor) -> None:
        self.features = features
        found = self.features_of(x)
        self.center, deviation = found.mean(0), found.std(0, correction=0)
        varying = deviation[deviation > 0]
        self.scale = deviation.clamp_min(LEAST * float(varying.median()) if len(varying) else 1.0)
        self.standard = (found - self.center) / self.scale
        n, d = self.standard.shape
        k = min(COMPONENTS, n, d)
        if n < d:  # by the smaller of both matrices of second moments
            values, left = leading_axes(self.standard @ self.standard.T, k)
            self.axes = self.standard.T @ left / values.clamp_min(1e-12).sqrt()
        else:
            self.axes = leading_axes(self.standard.T @ self.standard, k)[1]
        self.coordinates = self.projected(self.standard)

    @torch.no_grad()
    def features_of(self, x: Tensor) -> Tensor:
        """Features of scaled samples (n, ...), (n, d)."""
        return torch.cat([self.features(block) for block in x.split(BLOCK)])

    def standardized(self, x: Tensor) -> Tensor:
        """Standardized features of scaled samples, (n, d)."""
        return (self.features_of(x) - self.center) / self.scale

    def projected(self, standard: Tensor) -> np.ndarray:
        """Coordinates of standardized features (n, d), (n, k)."""
        return np.asarray((standard @ self.axes).cpu().numpy(), np.float64)


def nearest(queries: np.ndarray, rows: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Distance of each query to the nearest row of another kind (an equal sample, or one of its group, is no other)."""
    found = np.empty(len(queries))
    for start in range(0, len(queries), 500):
        block = slice(start, start + 500)
        distance = cdist(queries[block], rows)
        distance[kinds[block][:, None] == kinds] = np.inf
        found[block] = distance.min(1)
    return found


def kinds_of(x: np.ndarray) -> np.ndarray:
    """A number of each sample (n, ...), the same for equal samples: their place in the order of values."""
    rows = x.reshape(len(x), -1)
    if rows.dtype.kind != "u":
        return np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    # Whole rows of bytes, highest first, are in the same order, and quick.
    rows = np.ascontiguousarray(rows, rows.dtype.newbyteorder(">"))
    order = rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel().argsort(kind="stable")
    # One by one: `np.unique` copies all rows twice, which of large images is most of the memory of a test.
    new = [False, *(not np.array_equal(rows[i], rows[j]) for i, j in pairwise(order))]
    found = np.empty(len(rows), np.int64)
    found[order] = np.cumsum(new[: len(rows)])
    return found


def ratio_of_medians(distances: np.ndarray, of_samples: np.ndarray) -> float:
    """The median of distances, over that of samples."""
    return float(np.median(distances) / max(float(np.median(of_samples)), 1e-12))


SAMPLES = 3_000  # samples that are tested, of large ones fewer
BYTES = 2**27  # of them, at most, as there are several copies of larger numbers
FEWEST = 50
#: From this many times as many features as samples on, products of samples give their components, ten times as fast.
WIDE = 8
FOLDS, DRAWS = 5, 200

# Distance ratio from which a transformation leaves the data: docs/evaluation.md has what it was worth.
OFF_THE_DATA = 1.3
TOLD_APART = 0.55  # least accuracy, at the lower end of its interval, that says that a set is not symmetric


@dataclass(frozen=True)
class Symmetry:
    """The test of one transformation."""

    name: str
    ratio: float  #: distance ratio
    ratio_interval: tuple[float, float]  #: 95 %, of resampled samples
    told_apart: float  #: accuracy on held-out samples, of the better classifier
    told_apart_interval: tuple[float, float]
    linear: float  #: accuracy of a linear one
    nonlinear: float

    @property
    def on_the_data(self) -> bool:
        """Whether the transformation keeps samples among the others, so that a view may use it."""
        return bool(self.ratio < OFF_THE_DATA or self.told_apart_interval[0] < TOLD_APART)

    @property
    def verdict(self) -> str:
        """``on the data`` or ``off the data``."""
        return "on the data" if self.on_the_data else "off the data"

    def describe(self) -> str:
        """One line: ``mirror: off the data, told apart in 93 % of held-out samples, distance ratio 1.41``."""
        return f"{self.name}: {self.verdict}, told apart in {self.told_apart:.0%}, distance ratio {self.ratio:.2f}"


def with_interval(value: float, interval: Sequence[float] = ()) -> str:
    """A number and its interval as text: ``0.94 (0.93-0.95)``."""
    return f"{value:.2f}" + (f" ({interval[0]:.2f}-{interval[1]:.2f})" if interval else "")


class Symmetries(list[Symmetry]):
    """The tests of several transformations, a list; a notebook shows it as a table."""

    HEADER = ("transformation", "verdict", "told apart (95%)", "linear", "nonlinear", "distance ratio")

    def cells(self) -> list[tuple[str, ...]]:
        """The cells of the table, a row for each test."""
        return [
            (
                test.name,
                test.verdict,
                with_interval(test.told_apart, test.told_apart_interval),
                f"{test.linear:.2f}",
                f"{test.nonlinear:.2f}",
                with_interval(test.ratio, test.ratio_interval),
            )
            for test in self
        ]

    def _repr_html_(self) -> str:
        return html_table("Symmetries", self.cells(), self.HEADER)


def symmetries(
    x: np.ndarray | RowSource,
    modality: str,
    transformations: Mapping[str, Transformation] | None = None,
    *,
    groups: np.ndarray | None = None,
    seed: int = 0,
) -> Symmetries:
    """Test which transformations keep samples among the samples of a data set, without labels.

    Parameters
    ----------
    x : ndarray or RowSource, shape (n, ...)
        Samples in the form of `viewsmith.data.Dataset`: images (n, H, W) or (n, H, W, C), DNA uint8 ASCII
        letters (n, L), series (n, channels, time), vectors (n, d). At most 3,000 random ones are tested; of more than
        134 MB fewer, but at least 200.
    modality : str
    transformations : mapping of str to callable, optional
        From a batch of samples to transformed samples of the same shape. Default: those of
        `Modality.transformations` that change the samples.
    groups : ndarray, shape (n,), optional
        Samples of one group are never on both sides of a held-out test.
    seed : int

    Raises
    ------
    InputError
        Fewer than 50 different samples, or a transformation that changes the shape.
    """
    rng = np.random.default_rng(seed)
    most = min(SAMPLES, max(4 * FEWEST, BYTES // max(1, math.prod(x.shape[1:]) * x.dtype.itemsize)))
    rows = np.sort(rng.permutation(len(x))[:most])
    x = np.asarray(x[rows])
    kinds = kinds_of(x)
    if kinds.max(initial=-1) + 1 < FEWEST:
        raise InputError(
            f"{kinds.max(initial=-1) + 1} different samples, expected at least {FEWEST} to test symmetries: "
            "give more samples, or set the rates of views, such as flip=0"
        )
    kinds = kinds if groups is None else np.unique(np.asarray(groups)[rows], return_inverse=True)[1]
    kind = modality_of(modality)
    plain = transformations or kind.transformations_of(x)
    if not plain:
        raise InputError(
            f"{modality} have no transformations to test, as images, recordings and DNA have; in Python, "
            "symmetries(x, transformations={name: function}) tests your own"
        )
    found = Symmetries()
    for name, transform in plain.items():
        changed = np.ascontiguousarray(transform(x))
        if changed.shape != x.shape:
            raise InputError(f"the transformation {name} gives {changed.shape}, expected the shape {x.shape}")
        if transformations is None and np.array_equal(changed, x):
            continue
        compared = in_raw_features(kind, x, changed)
        del changed  # before the next one
        found.append(tested(name, compared, kinds, rng))
    return found


@dataclass(frozen=True)
class Compared:
    """Coordinates (n, k) of samples and of transformed samples: for distances, and (n, d) for classifiers."""

    near: tuple[np.ndarray, np.ndarray]
    told_by: list[tuple[np.ndarray, np.ndarray]]


def in_raw_features(modality: Modality, x: np.ndarray, changed: np.ndarray) -> Compared:
    """Samples and transformed samples in principal components of raw features of both."""
    parts = [components(a, b) for a, b in modality.compared_features(x, changed)]
    return Compared(parts[0], parts)


def components(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal components of features of both: along axes of samples alone, symmetric samples would be told apart."""
    both = np.concatenate([a, b])
    if both.shape[1] > WIDE * len(both):
        both = _of_wide(both)
    else:
        from sklearn.decomposition import PCA

        both = PCA(min(COMPONENTS, *both.shape), random_state=0).fit_transform(both)
    return both[: len(a)], both[len(a) :]


def _of_wide(x: np.ndarray) -> np.ndarray:
    """Principal components of samples (n, d) with far more features than there are samples, by products of these; `x`
    is centered in place, as it may be large."""
    x -= x.mean(axis=0)
    values, vectors = np.linalg.eigh((x @ x.T).astype(np.float64))
    last = slice(-1, -1 - min(COMPONENTS, len(x)), -1)
    found: np.ndarray = vectors[:, last] * np.sqrt(np.maximum(values[last], 0))
    return found.astype(x.dtype)


def tested(name: str, compared: Compared, kinds: np.ndarray, rng: np.random.Generator) -> Symmetry:
    """Both tests on samples and transformed samples."""
    a, b = compared.near
    own, other = nearest(a, a, kinds), nearest(b, a, kinds)
    ratio = ratio_of_medians(other, own)
    # Samples of a group depend on each other: groups are resampled, held out and transformed as a whole.
    _, groups = np.unique(kinds, return_inverse=True)
    count = groups.max() + 1
    draws = []
    for drawn in rng.integers(0, count, (DRAWS, count)):
        rows = np.repeat(np.arange(len(a)), np.bincount(drawn, minlength=count)[groups])
        draws.append(ratio_of_medians(other[rows], own[rows]))
    # Each sample is either original or transformed, so that none meets its own transformed copy; half of each fold is.
    order = rng.permutation(count)[groups]
    transformed, fold = order % 2 == 1, order // 2 % FOLDS
    z = np.concatenate([np.where(transformed[:, None], b, a) for a, b in compared.told_by], axis=1)
    linear, nonlinear = _accuracies(z, transformed, fold)
    best = max(linear, nonlinear)
    margin = 1.96 * np.sqrt(max(best * (1 - best), 1 / count) / count)
    interval = (max(0.0, best - margin), min(1.0, best + margin))
    low, high = np.quantile(draws, [0.025, 0.975])
    return Symmetry(name, ratio, (float(low), float(high)), best, interval, linear, nonlinear)


def _accuracies(z: np.ndarray, transformed: np.ndarray, fold: np.ndarray) -> tuple[float, float]:
    """Held-out accuracies of logistic regression and of an RBF support vector machine, balanced over both kinds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    accuracies = []
    for classifier in (LogisticRegression(max_iter=300, C=0.1), SVC(C=1.0)):
        right = np.zeros(len(z), bool)
        for f in range(FOLDS):
            train = fold != f
            model = make_pipeline(StandardScaler(), classifier).fit(z[train], transformed[train])
            right[~train] = model.predict(z[~train]) == transformed[~train]
        accuracies.append(float(np.mean([right[transformed].mean(), right[~transformed].mean()])))
    return accuracies[0], accuracies[1]
