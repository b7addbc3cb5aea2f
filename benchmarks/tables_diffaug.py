"""Tables of DiffAug's study from its results file: writes docs/results_diffaug.md."""

from __future__ import annotations

import statistics

import study_diffaug
from runner import progress
from scipy.stats import t as student
from tables import DOCS, Table, collect, entry, values

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


def paired(table: Table, datasets: list[str], better: str, worse: str, metric: str) -> str:
    """Mean difference over the sets of the means over common seeds, with its 95 % interval over seeds and sets."""
    differences = []
    for dataset in datasets:
        a, b = table.get((dataset, better), {}), table.get((dataset, worse), {})
        differences += [a[seed][metric] - b[seed][metric] for seed in sorted(a.keys() & b.keys()) if metric in a[seed]]
    if len(differences) < 3:
        return "-"
    half = student.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    return f"{statistics.fmean(differences):+.3f} ± {half:.3f} ({len(differences)})"


def main() -> None:
    table = collect(study_diffaug.PATH)
    sets = [name for name in (*study_diffaug.VECTORS, *study_diffaug.DOMAINS) if any(key[0] == name for key in table)]
    every = study_diffaug.cells([*study_diffaug.VECTORS, *study_diffaug.DOMAINS])
    lines = [
        "# Measured: DiffAug",
        "",
        "Written by `benchmarks/tables_diffaug.py` from `benchmarks/results/study_diffaug.jsonl`; the protocol is in",
        f"`benchmarks/study_diffaug.py`. {progress(every, study_diffaug.PATH)}.",
        "",
        "Mean ± standard deviation over seeds; accuracy on test rows. The number of seeds stands behind each name.",
    ]
    for metric, title in METRICS.items():
        lines += ["", f"## {title}", "", f"| row | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
        for row in ORDER:
            cells = [values_of(table, name, row, metric) for name in sets]
            if any(cells):
                seeds = max(len(cell) for cell in cells)
                lines.append(f"| {row} ({seeds}) | {' | '.join(entry(cell) for cell in cells)} |")
    lines += [
        "",
        "## Against phase A",
        "",
        "Difference to phase A alone at the same encoder steps, paired by set and seed: mean, half of its 95 %",
        "interval, number of pairs.",
        "",
        f"| row | {' | '.join(METRICS.values())} |",
        f"|---|{'---|' * len(METRICS)}",
    ]
    for row in ORDER:
        found = [paired(table, sets, row, "phase A", metric) for metric in METRICS]
        if row != "phase A" and any(cell != "-" for cell in found):
            lines.append(f"| {row} | {' | '.join(found)} |")
    lines += ["", f"| diffaug, by set | {' | '.join(METRICS.values())} |", f"|---|{'---|' * len(METRICS)}"]
    for name in sets:
        found = [paired(table, [name], "diffaug", "phase A", metric) for metric in METRICS]
        lines.append(f"| {name} | {' | '.join(found)} |")
    (DOCS / "results_diffaug.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def values_of(table: Table, dataset: str, row: str, metric: str) -> list[float]:
    if not any(metric in found for found in table.get((dataset, row), {}).values()):
        return []
    return values(table, dataset, row, metric)


if __name__ == "__main__":
    main()
