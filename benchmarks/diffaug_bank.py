"""Does a bank made in 10 steps train an encoder as well as one made by DDPM in 1,000 steps? The same network, paired.

DiffAug's defaults at 600 encoder steps, batch 256, one generated view a sample, lambda 0.5 so that views matter, on
sets that no other study of DiffAug uses. Only the sampler of the bank differs: the default one, or ancestral DDPM with
1,000 steps. Paired by set and seed: mean difference (fast minus slow) and its 95 % interval.

    VIEWSMITH_DATA=folder python diffaug_bank.py [minutes]
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from typing import Any

import torch
from runner import RESULTS, Cell, load, rows, run
from scipy.stats import t as student

from viewsmith.estimators import DiffAug
from viewsmith.evaluation.protocol import evaluate_embedding

SETS = ("texture", "optdigits")
SAMPLERS: dict[str, dict[str, Any]] = {"fast": {}, "ddpm": {"sampler": "ddpm", "sampler_steps": 1000}}
SEEDS = (0, 1, 2, 3, 4)
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
PATH = RESULTS / "diffaug_bank.jsonl"


def score(name: str, sampler: str, seed: int) -> dict[str, Any]:
    data = load(name, 3000)
    epochs = math.ceil(600 / max(1, len(data["x"]) // 256))
    model = DiffAug(**SAMPLERS[sampler], cached_views=1, replacement=0.5, epochs=epochs, random_state=seed)
    started = time.perf_counter()
    model.fit(data["x"])
    seconds = time.perf_counter() - started
    h, h_test = model.transform(data["x"]), model.transform(data["x_test"])
    numbers = evaluate_embedding(h, data["y"], h_test, data["y_test"], protocols=list(PROTOCOLS))
    last = next(row for row in reversed(model.metrics_) if "drift" in row)
    return {
        **{key: round(float(numbers[key]), 4) for key in PROTOCOLS},
        "drift": round(last["drift"], 4),
        "seconds_fit": round(seconds, 1),
    }


def cells() -> list[Cell]:
    return [
        Cell(name, sampler, seed, lambda name=name, sampler=sampler, seed=seed: score(name, sampler, seed))
        for seed in SEEDS
        for name in SETS
        for sampler in SAMPLERS
    ]


def main() -> None:
    torch.set_num_threads(1)
    run(cells(), PATH, minutes=float(sys.argv[1]) if len(sys.argv) > 1 else None)
    found = {(row["dataset"], row["seed"], row["method"]): row for row in rows(PATH) if "error" not in row}
    for metric in (*PROTOCOLS, "drift"):
        differences = [
            row[metric] - found[name, seed, "ddpm"][metric]
            for (name, seed, sampler), row in found.items()
            if sampler == "fast" and (name, seed, "ddpm") in found
        ]
        if len(differences) > 2:
            spread = statistics.stdev(differences) / len(differences) ** 0.5
            half = float(student.ppf(0.975, len(differences) - 1)) * spread
            print(f"{metric}: {statistics.fmean(differences):+.4f} ± {half:.4f} ({len(differences)} pairs)")


if __name__ == "__main__":
    main()
