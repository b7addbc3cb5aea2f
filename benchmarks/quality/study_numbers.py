"""Does supervision by numbers (Rank-N-Contrast) help to predict them?

A cell is a table with a continuous column and a seed: up to 1,500 random rows, of which a fifth are test rows, drawn
with the seed. `Contrastive` is trained for 300 steps on the other columns of the train rows, without numbers, and with
those of 10 % and of all train rows. Ridge regression and the 5 nearest neighbors are fitted on the same labeled rows
for each representation and for raw features; gradient boosting on raw features.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_numbers [minutes] [set ...]
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import command, rounded
from viewsmith import Contrastive
from viewsmith.evaluation.baselines import predictor_of
from viewsmith.evaluation.protocol import evaluate_embedding, few_number_rows, r_squared

PATH = RESULTS / "study_numbers.jsonl"
#: Target, and columns that are left out because they sum up to it.
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "diamonds": ("price", ()),
    "penguins": ("body_mass_g", ()),
    "taxis": ("tip", ("total",)),
    "adult": ("hours_per_week", ()),
}
ROWS, STEPS, BATCH, SEEDS, FRACTIONS = 1500, 300, 128, (0, 1, 2), (0.1, 1.0)


def work(name: str, seed: int, rows: int = ROWS, steps: int = STEPS) -> dict[str, Any]:
    """R² on test rows by row of the table, score and fraction of the labels."""
    torch.set_num_threads(1)
    began, (target, dropped) = time.process_time(), TARGETS[name]
    frame = pd.read_csv(Path(os.environ["VIEWSMITH_DATA"]) / "tables" / f"{name}.csv").drop(columns=list(dropped))
    frame = frame[frame[target].notna()]
    frame = frame.sample(min(rows, len(frame)), random_state=seed)
    y, x = frame.pop(target).to_numpy(np.float64), frame
    n = round(0.8 * len(x))
    train, test, y_train, y_test = x.iloc[:n], x.iloc[n:], y[:n], y[n:]
    options = {"epochs": -(-steps // max(1, n // BATCH)), "batch_size": BATCH, "random_state": seed}
    plain, found = Contrastive(**options).fit(train), dict[str, float]()
    raw = [next(iter(plain.raw_features(part).values())) for part in (train, test)]
    for fraction in FRACTIONS:
        known = few_number_rows(n, fraction, seed)
        given = np.full(n, np.nan)
        given[known] = y_train[known]
        model = Contrastive(**options, supervision="numbers").fit(train, given)
        represented = {"contrastive": plain, "numbers": model}
        parts = {"raw": raw} | {row: [m.transform(part) for part in (train, test)] for row, m in represented.items()}
        for row, (h, h_test) in parts.items():
            probe: Any = {"protocols": ("r2", "knn_r2"), "target": "number"}
            scores = evaluate_embedding(h[known], y_train[known], h_test, y_test, **probe)
            found |= {f"{row} {score} {fraction}": value for score, value in scores.items()}
        boosted = predictor_of("gradient-boosting")
        assert boosted is not None
        predicted = boosted(raw[0][known], y_train[known], raw[1], "number")
        found[f"gradient-boosting r2 {fraction}"] = r_squared(y_test, predicted)
    return rounded(found) | {"cpu_seconds": round(time.process_time() - began, 2)}


def cells(quick: bool = False) -> list[Cell]:
    """All cells, seed by seed; in a small form one."""
    if quick:
        return [Cell("penguins", "all", 0, partial(work, "penguins", 0, 200, 4))]
    return [Cell(name, "all", seed, partial(work, name, seed)) for seed in SEEDS for name in TARGETS]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
