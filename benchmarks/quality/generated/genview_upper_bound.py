"""GenView with views that are as good as asked: do replaced views and weighted pairs help then, and are bad ones found?

The view of a training sample is another training sample of its own class, drawn with its label: no generator makes
better ones. A share of the views (0, .1, .3, .5) is a sample of another class instead. They are read from a view cache
(`folder:views.npz`); one of the two sources of every pair is such a view. Rows: "framework", without them; "wrong S",
with a share S of wrong views and equal weights; "wrong S, weighted", with weights by quality from half of the steps on.
`auc` is the probability that a right view has a higher quality than a wrong one; `weight_of_wrong` the mean weight of a
wrong view, where 1 is that of all. "generator, noise N": views of the own generator from that level of noise, 0 to 400,
with equal weights; "generator": from adaptive noise.

Vectors: 2,000 train rows, 1,200 steps; images: 2,000, 300 steps; SimCLR, the same steps, encoder and fixed views for
all rows. Labels make the views; this is an upper bound, no method.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.genview_upper_bound [minutes] [set or row ...]
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from benchmarks.common.data import load, sets
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import SEEDS, Budget, command, last, score
from benchmarks.tables.formatting import by_row, collect, gain, titles
from viewsmith import GenView
from viewsmith.data import load_dataset
from viewsmith.workflows.generate import generate_cache

SETS = sets("letter", "optdigits", "cifar10_small", train_rows=2000, test_rows=2000)
SHARES = (0.0, 0.1, 0.3, 0.5)
BUDGET = Budget(vectors=1200, modalities=300)
PATH = RESULTS / "genview_upper_bound.jsonl"
ROWS: dict[str, tuple[float, bool]] = {
    f"wrong {share:g}{', weighted' if weighted else ''}": (share, weighted)
    for share in SHARES
    for weighted in (False, True)
}
NOISE = {f"generator, noise {level}": f"constant:{level}" for level in (100, 200, 400)} | {"generator": "adaptive"}
PROTOCOLS = ("linear", "knn")


def views_of(x: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For each sample another one of its class or, with probability `share`, of another; and whether it is wrong."""
    wrong, chosen = rng.random(len(y)) < share, np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        own, other = np.flatnonzero(y == label), np.flatnonzero(y != label)
        # The next one in a random order is never the sample itself.
        order = rng.permutation(own)
        chosen[order] = np.roll(order, 1)
        chosen[own[wrong[own]]] = rng.choice(other, wrong[own].sum())
    return x[chosen], wrong


def work(name: str, row: str, seed: int, budget: Budget = BUDGET) -> dict[str, Any]:
    """Scores of a row, and what its weights say of wrong views."""
    torch.set_num_threads(1)
    data = load(SETS[name])
    epochs = budget.epochs(SETS[name], len(data.x), 256)
    options: dict[str, Any] = {"framework": "simclr", "epochs": epochs, "batch_size": 256, "random_state": seed}
    share, weighted = ROWS.get(row, (0.0, False))
    with tempfile.TemporaryDirectory() as folder:
        if row == "framework":
            model = GenView(**options, alpha=0.0, quality=False).fit(data.x)
            found: dict[str, Any] = {}
        elif row in NOISE:
            model, found = GenView(**options, noise=NOISE[row], quality=False).fit(data.x), {}
        else:
            views, wrong = views_of(data.x, data.y, share, np.random.default_rng(seed))
            samples, file, cache = (Path(folder) / part for part in ("samples.npy", "views.npz", "cache"))
            np.save(samples, data.x)
            np.savez(file, views=views[:, None])
            generate_cache(load_dataset(samples), cache, transductive=True, generator=f"folder:{file}", seed=seed)
            model = GenView(**options, view_cache=str(cache), quality=weighted).fit(data.x)
            found = judged(model, data.x, wrong) if weighted else {}
        scores = score(model.transform(data.x), model.transform(data.x_test), data, PROTOCOLS)
    return scores | found | last(model.metrics_) | {"steps": model.summary_["steps"]}


def judged(model: GenView, x: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """What the quality of all views says of the wrong ones; with weights as in a batch of all rows."""
    made = model.generated_views(x)
    assert made is not None
    quality = made["quality"][:, 0].astype(np.float64)
    weight = np.exp(model.gamma * (quality - quality.max()))
    weight /= weight.mean()
    found = {"quality_spread": float(quality.std()), "largest_weight_of_all": float(weight.max())}
    if wrong.any():
        found |= {"auc": roc_auc_score(~wrong, quality), "weight_of_wrong": float(weight[wrong].mean())}
    return {key: round(float(value), 4) for key, value in found.items()}


def cells(quick: bool = False) -> list[Cell]:
    """All cells, seed by seed."""
    budget, seeds = (Budget(1, 1), SEEDS[:1]) if quick else (BUDGET, SEEDS)
    return [
        Cell(name, row, seed, partial(work, name, row, seed, budget))
        for seed in seeds
        for name in SETS
        for row in ("framework", *ROWS, *NOISE)
    ]


if __name__ == "__main__":
    table = collect(command(__doc__, PATH, cells, kind=lambda name: SETS[name].modality))
    for metric, title in (titles(*PROTOCOLS) | {"auc": "AUC", "weight_of_wrong": "weight of wrong views"}).items():
        print("", title, *by_row(table, metric, list(SETS), ("framework", *ROWS, *NOISE)), sep="\n")
    for metric in PROTOCOLS:
        for row in (*ROWS, *NOISE):
            print(f"{row} minus framework, {metric}: {gain(table, row, 'framework', list(SETS), metric)}")
        for share in SHARES:
            one, other = f"wrong {share:g}, weighted", f"wrong {share:g}"
            print(f"{one} minus equal weights, {metric}: {gain(table, one, other, list(SETS), metric)}")
