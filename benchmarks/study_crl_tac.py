"""The study of CRL-TAC: does a learned channel P(T|x) do better than a uniform one, on the same family?

Both rows have the same encoder, family, objective, optimizer, encoder steps (STEPS) and, for the learned channel, its
own steps beside them; defaults of the library but for the family (FAMILIES). "contrastive" is the default of that
method with as many steps at batch 256, on its own encoder; "untrained" the network of the learned row before training.
Inference is the expectation over P(T|x); "(uniform inference)" the learned row averaged over all transformations alike.

fashion_mnist: 10,000 images, each at one of nine cells of a black 84 x 84 image, as in `crl_tac_mnist`. Train rows are
limited (see SETS), test rows to 5,000, random, seed 0.

    VIEWSMITH_DATA=folder python study_crl_tac.py [minutes] [set ...]
"""

from __future__ import annotations

import functools
import math
import sys
import time
from typing import Any

import numpy as np
import torch
from crl_tac_mnist import CELL, placed
from runner import RESULTS, Cell, data_folder, limited, load, run

from viewsmith.estimators import CRLTAC, Contrastive, ViewsmithEstimator
from viewsmith.evaluation.protocol import evaluate_embedding

SETS: dict[str, int | None] = {
    "fashion_mnist": 10_000,
    "cifar10_small": None,
    "dna_human_core_promoter": None,
    "sc_citeseq_cbmc": None,
}
STEPS = {"fashion_mnist": 300, "cifar10_small": 300, "dna_human_core_promoter": 300, "sc_citeseq_cbmc": 600}
FAMILIES: dict[str, dict[str, Any]] = {
    "cifar10_small": {"crop_scales": (1.0, 0.75), "crop_flips": True},
    "sc_citeseq_cbmc": {"input_components": 50},
}
ROWS = ("learned", "uniform", "untrained", "contrastive")
SEEDS = (0, 1, 2)
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
PATH = RESULTS / "study_crl_tac.jsonl"


@functools.lru_cache(maxsize=1)
def data_of(name: str) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a set in its own form; of the clothes, on a grid."""
    if name.startswith("sc_"):
        return load(name, SETS[name])
    order = np.random.default_rng(0)
    with np.load(data_folder() / f"{name}.npz") as archive:
        x, y, x_test, y_test = (archive[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    (x, y), (x_test, y_test) = limited(x, y, SETS[name], order), limited(x_test, y_test, 5000, order)
    if name == "fashion_mnist":
        x, x_test = (placed(part.reshape(-1, CELL, CELL), seed)[0] for seed, part in enumerate((x, x_test)))
    return {"x": x, "y": y, "x_test": x_test, "y_test": y_test}


def trained(name: str, row: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    x = data["x"]
    epochs = 1 if row == "untrained" else math.ceil(STEPS[name] / max(1, len(x) // 256))
    model: ViewsmithEstimator = Contrastive() if row == "contrastive" else CRLTAC(**FAMILIES.get(name, {}))
    if row == "uniform":
        model.set_params(channel="uniform")
    model.set_params(random_state=seed, epochs=epochs)
    started = time.perf_counter()
    model = model.fit(x[:512]).untrained(x) if row == "untrained" else model.fit(x)
    found: dict[str, Any] = {"seconds_fit": round(time.perf_counter() - started, 1), "steps": model.summary_["steps"]}
    found |= score(model, data)
    if row == "learned":
        last = model.metrics_[-1]
        found |= {key: round(last[key], 4) for key in ("information", "effective", "largest_p")}
        model.method_.inference = "uniform"  # type: ignore[assignment]
        found |= {f"uniform_inference_{key}": value for key, value in score(model, data).items()}
    return found


def score(model: ViewsmithEstimator, data: dict[str, np.ndarray]) -> dict[str, Any]:
    h, h_test = model.transform(data["x"]), model.transform(data["x_test"])
    numbers = evaluate_embedding(h, data["y"], h_test, data["y_test"], protocols=list(PROTOCOLS))
    return {key: round(float(value), 4) for key, value in numbers.items()}


def cells(wanted: list[str]) -> list[Cell]:
    def cell(name: str, row: str, seed: int) -> Cell:
        return Cell(name, row, seed, lambda: trained(name, row, data_of(name), seed))

    return [cell(name, row, seed) for seed in SEEDS for name in SETS for row in ROWS if not wanted or name in wanted]


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(cells(sys.argv[2:]), PATH, minutes=float(sys.argv[1]) if len(sys.argv) > 1 else None)
