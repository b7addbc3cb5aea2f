"""How to read the label-free numbers, and when they say that a representation has collapsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viewsmith.reports.verdict import score

#: Title of each label-free diagnostic and one sentence on how to read it.
READINGS: dict[str, tuple[str, str]] = {
    "feature_std": (
        "Feature spread",
        "Mean standard deviation of the features of length-1 rows, times the root of the width: "
        "near 1 the rows point everywhere, near 0 they all point the same way (collapse).",
    ),
    "effective_rank": (
        "Effective rank",
        "How many directions the representation really uses: at most its width, and below 2 it has shrunk to a line.",
    ),
    "alignment": (
        "Alignment",
        "Mean squared distance between two views of a sample, 0 to 4: lower means that the views agree, "
        "which is only worth something while uniformity stays well below 0.",
    ),
    "uniformity": (
        "Uniformity",
        "How evenly the rows cover the sphere: 0 is all in one place, about −4 is the best there is.",
    ),
}

MINIMUM_RANK = 2.0
MINIMUM_STD = 0.05


def latest(metrics: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The last finite value of `key` in the rows, None where there is none."""
    values = (score(row.get(key)) for row in reversed(metrics))
    return next((value for value in values if value is not None), None)


def collapse_warnings(metrics: Sequence[Mapping[str, Any]], evaluation: Mapping[str, Any] | None) -> list[str]:
    """One line for each sign of collapse at the end of training or in the evaluated representation."""
    evaluated = ((evaluation or {}).get("label_free") or {}).get("representation") or {}
    lines = []
    for where, find in (
        ("at the end of training", lambda key: latest(metrics, key)),
        ("of the evaluated representation", lambda key: score(evaluated.get(key))),
    ):
        rank, std = find("effective_rank"), find("feature_std")
        if rank is not None and rank < MINIMUM_RANK:
            lines.append(f"Collapse: the effective rank {where} is {rank:.2f}, below {MINIMUM_RANK:g}.")
        if std is not None and std < MINIMUM_STD:
            lines.append(f"Collapse: the feature spread {where} is {std:.2g}, nearly 0.")
    return lines
