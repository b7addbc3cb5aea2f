"""GenView's ladder on images and DNA, with views from the generator that `viewsmith generate` trains by default.

One generator for each set (seed 0, the plan of `generate` for the train rows), and of it one view of each train row at
noise level 200 and one with adaptive noise. Then every row has the same framework, encoder, fixed views, batch size 256
and `STEPS` encoder steps. Test rows are at most 5,000; "2,000 rows": train rows, drawn once (seed 0).

framework   the framework alone
+ views     one of the two sources of a pair is the view at level 200
+ adaptive  the view with a noise level of its own
+ quality   pairs are weighted, too

A cell is one set and one seed. Its results are named after metric and row: ``"knn + views"``. The first cell of a set
also trains its generator and generates the views.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.decisive.generated_views [minutes] [set ...]
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import Data, data_folder, load, sets
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import SEEDS, command, last, score
from benchmarks.quality.vectors.study import PROTOCOLS
from viewsmith import GenView
from viewsmith.data import load_dataset
from viewsmith.workflows.generate import generate_cache

STEPS, BATCH = 300, 256
# Sets with their frameworks.
SETS = {
    "cifar10_small, simclr": sets("cifar10_small")["cifar10_small"],
    "fashion_mnist, 2,000 rows, simclr": sets("fashion_mnist", train_rows=2000)["fashion_mnist"],
    "dna_human_core_promoter, simclr": sets("dna_human_core_promoter")["dna_human_core_promoter"],
    "cifar10_small, byol": sets("cifar10_small")["cifar10_small"],
}
# Noise of the generated views, and whether pairs are weighted.
ARMS: dict[str, tuple[str, bool]] = {
    "framework": ("", False),
    "+ views": ("constant:200", False),
    "+ adaptive": ("adaptive", False),
    "+ quality": ("adaptive", True),
}
PATH = RESULTS / "generated_views.jsonl"
CACHES = Path("build/generated_views")


def views_of(name: str, noise: str, data: Data, quick: bool) -> Path:
    """The view cache of a set; generated now if it is not complete."""
    folder = (data_folder() if quick else CACHES) / SETS[name].file
    out = folder / noise.replace(":", "-")
    if not (out / "manifest.csv").exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "rows.npz", X=data.x)
        dataset = load_dataset(folder / "rows.npz", modality=SETS[name].modality)
        made_by = folder / "constant-200" / "generator"
        if noise != "constant:200":
            views_of(name, "constant:200", data, quick)
        own: dict[str, Any] = {"epochs": 1 if quick else None} if noise == "constant:200" else {"run": made_by}
        generate_cache(dataset, out, noise=noise, steps=2 if quick else None, **own)
    return out


def measure(name: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Scores on test rows of all rows of the ladder."""
    torch.set_num_threads(1)
    data, found = load(SETS[name]), dict[str, Any]()
    if quick:
        data = Data(data.x[:300], data.y[:300], data.x_test, data.y_test)
    epochs = 1 if quick else math.ceil(STEPS / (len(data.x) // BATCH))
    for arm, (noise, quality) in ARMS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shared: dict[str, Any] = {"batch_size": BATCH, "epochs": epochs, "random_state": seed}
            views = {"view_cache": str(views_of(name, noise, data, quick))} if noise else {"alpha": 0.0}
            model = GenView(**shared, **views, framework=name.split(", ")[-1], quality=quality).fit(data.x)
        scores = score(model.transform(data.x), model.transform(data.x_test), data, PROTOCOLS)
        found |= {f"{metric} {arm}": value for metric, value in (scores | last(model.metrics_)).items()}
    return found


def cells(quick: bool = False) -> list[Cell]:
    """A cell for each set and seed."""
    names, seeds = (list(SETS)[2:3], SEEDS[:1]) if quick else (list(SETS), SEEDS)
    return [Cell(name, "ladder", seed, partial(measure, name, seed, quick=quick)) for name in names for seed in seeds]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
