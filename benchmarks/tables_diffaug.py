"""Tables of DiffAug's study from its results file: writes docs/results_diffaug.md."""

from __future__ import annotations

import study_diffaug
from tables import DOCS, by_row, collect, gains, opening, section

METRICS = {
    "svm": "linear SVM",
    "knn": "kNN",
    "kmeans_accuracy": "k-means",
    "linear_1pct": "1 % labels",
    "map_svm": "map, linear SVM",
    "map_knn": "map, Euclidean kNN",
    "map_kmeans_accuracy": "map, k-means",
}
ORDER = (
    "raw",
    "pca",
    "umap",
    "pca 2-D",
    "umap 2-D",
    "pacmap 2-D",
    "untrained",
    *study_diffaug.PEERS,
    *study_diffaug.ARMS,
)


def main() -> None:
    table = collect(study_diffaug.PATH)
    sets = [name for name in (*study_diffaug.VECTORS, *study_diffaug.DOMAINS) if any(key[0] == name for key in table)]
    every = study_diffaug.cells([*study_diffaug.VECTORS, *study_diffaug.DOMAINS])
    lines = opening("DiffAug", "diffaug", every, study_diffaug.PATH)
    for metric, title in METRICS.items():
        lines += section(title, by_row(table, metric, sets, ORDER))
    lines += section(
        "Against phase A",
        gains(table, {row: (row, "phase A", sets) for row in ORDER if row != "phase A"}, METRICS),
        gains(table, {name: ("diffaug", "phase A", [name]) for name in sets}, METRICS, "diffaug, by set"),
        text="Difference to phase A alone at the same encoder steps, paired by set and seed: mean, half of its 95 %\n"
        "interval, number of pairs.",
    )
    (DOCS / "results_diffaug.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
