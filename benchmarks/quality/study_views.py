"""What numbers without labels say about views: the command views-table on sets with labels.

A cell is the table of one set: every view alone and left out of the default set, with the gain of each over the fixed
features at 5 neighbors and at linear, on held-out train rows. `tables` compares the views' numbers with these gains:
rank correlations within a set, and what is lost by the views whose number is nearest to a target. Medians of the rows
"table" in the results are over all views; "turns" has those of views that differ from their sample, as the command.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_views [minutes] [set ...]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.study_symmetries import PICTURES, digits, picture_set
from benchmarks.quality.suite import SEEDS, command
from viewsmith.workflows.views_table import views_table

PATH = RESULTS / "study_views.jsonl"
NUMBERS = ("ratio", "moved", "correlation", "columns", "nats")
GAINS = ("knn_gain", "linear_gain")


def measure(name: str, seed: int, *, small: int | None = None, views: list[str] | None = None) -> dict[str, Any]:
    """The table of a set."""
    torch.set_num_threads(1)
    data = picture_set(name) if small is None else digits()
    x, y = data.x[:small], data.y[:small]
    table = views_table(x, y, seed=seed, samples=1000 if small is None else 20, uses=("alone", "left out"), views=views)
    rows = [{k: round(v, 4) if isinstance(v, float) else v for k, v in row.as_dict().items()} for row in table]
    return {"samples": table.samples, "scored": table.scored, "rows": rows}


def cells(quick: bool = False) -> list[Cell]:
    """All cells, one seed after another."""
    small = 60 if quick else None
    tables = [
        Cell(name, "table", seed, partial(measure, name, seed, small=small))
        for seed in SEEDS[: 1 if quick else None]
        for name in (("digits",) if quick else PICTURES)
    ]
    cells_in_flow = "digits" if quick else "ifc_jurkat_16bit"
    return [*tables, Cell(cells_in_flow, "turns", 0, partial(measure, cells_in_flow, 0, small=small, views=["turns"]))]


def judged(cell: dict[str, Any], *uses: str) -> list[dict[str, Any]]:
    """Rows of a set's table that have numbers; a neighbor is another sample, at no distance from the others."""
    return [row for row in cell["rows"] if row["use"] in uses and not row["note"] and row["view"] != "neighbors"]


def rank_correlations(cell: dict[str, Any], *, turns: bool) -> dict[tuple[str, str], float]:
    """Of each number with each gain, over the views alone."""
    views = [row for row in judged(cell, "alone") if turns or row["view"] != "turns"]
    return {
        (number, gain): float(spearmanr([row[number] for row in views], [row[gain] for row in views]).statistic)
        for number in NUMBERS
        for gain in GAINS
    }


def name_of(row: dict[str, Any]) -> tuple[str, str, str]:
    """What a row stands for on every set."""
    return row["use"], row["view"], row["setting"]


def lost(cell: dict[str, Any], chosen: dict[str, Any] | None, score: str) -> float:
    """How far a choice is below the best row of a set; the features without views, if nothing is chosen."""
    every = judged(cell, "alone", "set", "left out", "features")
    return float(max(row[score] for row in every) - (chosen or cell["rows"][0])[score])


def nearest(cell: dict[str, Any], number: str, target: float) -> dict[str, Any]:
    """The views whose number is nearest to a target."""
    views = judged(cell, "alone", "set", "left out")
    return min(views, key=lambda row: abs(np.log(max(row[number], 1e-3)) - np.log(max(target, 1e-3))))


def regrets(cells: list[dict[str, Any]], score: str) -> dict[str, list[float]]:
    """What is lost on each set by rules that are set on the other sets, and by the published recipe."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        others = [other for other in cells if other["dataset"] != cell["dataset"]]
        for number in NUMBERS:
            targets = {row[number] for other in others for row in judged(other, "alone", "set", "left out")}
            best = min(sorted(targets), key=lambda t: sum(lost(o, nearest(o, number, t), score) for o in others))
            found.setdefault(number, []).append(lost(cell, nearest(cell, number, best), score))
        names = {name_of(row) for row in judged(cell, "alone", "set", "left out")}
        by_name = [{name_of(row): row for row in judged(o, "alone", "set", "left out")} for o in others]
        fixed = min(
            sorted(names),
            key=lambda n: sum(lost(o, rows.get(n), score) for o, rows in zip(others, by_name, strict=True)),
        )
        here = {name_of(row): row for row in cell["rows"]}
        found.setdefault("the views that are best on the other sets", []).append(lost(cell, here[fixed], score))
        found.setdefault("the published recipe", []).append(lost(cell, cell["rows"][1], score))
        found.setdefault("no views", []).append(lost(cell, None, score))
    return found


def tables() -> str:
    """Rank correlations, and what rules lose, means over sets."""
    cells = [row for row in rows(PATH) if "error" not in row and row["method"] == "table"]
    if len(cells) < 3:
        return ""
    lines = ["| number | " + " | ".join(f"{cell['dataset']}, {cell['seed']}" for cell in cells) + " | mean |"]
    lines.append("|---" * (len(cells) + 2) + "|")
    for turns, title in ((True, "all views"), (False, "without turns")):
        each = [rank_correlations(cell, turns=turns) for cell in cells]
        for number, gain in each[0]:
            values = [found[number, gain] for found in each]
            shown = " | ".join(f"{value:.2f}" for value in [*values, float(np.mean(values))])
            lines.append(f"| {number}, {gain}, {title} | {shown} |")
    lines += ["", "| choice | kNN lost, mean (largest) | linear lost |", "|---|---|---|"]
    lost_knn, lost_linear = (regrets(cells, score) for score in ("knn", "linear"))
    for name in lost_knn:
        shown = " | ".join(f"{np.mean(v):.3f} ({max(v):.3f})" for v in (lost_knn[name], lost_linear[name]))
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(tables())
