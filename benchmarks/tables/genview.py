"""Tables of GenView's study: writes docs/results/genview.md."""

from __future__ import annotations

from benchmarks.quality.generated.study_genview import ARMS, STUDY
from benchmarks.tables.formatting import Lines, Table, command, gains, method_page, section, titles

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


def main() -> None:
    method_page("genview", "GenView", STUDY, METRICS, ("untrained", *COMPARED), against_framework)


if __name__ == "__main__":
    command(__doc__, main)
