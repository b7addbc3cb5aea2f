"""Differences of two rows of a table: their standard error, their test, and what it says in a word.

Scores vary with the test rows and with the training: its seed, its split, the few labels that are drawn. Both kinds of
variance are estimated and added, as where several readers judge the same cases, and the degrees of freedom are those of
Satterthwaite (1946): test rows are many, so that a few trainings are enough to see a large difference.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE, SIGNIFICANCE = 0.95, 0.05

#: Largest difference at each protocol that is a tie: nearly always within what another seed changes.
TIES: dict[str, float] = {
    **dict.fromkeys(("linear", "knn", "svm", "linear_10pct", "softmax_50", "r2", "knn_r2", "r2_10pct"), 0.015),
    **dict.fromkeys(("linear_1pct", "r2_1pct"), 0.03),
    **dict.fromkeys((measure + rows for rows in ("", "_l2") for measure in ("kmeans_accuracy", "nmi", "ari")), 0.05),
    "mae": 0.015,  # of the smaller error, because it has the unit of the target
}

# 0.955 - 0.940 is a tie of 0.015, although it is 0.0150...01 in binary floats.
ROUNDING = 1e-9

#: Protocols of which a lower score is better.
LOWER_IS_BETTER = frozenset({"mae"})

#: Scores that are made with fewer labels decide nothing.
FEWEST_LABELS = 10


def best_of(protocol: str) -> Callable[..., Any]:
    """The function that finds the best score of a protocol: `max`, or `min` where lower is better."""
    return min if protocol in LOWER_IS_BETTER else max


@dataclass(frozen=True)
class Repeats:
    """How the trainings of a comparison repeat."""

    splits: tuple[int, ...]  # the number of the split of each repeat
    overlap: float = 0.0  # test rows over train rows, if several random splits of the same rows are drawn

    @property
    def several(self) -> bool:
        """Whether there are several splits."""
        return len(set(self.splits)) > 1


@dataclass(frozen=True)
class TestRows:
    """What each test row contributes to a score of a repeat: the score is the mean of `values` over rows and draws."""

    __test__ = False  # no class of tests

    values: NDArray[np.float32]  # (draws of few labels, m)
    index: NDArray[np.int64]  # (m,), the rows' numbers in the data set


Part = tuple[float, float]  # a variance of a mean, and its degrees of freedom


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences, the deviation over repeats, its standard error, 95 % interval and p value; None
    where nothing to estimate them from is known."""

    mean: float
    deviation: float | None
    error: float | None
    low: float | None
    high: float | None
    p: float | None


def paired_difference(values: ArrayLike, overlap: float = 0.0, further: Sequence[Part] = ()) -> Difference:
    r"""The mean of paired differences, tested.

    .. math:: t = \bar d / \sqrt{(1/J + n_2/n_1) S^2 + \sum_i v_i}

    :math:`\bar d` and :math:`S^2` are mean and variance of the J differences, n_2/n_1 is the ratio of test to train
    rows. Random splits of one data set share rows, so that their scores are not independent, and without this
    correction far too many differences are found (Nadeau and Bengio 2003, equation 9). The :math:`v_i` are `further`
    variances, of test rows and of draws. The degrees of freedom are those of Satterthwaite; without further variances
    they are J - 1, and the test is that of Nadeau and Bengio, or, with `overlap` 0, the paired t-test.
    """
    d = np.asarray(values, dtype=np.float64)
    mean, parts = float(d.mean()), [part for part in further if part[0] > 0]
    deviation = float(d.std(ddof=1)) if len(d) > 1 else None
    if deviation is not None and deviation > 1e-12:
        parts.append((deviation**2 * (1 / len(d) + overlap), len(d) - 1))
    error = math.sqrt(sum(variance for variance, _ in parts))
    if error <= 1e-12:
        return Difference(mean, None if deviation is None else 0.0, None, None, None, None)
    from scipy.stats import t

    freedom = error**4 / sum(variance**2 / degrees for variance, degrees in parts)
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    p = float(2 * t.sf(abs(mean) / error, freedom))
    return Difference(mean, deviation, error, mean - half, mean + half, p)


def variances_of_rows(pairs: Sequence[tuple[TestRows, TestRows]], *, several: bool) -> list[Part]:
    """The variance of a mean difference that is due to the test rows, and to the draws of labels, from the differences
    of each test row in each repeat; with `several` splits, repeats have their own draws, which vary with them.

    Two rows are added, half of one with the largest difference, half with its opposite, and one with none, which keeps
    the variance of few rows from being too small (Agresti and Min 2005, for proportions).
    """
    rows = np.concatenate([one.index for one, _ in pairs])
    gaps = [one.values.astype(np.float64) - other.values for one, other in pairs]
    unique, place = np.unique(rows, return_inverse=True)
    if len(unique) < 2:
        return []
    count = np.bincount(place)
    of_row = np.bincount(place, np.concatenate([gap.mean(axis=0) for gap in gaps])) / count
    n, largest = len(of_row) + 2, np.abs(of_row).max()
    mean = of_row.sum() / n
    parts = [(float((np.square(of_row).sum() + largest**2) / n - mean**2) / n, float(len(of_row) - 1))]
    draws = min(len(gap) for gap in gaps)
    if not several and draws > 1:
        of_draw = np.mean([gap.mean(axis=1)[:draws] for gap in gaps], axis=0)
        parts.append((float(of_draw.var(ddof=1)) / draws, draws - 1.0))
    return parts


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """P values by the step-down method of Holm (1979): the i-th of m times m - i + 1, increasing, at most 1."""
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(len(given), np.nan)
    order = np.argsort(given)[: np.isfinite(given).sum()]
    steps = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(order) else steps
    return adjusted


def by_repeat(values: Sequence[float | None], repeats: Repeats) -> dict[int, float]:
    """Scores by what a test counts as a repeat: on several splits the mean of each split, on one those of each seed."""
    found = dict[int, list[float]]()
    for number, (value, split) in enumerate(zip(values, repeats.splits, strict=True)):
        if value is not None and math.isfinite(value):
            found.setdefault(split if repeats.several else number, []).append(value)
    return {key: float(np.mean(scores)) for key, scores in found.items()}


#: By table row, protocol and repeat.
RowsByRepeat = Mapping[str, Mapping[str, Mapping[int, TestRows]]]


def all_pairs(
    scores: Mapping[str, Mapping[str, Sequence[float | None]]],
    protocols: Sequence[str],
    repeats: Repeats,
    test_rows: RowsByRepeat | None = None,
    subject: str | None = None,
) -> list[dict[str, Any]]:
    """All pairs of rows at all protocols, or those of a `subject` with each other row, tested, with p values that are
    adjusted within a protocol; `test_rows` are of the repeats that are known."""
    found = []
    for protocol in protocols:
        values = {row: by_repeat(of_row[protocol], repeats) for row, of_row in scores.items() if protocol in of_row}
        pairs = [pair for pair in itertools.combinations(values, 2) if subject is None or subject in pair]
        tests: list[dict[str, Any]] = []
        for row, other in pairs:
            if other == subject:
                row, other = other, row
            one, two = values[row], values[other]
            if paired := [one[i] - two[i] for i in sorted(one.keys() & two.keys())]:
                of_rows = _paired_rows(test_rows or {}, row, other, protocol, repeats)
                further = variances_of_rows(of_rows, several=repeats.several) if of_rows else []
                result = paired_difference(paired, repeats.overlap, further)
                smaller = min(np.mean([*one.values()]), np.mean([*two.values()]))
                tie = TIES.get(protocol, 0.0) * (float(smaller) if protocol in LOWER_IS_BETTER else 1.0)
                tests.append({"row": row, "other": other, "protocol": protocol, **vars(result), "tie": tie})
        adjusted = holm([math.nan if test["p"] is None else test["p"] for test in tests])
        for test, p in zip(tests, adjusted.tolist(), strict=True):
            found.append(test | {"p_holm": None if math.isnan(p) else p})
    return found


def _paired_rows(
    test_rows: RowsByRepeat, row: str, other: str, protocol: str, repeats: Repeats
) -> list[tuple[TestRows, TestRows]]:
    one, two = (test_rows.get(name, {}).get(protocol, {}) for name in (row, other))
    pairs = [(one[i], two[i]) for i in range(len(repeats.splits)) if i in one and i in two]
    return [pair for pair in pairs if pair[0].values.shape == pair[1].values.shape]


def word(test: Mapping[str, Any]) -> str:
    """What a tested difference says of its row: better, worse, a tie, not clear; or that it cannot be tested."""
    if abs(test["mean"]) <= test["tie"] + ROUNDING:
        return "tie"
    if test["p_holm"] is None:
        return "one pair" if test["deviation"] is None else "no spread"
    if test["p_holm"] > SIGNIFICANCE:
        return "not clear"
    return "better" if (test["mean"] > 0) != (test["protocol"] in LOWER_IS_BETTER) else "worse"


def turned(test: Mapping[str, Any]) -> dict[str, Any]:
    """The same difference with its two rows exchanged."""
    made = dict(test) | {"row": test["other"], "other": test["row"], "mean": -test["mean"]}
    return made if test["low"] is None else made | {"low": -test["high"], "high": -test["low"]}
