"""Which rows of a comparison are level with the best one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from viewsmith.evaluation.differences import paired_difference
from viewsmith.evaluation.numbers import LOWER_IS_BETTER

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

    Parameters
    ----------
    values : mapping
        By row, the scores by number of the repeat, a seed or a split. Higher is better.
    tie : float
        See `TIES`.
    overlap : float
        See `viewsmith.evaluation.differences.paired_difference`.

    Returns
    -------
    list of str
        In the order of `values`, the best row included; no row without scores, or whose scores are not finite.
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
