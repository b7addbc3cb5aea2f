"""Tables of the study of views of cells: writes docs/results_cells.md."""

from __future__ import annotations

from benchmarks.quality.study_cells import ROWS, STUDY
from benchmarks.tables.formatting import Lines, Table, conclusions, gains, method_page, section, titles

METRICS = titles("linear_1pct", "linear_10pct", "linear", "knn", "kmeans_accuracy", "nmi")


def compared(table: Table, sets: list[str]) -> Lines:
    """Differences from the neighbor recipe."""
    others = {name: (name, "contrastive", sets) for name in ROWS[1:]}
    text = "Paired by set and seed: mean, half of its 95 % interval, number of pairs."
    lines = section("Against the neighbor recipe", gains(table, others, METRICS, "minus contrastive"), text=text)
    found = conclusions(table, [(name, "contrastive") for name in ROWS[1:]], sets, METRICS)
    return lines + section("In sentences", found)


def main() -> None:
    method_page("cells", "views of cells", STUDY, METRICS, ROWS, compared)


if __name__ == "__main__":
    main()
