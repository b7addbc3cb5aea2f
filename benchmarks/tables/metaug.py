"""Tables of MetAug's study: writes docs/results/metaug.md."""

from __future__ import annotations

from benchmarks.quality import metaug_table1
from benchmarks.quality.study_metaug import ARMS, STUDY
from benchmarks.tables.formatting import (
    Lines,
    Table,
    by_row,
    collect,
    command,
    gains,
    method_page,
    section,
    sections,
    titles,
)

METRICS = titles("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
# What each part adds: generators, one loss for all pairs, both, and how the generators learn.
COMPARED = (
    ("mag", "contrast"),
    ("oucl", "contrast"),
    ("metaug", "contrast"),
    ("metaug", "oucl"),
    ("metaug", "mag"),
    ("metaug", "first-order"),
    ("metaug", "frozen"),
)
TRAINING = {
    "effective_rank": "effective rank of the representations",
    "feature_cosine": "cosine of augmented features and projections",
    "seconds_fit": "seconds of training",
}


def parts(table: Table, sets: list[str]) -> Lines:
    """Differences that each part makes, and metrics of the training."""
    added = section(
        "What each part adds",
        gains(table, {f"{one} - {other}": (one, other, sets) for one, other in COMPARED}, METRICS),
        text="Difference at the same encoder steps, paired by set and seed: mean, half of its 95 % interval, number\n"
        "of pairs; comparisons with fewer than three pairs are left out.",
    )
    study = metaug_table1.STUDY
    published = section(
        "The published form",
        *(
            by_row(collect(study.path), metric, list(study.sets), tuple(study.rows), title)
            for metric, title in titles("linear", "knn").items()
        ),
        text="Table 1 of the paper at a smaller scale: 5,000 images, 5,000 steps, the output of the convolutions,\n"
        "on a GPU; the protocol is in `benchmarks/quality/metaug_table1.py`.",
    )
    return added + sections(table, TRAINING, sets, tuple(ARMS)) + published


def main() -> None:
    note = ["Seconds are of one thread of a shared CPU: upper bounds."]
    method_page("metaug", "MetAug", STUDY, METRICS, ("raw", "untrained", *ARMS), parts, note)


if __name__ == "__main__":
    command(__doc__, main)
