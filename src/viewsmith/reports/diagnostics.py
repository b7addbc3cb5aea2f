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
    "drift": (
        "Drift of generated views",
        "Share of the generated views whose nearest real row is neither their sample nor in its neighborhood: "
        "near 0 views keep to their sample, above one half most of them show something else.",
    ),
    "generated_similarity": (
        "Similarity of generated views",
        "Mean cosine similarity of samples and their generated views in the representation: "
        "at 1 the views mean just what their samples mean, and the lower, the more they have changed.",
    ),
    "feature_cosine": (
        "Cosine of augmented features",
        "Mean cosine of embeddings and what the generators make of them: at 1 augmented features are copies that add "
        "nothing, and near 0 they have nothing left of their sample.",
    ),
    "denoising": (
        "Denoising error",
        "Error of the generator on rows held back from its training: lower is better, and when it rises again "
        "the generator has begun to learn its rows by heart.",
    ),
}

MINIMUM_RANK = 2.0
MINIMUM_STD = 0.05
MAXIMUM_DRIFT = 0.5


def latest(metrics: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The last finite value of `key` in the rows, None where there is none."""
    values = (score(row.get(key)) for row in reversed(metrics))
    return next((value for value in values if value is not None), None)


def collapse_warnings(
    metrics: Sequence[Mapping[str, Any]], evaluation: Mapping[str, Any] | None, rows: int | None = None
) -> list[str]:
    """One line for each sign of collapse at the end of training or in the evaluated representation.

    Parameters
    ----------
    metrics : sequence of mapping
    evaluation : mapping or None
        Its ``["rows"]["test"]`` rows are those of its label-free diagnostics.
    rows : int, optional
        Training rows, which those of `metrics` are a sample of.
    """
    evaluated = ((evaluation or {}).get("label_free") or {}).get("representation") or {}
    tested = ((evaluation or {}).get("rows") or {}).get("test")
    lines = []
    for where, count, find in (
        ("at the end of training", rows, lambda key: latest(metrics, key)),
        ("of the evaluated representation", tested, lambda key: score(evaluated.get(key))),
    ):
        rank, std, least = find("effective_rank"), find("feature_std"), _least_rank(score(count))
        if rank is not None and rank < least:
            lines.append(f"Collapse: the effective rank {where} is {rank:.2f}, below {least:g}.")
        if std is not None and std < MINIMUM_STD:
            lines.append(f"Collapse: the feature spread {where} is {std:.2g}, nearly 0.")
    return lines


def drift_warnings(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line where at the end of training most generated views have left their sample's neighborhood."""
    drift = latest(metrics, "drift")
    if drift is None or drift <= MAXIMUM_DRIFT:
        return []
    return [
        f"generated views drift from their samples: the nearest row of {drift:.0%} of them is not in the sample's "
        "neighborhood; use a smaller strength, or keep_outliers=False"
    ]


def _least_rank(rows: float | None) -> float:
    """The effective rank below which so many rows have collapsed: n rows span n - 1 dimensions at most."""
    return MINIMUM_RANK if rows is None else min(MINIMUM_RANK, (rows - 1) / 2)
