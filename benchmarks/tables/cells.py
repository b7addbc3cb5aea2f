"""Tables of the study of views of cells: writes docs/results/cells.md."""

from __future__ import annotations

from benchmarks.quality.vectors.study_cells import ROWS, STUDY
from benchmarks.tables.formatting import Lines, Table, command, gains, method_page, section, titles

METRICS = titles("linear_1pct", "linear_10pct", "linear", "knn", "kmeans_accuracy", "nmi")


def compared(table: Table, sets: list[str]) -> Lines:
    """Differences from the neighbor recipe, set by set."""
    others = {f"{row}: {name}": (row, "contrastive", [name]) for row in ROWS[1:] for name in sets}
    text = "Paired by seed: mean, half of its 95 % interval, number of pairs."
    return section("Against the neighbor recipe", gains(table, others, METRICS, "minus contrastive"), text=text)


def main() -> None:
    method_page("cells", "views of cells", STUDY, METRICS, ROWS, compared)


if __name__ == "__main__":
    command(__doc__, main)
