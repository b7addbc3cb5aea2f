"""DiffAug where train rows are few: 100, 300 and 1,000 rows of six sets, against fixed views.

Encoder, generator and classifiers are fitted on the drawn rows alone; all rows of the table train `STEPS` encoder steps
with batches of at most 256. Test rows are at most 1,000.

neighbors  the neighbor recipe of `contrastive`
noise      Gaussian noise, strength chosen without labels (neighbor R^2) on 300 rows; kernel and projector of "mixup"
mixup      mixtures with one of the ten nearest rows
phase A    DiffAug without a generator
diffaug    with generated positives

A cell is one set and one seed. Its results are named after metric, row and number of train rows: ``"knn diffaug 300"``.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.decisive.few_rows [minutes] [set ...]
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import Data, draw_rows, load, sets
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import LEARNED, SEEDS, command, rounded
from benchmarks.quality.vectors.study import COSINE
from viewsmith import Contrastive, DiffAug
from viewsmith.evaluation.protocol import evaluate_embedding

SETS = sets("letter", "wisdm_har", "optdigits", "satimage", "sc_10x_pbmc", "texture", test_rows=1000)
ROWS = (100, 300, 1000)
STEPS = 200
ARMS: dict[str, Any] = {
    "neighbors": partial(Contrastive, **LEARNED),
    "noise": partial(Contrastive, view_maker="noise", **COSINE),
    "mixup": partial(Contrastive, view_maker="neighbor-mix", n_neighbors=10, **COSINE),
    "phase A": partial(DiffAug, phases="A"),
    "diffaug": DiffAug,
}
PATH = RESULTS / "few_rows.jsonl"


def measure(name: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Scores on test rows of all arms on all numbers of train rows."""
    torch.set_num_threads(1)
    data, found = load(SETS[name]), dict[str, float]()
    found["strength"] = strength = 0.25 if quick else chosen(drawn(data, ROWS[1], seed).x, seed)
    for count in ROWS[:1] if quick else ROWS:
        few = drawn(data, count, seed)
        epochs = 1 if quick else math.ceil(STEPS / max(1, count // 256))
        for arm, make in ARMS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = {"noise_strength": strength} if arm == "noise" else {}
                model = make(epochs=epochs, random_state=seed, **given).fit(few.x)
            h, h_test = model.transform(few.x), model.transform(few.x_test)
            scores = evaluate_embedding(h, few.y, h_test, few.y_test, protocols=["linear", "knn", "kmeans_accuracy"])
            found |= {f"{metric} {arm} {count}": value for metric, value in scores.items()}
    return dict(rounded(found))


def chosen(x: np.ndarray, seed: int) -> float:
    """The strength of noise that is chosen without labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ARMS["noise"](noise_strength="auto", epochs=1, random_state=seed).fit(x)
    return float(model.resolved_.noise_strength)


def drawn(data: Data, count: int, seed: int) -> Data:
    """So many train rows, and the test rows of their classes."""
    x, y = draw_rows(data.x, data.y, count, np.random.default_rng(seed))
    known = np.isin(data.y_test, y)
    return Data(x, y, data.x_test[known], data.y_test[known])


def cells(quick: bool = False) -> list[Cell]:
    """A cell for each set and seed."""
    names = list(SETS)[:1] if quick else list(SETS)
    seeds = SEEDS[:1] if quick else SEEDS
    return [Cell(name, "few rows", seed, partial(measure, name, seed, quick=quick)) for name in names for seed in seeds]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
