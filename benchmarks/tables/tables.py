"""Tables of the study on mixed tables: writes docs/results/tables.md."""

from __future__ import annotations

from benchmarks.common.runner import progress
from benchmarks.quality.vectors.study_tables import DRAWN, FIXED, PATH, SETS, cells
from benchmarks.tables.formatting import (
    by_set,
    collect,
    command,
    conclusions,
    gains,
    measured_with,
    section,
    titles,
    write,
)

METRICS = titles("linear_10pct", "linear", "knn", "nmi")
VALIDATION = {f"validation_{metric}": title for metric, title in METRICS.items()}
UNITS = (("ours", "ours, double"), ("ours", "ours, one-hot"))
UNITS_OF_RAW = (("raw", "raw, double"), ("raw", "raw one-hot"))
OTHERS = (*UNITS, ("ours", "gower + umap"), ("ours", "raw"), ("ours", "pca"))


def main() -> None:
    table, sets = collect(PATH), list(SETS)
    lines = [
        "# Measured: mixed tables",
        "",
        f"Written by `benchmarks/tables/tables.py` from `benchmarks/results/{PATH.name}`; rows and protocol are in",
        f"`benchmarks/quality/vectors/study_tables.py` ({progress(cells(False), PATH)}).",
        f"{measured_with(PATH)}.",
        "",
        "`mixture` is generated, with six known clusters; the label of the others is the suggested one of the file.",
        "Mean ± standard deviation over seeds 0, 1, 2; entries without ± have no randomness.",
    ]
    # Weights change no linear classifier of standardized features.
    of_raw = conclusions(table, UNITS_OF_RAW, sets, titles("knn", "nmi"))
    lines += section("In sentences", [*conclusions(table, OTHERS, sets, METRICS), *of_raw])
    chosen = {f"{one} - {other}": (one, other, sets) for one, other in (*UNITS, *UNITS_OF_RAW)}
    text = (
        "The weight of categories was chosen with rows of the training part that the models were not fitted on:\n"
        "difference, paired by set and seed, ± half of its 95 % interval, number of pairs."
    )
    lines += section("Choosing the weights of categories", gains(table, chosen, VALIDATION), text=text)
    for metric, title in METRICS.items():
        lines += section(title, by_set(table, metric, sets, (*FIXED, *DRAWN)))
    lines += section("CPU seconds", by_set(table, "cpu_seconds_fit", sets, DRAWN, bold=False))
    write("results/tables.md", lines)


if __name__ == "__main__":
    command(__doc__, main)
