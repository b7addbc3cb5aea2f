"""The study of GenView: what generated views, adaptive noise and quality weights add to a framework alone.

Every row has the same encoder (the default one for CPUs), batch 256, optimizer, fixed views and number of encoder steps
(`STEPS`); rows with views train the embedded generator on top of them, for half as many. No external weights. Settings
are the defaults: nothing was chosen on these sets.

framework: the framework alone. + views: one of two sources generated, the same noise for all (level 200), no weights.
+ adaptive: each sample the noise it can bear. + quality: weights, too. Ablations: random noise, alpha 0.5, quality
alone.

    VIEWSMITH_DATA=folder python study_genview.py [minutes] [set ...]
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

import numpy as np
import torch
from runner import RESULTS, Cell, load, run
from study import SEEDS, score
from study_domains import SETS, epochs_for
from study_domains import load as load_domain

from viewsmith.estimators import GenView

# Set and framework, in the order in which cells are done.
PLACES = (
    ("cifar10_small", "moco"),
    ("sc_citeseq_cbmc", "simclr"),
    ("dna_human_core_promoter", "simclr"),
    ("cifar10_small", "byol"),
    ("fashion_mnist", "moco"),
    ("fashion_mnist", "byol"),
)
STEPS = {"vectors": 1200, "domains": 300}
PATH = RESULTS / "study_genview.jsonl"

ARMS: dict[str, dict[str, Any]] = {
    "framework": {"alpha": 0.0, "quality": False},
    "+ views": {"noise": "constant:200", "quality": False},
    "+ adaptive": {"quality": False},
    "+ quality": {},
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "random noise": {"noise": "random", "quality": False},
    "alpha 0.5": {"alpha": 0.5},
    "quality alone": {"alpha": 0.0},
}


@functools.lru_cache(maxsize=1)
def data_of(name: str) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a set."""
    return load_domain(name) if name in SETS else load(name)


def trained(name: str, framework: str, arm: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Scores of a trained row."""
    x = data["x"]
    model = GenView(
        framework=framework,  # type: ignore[arg-type]
        random_state=seed,
        epochs=epochs_for(len(x), STEPS["domains" if name in SETS else "vectors"]),
        **(ARMS | ABLATIONS)[arm],
    )
    started = time.perf_counter()
    model.fit(x)
    seconds = time.perf_counter() - started
    last = model.metrics_[-1]
    shown = ("loss", "effective_rank", "drift", "generated_similarity", "quality", "largest_weight")
    return {
        **score(model.transform(x), model.transform(data["x_test"]), data),
        **{key: round(last[key], 4) for key in shown if key in last},
        "seconds_fit": round(seconds, 2),
        "steps": model.summary_["steps"],
        "warnings": model.warnings_,
    }


def untrained(framework: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    x = data["x"]
    model = GenView(framework=framework, alpha=0.0, quality=False, epochs=1, random_state=seed)  # type: ignore[arg-type]
    fresh = model.fit(x[:512]).untrained(x)
    return score(fresh.transform(x), fresh.transform(data["x_test"]), data)


def cells(names: list[str]) -> list[Cell]:
    """All cells, those a claim rests on first."""

    def cell(name: str, framework: str, arm: str, seed: int) -> Cell:
        def work() -> dict[str, Any]:
            if arm == "untrained":
                return untrained(framework, data_of(name), seed)
            return trained(name, framework, arm, data_of(name), seed)

        return Cell(f"{name}, {framework}", arm, seed, work)

    places = [place for place in PLACES if place[0] in names]
    return [
        cell(*place, arm, seed)
        for arms in (("untrained", *ARMS), ABLATIONS)
        for place in places
        for seed in SEEDS
        for arm in arms
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else None
    wanted = sys.argv[2:] or list(dict.fromkeys(name for name, _ in PLACES))
    run(cells(wanted), PATH, minutes=minutes)
