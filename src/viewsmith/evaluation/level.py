"""Which rows of a comparison are level with the best one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

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
}
# 0.955 - 0.940 is a tie of 0.015, although it is 0.0150...01 in binary floats.
ROUNDING = 1e-9


def level_rows(values: Mapping[str, Sequence[float]], tie: float) -> list[str]:
    """Rows that are not clearly behind the best one.

    The best row has the highest mean. Another one is behind it if its mean is lower by more than `tie` and, from three
    seeds on, if the 95 % interval of the differences, paired by seed, does not reach zero.

    Parameters
    ----------
    values : mapping
        By row, the scores of all seeds in their order, or one score for all seeds. Higher is better.
    tie : float
        See `TIES`.

    Returns
    -------
    list of str
        In the order of `values`, the best row included; no row whose scores are not finite.
    """
    finite = {row: np.asarray(scores) for row, scores in values.items() if np.isfinite(scores).all()}
    if not finite:
        return []
    best = max(finite.values(), key=lambda scores: float(scores.mean()))
    return [row for row, scores in finite.items() if not _behind(np.atleast_1d(best - scores), tie)]


def _behind(gaps: np.ndarray, tie: float) -> bool:
    """Whether gaps between the best row and another, one for each seed, are more than a tie."""
    mean = float(gaps.mean())
    if mean <= tie + ROUNDING:
        return False
    if len(gaps) < 3:
        return True
    from scipy.stats import t

    half = t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps))
    return bool(mean > half)
