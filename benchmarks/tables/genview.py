"""Tables of GenView's study: writes docs/results_genview.md."""

from __future__ import annotations

from benchmarks.quality.study_genview import ABLATIONS, ARMS, STUDY
from benchmarks.tables.formatting import by_row, collect, gains, measured, opening, section, titles, write

METRICS = titles("linear", "knn", "kmeans_accuracy", "linear_1pct")
ORDER = ("untrained", *ARMS, *ABLATIONS)


def main() -> None:
    table = collect(STUDY.path)
    places = measured(table, list(STUDY.sets))
    lines = opening("GenView", "genview", STUDY)
    for metric, title in METRICS.items():
        lines += section(title, by_row(table, metric, places, ORDER))
    lines += section(
        "Against the framework alone",
        gains(table, {row: (row, "framework", places) for row in ORDER[2:]}, METRICS),
        text="Difference at the same encoder steps, paired by set, framework and seed: mean, half of its 95 %\n"
        "interval, number of pairs.",
    )
    write("results_genview.md", lines)


if __name__ == "__main__":
    main()
