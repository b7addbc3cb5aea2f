"""Supervision by numbers: writes docs/results/numbers.md."""

from __future__ import annotations

import numpy as np

from benchmarks.common.runner import progress
from benchmarks.common.runner import rows as read
from benchmarks.quality.study_numbers import FRACTIONS, PATH, TARGETS, cells
from benchmarks.tables.formatting import command, write

ROWS = {
    "raw r2": "raw features, ridge",
    "gradient-boosting r2": "raw features, gradient boosting",
    "contrastive r2": "`contrastive`, ridge",
    "numbers r2": "`contrastive` with numbers, ridge",
    "raw knn_r2": "raw features, neighbors",
    "contrastive knn_r2": "`contrastive`, neighbors",
    "numbers knn_r2": "`contrastive` with numbers, neighbors",
}


def main() -> None:
    """Write the page."""
    found = [line for line in read(PATH) if "error" not in line]
    sets = [name for name in TARGETS if any(line["dataset"] == name for line in found)]
    titles = [f"{name}: {TARGETS[name][0]}" for name in sets]
    lines = [
        "# Supervision by numbers",
        "",
        'What `supervision="numbers"` (Rank-N-Contrast on the rows that have a number) changes. Written by',
        "`benchmarks/tables/numbers.py` from `benchmarks/results/study_numbers.jsonl`; "
        + progress(cells(), PATH)
        + ".",
        "",
        "R² on test rows, mean and standard deviation over seeds: up to 1,500 random rows of each table, a fifth of",
        "them test rows, both drawn with the seed; 300 steps. Regressions are fitted on the labeled rows alone, the",
        "same for all rows of a table. One thread of an AMD EPYC, torch 2.13.0.",
    ]
    for fraction in FRACTIONS:
        lines += ["", f"## {fraction:.0%} of the train rows have a number".replace("%", " %"), ""]
        lines += [f"| features | {' | '.join(titles)} |", "|---|" + "---|" * len(sets)]
        for row, title in ROWS.items():
            values = [[line[f"{row} {fraction}"] for line in found if line["dataset"] == name] for name in sets]
            shown = [f"{np.mean(each):.3f} ± {np.std(each, ddof=1):.3f} ({len(each)})" for each in values]
            lines.append(f"| {title} | {' | '.join(shown)} |")
    lines += ["", "## In words", ""]
    for fraction in FRACTIONS:
        gains = [
            line[f"numbers {score} {fraction}"] - line[f"contrastive {score} {fraction}"]
            for score in ("r2", "knn_r2")
            for line in found
        ]
        worse = sum(gain < -0.015 for gain in gains)
        better = sum(gain > 0.015 for gain in gains)
        lines.append(
            f"- {fraction:.0%} of the rows with a number: better than without them by more than a tie of .015 in "
            f"{better}, worse in {worse} of {len(gains)} pairs of a table, a seed and a score; median difference "
            f"{np.median(gains):+.3f}.".replace("%", " %", 1)
        )
    write("results/numbers.md", lines)


if __name__ == "__main__":
    command(__doc__, main)
