"""Tables of GenView's study: writes docs/results/genview.md."""

from __future__ import annotations

from benchmarks.quality.generated import genview_upper_bound
from benchmarks.quality.generated.study_genview import ARMS, STUDY
from benchmarks.tables.formatting import Lines, Table, by_row, collect, command, gains, method_page, section, titles

METRICS = titles("linear", "knn", "kmeans_accuracy", "linear_1pct")
COMPARED = list(ARMS)


def against_framework(table: Table, sets: list[str]) -> Lines:
    """Differences to the framework alone."""
    return section(
        "Against the framework alone",
        gains(table, {row: (row, "framework", sets) for row in COMPARED[1:]}, METRICS),
        text="Difference at the same encoder steps, paired by set, framework and seed: mean, half of its 95 %\n"
        "interval, number of pairs.",
    )


def upper_bound() -> Lines:
    """What views of the same class, and weights that find others, are worth."""
    study = genview_upper_bound
    table, rows, metrics = collect(study.PATH), ("framework", *study.ROWS), titles(*study.PROTOCOLS)
    compared = {f"{row} - framework": (row, "framework", list(study.SETS)) for row in study.ROWS}
    for share in study.SHARES:
        one, other = f"wrong {share:g}, weighted", f"wrong {share:g}"
        compared[f"{one} - equal weights"] = one, other, list(study.SETS)
    shown = metrics | {"auc": "AUC of the quality", "weight_of_wrong": "weight of wrong views"}
    return section(
        "Views as good as asked",
        gains(table, compared, metrics),
        *(by_row(table, metric, list(study.SETS), rows, title) for metric, title in shown.items()),
        text="Views are other samples of the same class, drawn with labels: an upper bound. A share of them, wrong,\n"
        "is of another class, which the weights of quality should find; the protocol is in\n"
        "`benchmarks/quality/generated/genview_upper_bound.py`.",
    )


def main() -> None:
    def more(table: Table, sets: list[str]) -> Lines:
        return [*against_framework(table, sets), *upper_bound()]

    method_page("genview", "GenView", STUDY, METRICS, ("untrained", *COMPARED), more)


if __name__ == "__main__":
    command(__doc__, main)
