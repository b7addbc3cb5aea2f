"""Which rows of a comparison are level with the best: paired differences, corrected tests, and tables in plain text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE, SIGNIFICANCE = 0.95, 0.05


@dataclass(frozen=True)
class Repeats:
    """How the trainings of a comparison repeat.

    Attributes
    ----------
    splits : tuple of int
        The number of the split of each repeat.
    overlap : float
        Test rows over train rows of a split if several random splits of the same rows are drawn, else 0.
    """

    splits: tuple[int, ...]
    overlap: float = 0.0


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences, its deviation, 95 % interval and p value; None where there are too few pairs."""

    mean: float
    deviation: float | None
    low: float | None
    high: float | None
    p: float | None


def paired_difference(values: ArrayLike, overlap: float = 0.0) -> Difference:
    r"""The corrected resampled t-test of Nadeau and Bengio (2003), equation 9, of paired differences.

    .. math:: t = \bar d / \sqrt{(1/J + n_2/n_1) S^2}

    with J - 1 degrees of freedom, where :math:`\bar d` and :math:`S^2` are mean and variance of the J differences, and
    n_2/n_1 is the ratio of test to train rows. Random splits of one data set share rows, so that their scores are not
    independent: without the correction, far too many differences are found. With `overlap` 0 it is the paired t-test.
    """
    d = np.asarray(values, dtype=np.float64)
    mean = float(d.mean())
    if len(d) < 2:
        return Difference(mean, None, None, None, None)
    deviation = float(d.std(ddof=1))
    if deviation <= 1e-12:
        return Difference(mean, 0.0, None, None, None)
    from scipy.stats import t

    error = deviation * math.sqrt(1 / len(d) + overlap)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(d) - 1)) * error
    return Difference(mean, deviation, mean - half, mean + half, float(2 * t.sf(abs(mean) / error, len(d) - 1)))


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """P values adjusted for their number by the step-down method of Holm (1979).

    The i-th smallest of m values is multiplied by m - i + 1, then raised to the largest before it, and cut at 1.
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(len(given), np.nan)
    order = np.argsort(given)[: np.isfinite(given).sum()]
    steps = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(order) else steps
    return adjusted


def by_repeat(values: Sequence[float | None], repeats: Repeats) -> dict[int, float]:
    """Scores by what a test counts as a repeat: on several splits the mean of each split, on one those of each seed."""
    several, found = len(set(repeats.splits)) > 1, dict[int, list[float]]()
    for number, (value, split) in enumerate(zip(values, repeats.splits, strict=True)):
        if value is not None and math.isfinite(value):
            found.setdefault(split if several else number, []).append(value)
    return {key: float(np.mean(scores)) for key, scores in found.items()}


def all_pairs(
    scores: Mapping[str, Mapping[str, Sequence[float | None]]], protocols: Sequence[str], repeats: Repeats
) -> list[dict[str, Any]]:
    """All pairs of rows at all protocols, tested, with p values that are adjusted within a protocol."""
    found = []
    for protocol in protocols:
        values = {row: by_repeat(of_row[protocol], repeats) for row, of_row in scores.items()}
        tests: list[dict[str, Any]] = []
        for row, other in itertools.combinations(values, 2):
            one, two = values[row], values[other]
            if paired := [one[i] - two[i] for i in sorted(one.keys() & two.keys())]:
                result = paired_difference(paired, repeats.overlap)
                tests.append({"row": row, "other": other, "protocol": protocol, **vars(result)})
        adjusted = holm([math.nan if test["p"] is None else test["p"] for test in tests])
        for test, p in zip(tests, adjusted.tolist(), strict=True):
            found.append(test | {"p_holm": None if math.isnan(p) else p})
    return found


WIDTH = 120


def aligned(cells: Sequence[str], pad: Callable[[str, int], str] = str.ljust) -> list[str]:
    """The cells of a column, padded to one width."""
    width = max(map(len, cells))
    return [pad(cell, width) for cell in cells]


def marked(values: Sequence[float], *, lower: bool = False) -> list[str]:
    """Scores to three decimals, each followed by ``*`` if it equals the best one in this form, else by a space.

    The best is the highest, or the lowest if `lower`.
    """
    texts = [f"{value:.3f}" for value in values]
    finite = [text for text, value in zip(texts, values, strict=True) if math.isfinite(value)]
    best = (min if lower else max)(finite, key=float, default=None)
    return [text + ("*" if text == best else " ") for text in texts]


def beside(columns: Sequence[Sequence[str]]) -> str:
    """Columns of equal length beside each other, as lines of text."""
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def in_blocks(names: Sequence[str], columns: Sequence[Sequence[str]], width: int = WIDTH) -> list[str]:
    """One or more tables with the names of the rows and as many of the columns as fit."""
    first, blocks, used = aligned(["", *names]), list[list[Sequence[str]]](), width
    for column in columns:
        if used + len(column[0]) + 2 > width:
            blocks.append([first])
            used = len(first[0])
        blocks[-1].append(column)
        used += len(column[0]) + 2
    return [beside(block) for block in blocks]


#: Largest difference at each protocol that is a tie: nearly always within what another seed changes.
TIES: dict[str, float] = {
    "linear": 0.015,
    "knn": 0.015,
    "svm": 0.015,
    "kmeans_accuracy": 0.05,
    "nmi": 0.05,
    "ari": 0.05,
    "kmeans_accuracy_l2": 0.05,
    "nmi_l2": 0.05,
    "ari_l2": 0.05,
    "linear_1pct": 0.03,
    "linear_10pct": 0.015,
    "softmax_50": 0.015,
    "r2": 0.015,
    "knn_r2": 0.015,
    "r2_1pct": 0.03,
    "r2_10pct": 0.015,
    "mae": 0.015,  # of the smallest error, because it has the unit of the target
}

# 0.955 - 0.940 is a tie of 0.015, although it is 0.0150...01 in binary floats.
ROUNDING = 1e-9


#: Protocols of which a lower score is better.
LOWER_IS_BETTER = frozenset({"mae"})


def best_of(protocol: str) -> Callable[..., Any]:
    """The function that finds the best score of a protocol: `max`, or `min` where lower is better."""
    return min if protocol in LOWER_IS_BETTER else max


def level_at(protocol: str, values: Mapping[str, Mapping[int, float]], overlap: float = 0.0) -> list[str]:
    """`level_rows` at a protocol, with its tie, also where lower is better."""
    if protocol not in LOWER_IS_BETTER:
        return level_rows(values, TIES[protocol], overlap)
    means = [
        float(np.mean([*each.values()])) for each in values.values() if each and np.isfinite([*each.values()]).all()
    ]
    negated = {row: {i: -score for i, score in scores.items()} for row, scores in values.items()}
    return level_rows(negated, TIES[protocol] * min(means, default=0.0), overlap)


def level_rows(values: Mapping[str, Mapping[int, float]], tie: float, overlap: float = 0.0) -> list[str]:
    """Rows that are not clearly behind the best one.

    The best row has the highest mean. Another one is behind it if its mean difference from it, over the repeats that
    both have, is more than `tie` and, from three repeats on, the 95 % interval of the differences does not reach zero.
    """
    finite = {row: scores for row, scores in values.items() if scores and np.isfinite([*scores.values()]).all()}
    if not finite:
        return []
    best = finite[max(finite, key=lambda row: float(np.mean([*finite[row].values()])))]
    gaps = {row: [best[i] - scores[i] for i in sorted(best.keys() & scores.keys())] for row, scores in finite.items()}
    return [row for row, of_row in gaps.items() if of_row and not _behind(of_row, tie, overlap)]


def _behind(gaps: list[float], tie: float, overlap: float) -> bool:
    """Whether gaps between the best row and another, one for each repeat, are more than a tie."""
    found = paired_difference(gaps, overlap)
    return found.mean > tie + ROUNDING and (len(gaps) < 3 or found.low is None or found.low > 0)
