"""What numbers without labels say about views: the command views-table on sets with labels.

A cell is the table of one set: every view alone and left out of the default set, with the gain of each over the fixed
features at 5 neighbors and at linear, on held-out train rows. `table` compares the views' numbers with these
gains: rank correlations within a set, and what is lost by the single view with the best number.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_views [minutes] [set ...]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.study_symmetries import PICTURES, digits, picture_set
from benchmarks.quality.suite import SEEDS, command
from viewsmith.workflows.views_table import views_table

PATH = RESULTS / "study_views.jsonl"


def measure(name: str, seed: int, *, small: int | None = None) -> dict[str, Any]:
    """The table of a set."""
    torch.set_num_threads(1)
    data = picture_set(name) if small is None else digits()
    x, y = data.x[:small], data.y[:small]
    table = views_table(x, y, seed=seed, samples=1000 if small is None else 20, uses=("alone", "left out"))
    rows = [{k: round(v, 4) if isinstance(v, float) else v for k, v in row.as_dict().items()} for row in table]
    return {"samples": table.samples, "scored": table.scored, "rows": rows}


def cells(quick: bool = False) -> list[Cell]:
    """All cells, one seed after another."""
    small = 60 if quick else None
    return [
        Cell(name, "table", seed, partial(measure, name, seed, small=small))
        for seed in SEEDS[: 1 if quick else None]
        for name in (("digits",) if quick else PICTURES)
    ]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
