"""Tables of MetAug's study: writes docs/results_metaug.md."""

from __future__ import annotations

from benchmarks.quality.study_metaug import ARMS, BATCHES, STUDY
from benchmarks.tables.formatting import by_row, collect, gains, measured, opening, section, titles, write

METRICS = titles("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
TRAINED = tuple(f"{arm}, batch {batch}" for batch in BATCHES for arm in ARMS)
# What each part adds: generators, one loss for all pairs, both, and how the generators learn.
COMPARED = (
    ("mag", "contrast"),
    ("oucl", "contrast"),
    ("metaug", "contrast"),
    ("metaug", "oucl"),
    ("metaug", "mag"),
    ("metaug", "first-order"),
    ("metaug", "frozen"),
    ("simclr + mag", "simclr"),
)
TRAINING = {
    "effective_rank": "effective rank of the embeddings",
    "feature_cosine": "cosine of augmented features and embeddings",
    "seconds_fit": "seconds of training",
}


def compared(batch: int, sets: list[str]) -> dict[str, tuple[str, str, list[str]]]:
    return {f"{one} - {other}": (f"{one}, batch {batch}", f"{other}, batch {batch}", sets) for one, other in COMPARED}


def main() -> None:
    table = collect(STUDY.path)
    sets = measured(table, list(STUDY.sets))
    lines = opening("MetAug", "metaug", STUDY)
    lines.append("Seconds are of one thread of a shared CPU: upper bounds.")
    for metric, title in METRICS.items():
        lines += section(title, by_row(table, metric, sets, ("raw", "pca", "untrained", *TRAINED)))
    lines += section(
        "What each part adds",
        *(gains(table, compared(batch, sets), METRICS, f"batch {batch}") for batch in BATCHES),
        text="Difference at the same encoder steps, paired by set and seed: mean, half of its 95 % interval, number\n"
        "of pairs; comparisons with fewer than three pairs are left out.",
    )
    for metric, title in TRAINING.items():
        lines += section(title, by_row(table, metric, sets, TRAINED))
    write("results_metaug.md", lines)


if __name__ == "__main__":
    main()
