"""Tables of MetAug's study from its results file: writes docs/results_metaug.md."""

from __future__ import annotations

import study_metaug
from study_metaug import ARMS, BATCHES
from tables import DOCS, by_row, collect, gains, opening, section

METRICS = {
    "linear": "linear",
    "svm": "linear SVM",
    "knn": "kNN",
    "kmeans_accuracy": "k-means",
    "nmi": "NMI of k-means",
    "linear_1pct": "1 % labels",
}
TRAINED = tuple(f"{arm}, batch {batch}" for batch in BATCHES for arm in ARMS)
ORDER = ("raw", "pca", "untrained", *TRAINED)
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
    table = collect(study_metaug.PATH)
    every = [*study_metaug.VECTORS, *study_metaug.DOMAINS]
    sets = [name for name in every if any(key[0] == name for key in table)]
    lines = opening("MetAug", "metaug", study_metaug.cells(every), study_metaug.PATH)
    lines.append("Seconds are of one thread of a shared CPU: upper bounds.")
    for metric, title in METRICS.items():
        lines += section(title, by_row(table, metric, sets, ORDER))
    lines += section(
        "What each part adds",
        *(gains(table, compared(batch, sets), METRICS, f"batch {batch}") for batch in BATCHES),
        text="Difference at the same encoder steps, paired by set and seed: mean, half of its 95 % interval, number\n"
        "of pairs; comparisons with fewer than three pairs are left out.",
    )
    for metric, title in TRAINING.items():
        lines += section(title, by_row(table, metric, sets, TRAINED))
    (DOCS / "results_metaug.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
