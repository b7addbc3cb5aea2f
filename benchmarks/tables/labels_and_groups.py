"""Tables of the study of few labels and groups: writes docs/results/labels_and_groups.md."""

from __future__ import annotations

from benchmarks.common.runner import progress
from benchmarks.quality.vectors.study_labels import PATH, PERCENT, SETS, cells
from benchmarks.tables.formatting import (
    Lines,
    Table,
    by_row,
    collect,
    command,
    conclusions,
    gain,
    gains,
    head,
    measured,
    measured_with,
    section,
    titles,
    write,
)

GROUPS = ("gas_drift groups", "wisdm_har groups")
GROUP_METRICS = {
    **titles("linear", "knn", "kmeans_accuracy", "nmi"),
    "group_mixing": "group mixing",
    "biology_kept": "biology kept",
}
LABEL_METRICS = {"linear": "linear", "nearest": "nearest row"} | titles("kmeans_accuracy", "nmi")


def of_percent(table: Table, percent: int) -> Table:
    """Rows of one number of labels, with the same names of rows and metrics for every number."""
    found: Table = {}
    for (dataset, method), seeds in table.items():
        if method.endswith(f" {percent} %"):
            found[dataset, method.removesuffix(f" {percent} %")] = seeds
        elif not method.endswith("%"):
            ending = f"_{percent}"
            found[dataset, method] = {
                seed: {key.removesuffix(ending): value for key, value in row.items() if key.endswith(ending)}
                for seed, row in seeds.items()
            }
    return found


def labels(table: Table) -> Lines:
    """Gains against the model without labels, and all scores."""
    sets, lines = measured(table, list(SETS)), []
    for percent in PERCENT:
        part = of_percent(table, percent)
        order = ("logistic regression", "label spreading", "umap y", "contrastive", "labels")
        others = head("labels against", list(LABEL_METRICS.values()))
        for other in order[:-1]:
            # Classifiers on raw rows have their accuracy as "linear", and no other score.
            common = "linear" if other in ("logistic regression", "label spreading") else None
            entries = ["-" if common not in (None, m) else gain(part, "labels", other, sets, m) for m in LABEL_METRICS]
            others.append(f"| {other} | {' | '.join(entries)} |")
        scores = [
            line for metric, title in LABEL_METRICS.items() for line in ("", *by_row(part, metric, sets, order, title))
        ]
        text = (
            "`labels` is the model with supervision. Differences: mean over sets and seeds, half of the 95 %\n"
            "interval, number of pairs. Then in sentences, with the interval over sets."
        )
        found = conclusions(part, [("labels", other) for other in reversed(order[:-1])], sets, LABEL_METRICS)
        lines += section(f"{percent} % labels", others, found, scores, text=text)
    return lines


def groups(table: Table) -> Lines:
    """Scores on groups that were not in the training."""
    tables = [by_row(table, m, GROUPS, ("raw", "contrastive", "aligned"), title) for m, title in GROUP_METRICS.items()]
    text = (
        "gas_drift: fitted on batches 1 to 5, scored on 6, 8 and 9. wisdm_har: 25 subjects, scored on 11 others.\n"
        "Differences of aligned from contrastive: mean over seeds, half of the 95 % interval, number of seeds."
    )
    compared = {name: ("aligned", "contrastive", [name]) for name in GROUPS}
    return section("Groups", gains(table, compared, GROUP_METRICS, "aligned - contrastive"), *tables, text=text)


def main() -> None:
    table = collect(PATH)
    lines = [
        "# Measured: few labels and groups",
        "",
        "Written by `benchmarks/tables/labels_and_groups.py` from `benchmarks/results/labels_and_groups.jsonl`; the",
        f"protocol is in `benchmarks/quality/vectors/study_labels.py`. {progress(cells(), PATH)}.",
        f"{measured_with(PATH)}.",
        "",
        "Mean ± standard deviation over seeds; accuracy on test rows. The number behind a row's name is the largest",
        "number of its seeds; entries without ± have one seed.",
    ]
    write("results/labels_and_groups.md", [*lines, *groups(table), *labels(table)])


if __name__ == "__main__":
    command(__doc__, main)
