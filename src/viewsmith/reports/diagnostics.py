"""Titles and explanations of the label-free diagnostics, and the values that indicate a collapse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viewsmith.reports.verdict import score

#: Title of each label-free diagnostic and one sentence that explains its values.
DIAGNOSTICS: dict[str, tuple[str, str]] = {
    "feature_std": (
        "Feature spread",
        "Mean standard deviation of the features of rows normalized to length 1, times the square root of the width: "
        "near 1 the rows point in all directions, near 0 they all point in the same direction (collapse).",
    ),
    "effective_rank": (
        "Effective rank",
        "Effective number of dimensions of the representation: at most its width; below 2 the rows lie near a line.",
    ),
    "alignment": (
        "Alignment",
        "Mean squared distance between two views of a sample, 0 to 4: lower means that the views agree, "
        "which is meaningful only if uniformity is well below 0.",
    ),
    "uniformity": (
        "Uniformity",
        "How evenly the rows cover the sphere: 0 if all rows are equal, about −4 at best.",
    ),
    "view_distance": (
        "Distance of views from the data",
        "Median distance of a view to the nearest other sample, over that of samples: about 1 where views lie among "
        "the samples; learned views far above it have left the data.",
    ),
    "told_apart": (
        "Views told apart",
        "Held-out accuracy of a classifier of views against samples: at 0.5 they look the same, at 1 each view is "
        "recognized, which is no harm by itself: crops are recognized, too.",
    ),
    "drift": (
        "Drift of generated views",
        "Fraction of the generated views whose nearest real row is neither their sample nor one of its neighbors: "
        "near 0 the views stay close to their samples, above 1/2 most of them do not.",
    ),
    "generated_similarity": (
        "Similarity of generated views",
        "Mean cosine similarity of the representations of samples and of their generated views: "
        "at 1 the encoder does not distinguish them; lower values mean that the views differ more from their samples.",
    ),
    "feature_cosine": (
        "Cosine of augmented features",
        "Mean cosine similarity of features and the augmented features that the generators make from them: at 1 the "
        "augmented features are copies and add nothing, near 0 they are unrelated to their sample.",
    ),
    "features_told_apart": (
        "Augmented features told apart",
        "Held-out accuracy of a classifier of augmented features against projections of samples: at 0.5 they look the "
        "same, at 1 each is recognized.",
    ),
    "denoising": (
        "Denoising error",
        "Error of the generator on rows held out from its training: lower is better; when it rises again, "
        "the generator overfits its training rows.",
    ),
}

MINIMUM_RANK = 2.0
MINIMUM_STD = 0.05
MAXIMUM_DRIFT = 0.5


def latest(metrics: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The last finite value of `key` in the rows; None if there is none."""
    values = (score(row.get(key)) for row in reversed(metrics))
    return next((value for value in values if value is not None), None)


def collapse_warnings(
    metrics: Sequence[Mapping[str, Any]], evaluation: Mapping[str, Any] | None, rows: int | None = None
) -> list[str]:
    """One line for each sign of collapse at the end of training or in the evaluated representation.

    Parameters
    ----------
    metrics : sequence of mapping
        Rows of ``metrics.jsonl``.
    evaluation : mapping or None
        Result of an evaluation; its label-free diagnostics were computed on ``["rows"]["test"]`` rows.
    rows : int, optional
        Number of training rows; the diagnostics in `metrics` were computed on a sample of them.

    Returns
    -------
    list of str
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
    """A list of one line if most generated views are outside their sample's neighborhood at the end; else empty."""
    drift = latest(metrics, "drift")
    if drift is None or drift <= MAXIMUM_DRIFT:
        return []
    return [
        f"generated views drift from their samples: the nearest row of {drift:.0%} of them is not in the sample's "
        "neighborhood; use a smaller strength, or keep_outliers=False"
    ]


def _least_rank(rows: float | None) -> float:
    """The effective rank below which this many rows count as collapsed; n rows span at most n - 1 dimensions."""
    return MINIMUM_RANK if rows is None else min(MINIMUM_RANK, (rows - 1) / 2)
