"""Paired differences of the rows of a comparison: intervals and tests that know that splits overlap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
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

    Parameters
    ----------
    values : array (J,)
        One finite difference for each split.
    overlap : float
        n_2/n_1 of random splits; 0 for independent values.

    Returns
    -------
    Difference
        With one value, or equal ones, only the mean (and a deviation of 0).
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

    Parameters
    ----------
    p : array (m,)
        NaN for tests that were not possible; they do not count.

    Returns
    -------
    array (m,)
        In the order of `p`. To reject those of at most a keeps the probability of any false rejection at most a.
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(len(given), np.nan)
    order = np.argsort(given)[: np.isfinite(given).sum()]
    steps = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(order) else steps
    return adjusted


def by_repeat(values: Sequence[float | None], repeats: Repeats) -> dict[int, float]:
    """Scores by what a test counts as a repeat: on several splits the mean of each split, on one those of each seed.

    Parameters
    ----------
    values : sequence of float or None
        The score of each repeat; None where a training failed.
    repeats : Repeats
    """
    several, found = len(set(repeats.splits)) > 1, dict[int, list[float]]()
    for number, (value, split) in enumerate(zip(values, repeats.splits, strict=True)):
        if value is not None and math.isfinite(value):
            found.setdefault(split if several else number, []).append(value)
    return {key: float(np.mean(scores)) for key, scores in found.items()}


def all_pairs(
    scores: Mapping[str, Mapping[str, Sequence[float | None]]], protocols: Sequence[str], repeats: Repeats
) -> list[dict[str, Any]]:
    """All pairs of rows at all protocols, tested, with p values that are adjusted within a protocol.

    Parameters
    ----------
    scores : mapping
        By row and protocol, the score of each repeat; None where a training failed.
    protocols : sequence of str
    repeats : Repeats

    Returns
    -------
    list of dict
        Plain values: ``row``, ``other``, ``protocol``, those of `Difference` (of `row` minus `other`) and ``p_holm``.
    """
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
