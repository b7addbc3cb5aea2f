"""Rows that are level with the best one, of results without what each test row contributes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from viewsmith.evaluation.differences import LOWER_IS_BETTER, ROUNDING, TIES, paired_difference


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
    """Rows level with that of the highest mean: behind are those whose mean difference, over repeats of both, is above
    `tie` and whose 95 % interval (from three repeats on) does not reach zero."""
    finite = {row: scores for row, scores in values.items() if scores and np.isfinite([*scores.values()]).all()}
    if not finite:
        return []
    best = finite[max(finite, key=lambda row: float(np.mean([*finite[row].values()])))]
    level = []
    for row, scores in finite.items():
        gaps = [best[i] - scores[i] for i in sorted(best.keys() & scores.keys())]
        found = paired_difference(gaps, overlap) if gaps else None
        if found and not (found.mean > tie + ROUNDING and (len(gaps) < 3 or found.low is None or found.low > 0)):
            level.append(row)
    return level
