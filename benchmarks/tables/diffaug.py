"""Tables of DiffAug's study: writes docs/results/diffaug.md."""

from __future__ import annotations

from benchmarks.quality.generated import diffaug_preset
from benchmarks.quality.generated.study_diffaug import ABLATIONS, ARMS, ON_ONE_SET, STUDY
from benchmarks.tables.formatting import Lines, Table, by_row, collect, command, gains, method_page, section, titles

METRICS = titles("svm", "knn", "kmeans_accuracy", "linear_1pct") | {
    "map_svm": "map, linear SVM",
    "map_knn": "map, Euclidean kNN",
    "map_kmeans_accuracy": "map, k-means",
}
BASELINES = ("raw", "pca", "pca 2-D", "umap 2-D", "pacmap 2-D", "untrained")
ORDER = (*BASELINES, "contrastive", *ARMS, *ABLATIONS, *ON_ONE_SET)


def against_phase_a(table: Table, sets: list[str]) -> Lines:
    """Differences to phase A alone."""
    return section(
        "Against phase A",
        gains(table, {row: (row, "phase A", sets) for row in ORDER if row != "phase A"}, METRICS),
        gains(table, {name: ("diffaug", "phase A", [name]) for name in sets}, METRICS, "diffaug, by set"),
        text="Difference to phase A alone at the same encoder steps, paired by set and seed: mean, half of its 95 %\n"
        "interval, number of pairs.",
    )


def published_form() -> Lines:
    """Both readings of the published encoder, beside themselves before training."""
    table, study = collect(diffaug_preset.STUDY.path), diffaug_preset.STUDY
    compared = {f"{one} - {other}": (one, other, list(study.sets)) for one, other in diffaug_preset.COMPARED}
    return section(
        "The published form",
        gains(table, compared, diffaug_preset.METRICS),
        *(
            by_row(table, metric, list(study.sets), tuple(study.rows), title)
            for metric, title in diffaug_preset.METRICS.items()
        ),
        text="`paper`: representation y = 300, embedding z = 80, on which E.2 fits an SVM; `paper2d`: y = 80, z = 2\n"
        "(E.1). 2,000 rows, 500 encoder steps; the protocol is in\n"
        "`benchmarks/quality/generated/diffaug_preset.py`.",
    )


def main() -> None:
    method_page(
        "diffaug", "DiffAug", STUDY, METRICS, ORDER, lambda *found: [*against_phase_a(*found), *published_form()]
    )


if __name__ == "__main__":
    command(__doc__, main)
