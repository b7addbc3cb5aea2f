"""Tables of GenView's study from its results file: writes docs/results_genview.md."""

from __future__ import annotations

import study_genview
from tables import DOCS, by_row, collect, gains, opening, section

METRICS = {"linear": "linear", "knn": "kNN", "kmeans_accuracy": "k-means", "linear_1pct": "1 % labels"}
ORDER = ("untrained", *study_genview.ARMS, *study_genview.ABLATIONS)


def main() -> None:
    table = collect(study_genview.PATH)
    places = [f"{name}, {framework}" for name, framework in study_genview.PLACES]
    places = [place for place in places if any(key[0] == place for key in table)]
    every = study_genview.cells([name for name, _ in study_genview.PLACES])
    lines = opening("GenView", "genview", every, study_genview.PATH)
    for metric, title in METRICS.items():
        lines += section(title, by_row(table, metric, places, ORDER))
    lines += section(
        "Against the framework alone",
        gains(table, {row: (row, "framework", places) for row in ORDER[2:]}, METRICS),
        text="Difference at the same encoder steps, paired by set, framework and seed: mean, half of its 95 %\n"
        "interval, number of pairs.",
    )
    (DOCS / "results_genview.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
