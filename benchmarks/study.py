"""The study on vectors: does learned noise, or any fixed view, beat the neighbor recipe, UMAP, PCA and raw features?

Every trained row has the same encoder (d - 256 - 256, BatchNorm), batch 256, optimizer and steps: 2,000, or 800 where
the encoder reads more than 200 features without principal axes (about 30 s of training on one CPU thread).

Rows with noise get the same search: four strengths, 300 steps each on 80 % of the train rows, scored with labels on
the other 20 % (mean of 1 %, linear and 5-nearest-neighbor accuracy); test labels choose nothing. The label-free
choice of the same strengths is recorded beside it.

On wide sets the neighbor rows read principal axes of half-standardized features; "pca, same input" and "umap, same
input" are PCA and UMAP of exactly those. Train rows are limited (see SETS) and test rows to 5,000, random, seed 0.

    VIEWSMITH_DATA=folder python study.py [minutes] [set ...]
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from runner import RESULTS, Cell, load, run
from sklearn.model_selection import train_test_split

from viewsmith.estimators import Contrastive, PiNDA, ViewsmithEstimator
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.label_free import neighbor_r2
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.networks import PrincipalAxes

# The eight sets of the neighbor recipe's comparison with UMAP come first; train rows at most.
SETS: dict[str, int | None] = {
    "optdigits": None,
    "texture": None,
    "letter": 10000,
    "sc_citeseq_cbmc": None,
    "sc_10x_pbmc": None,
    "text_20news_tfidf2000": 8000,
    "mnist": 5000,
    "fashion_mnist": 5000,
    "wisdm_har": None,
    "text_r8_tfidf2000": None,
    "satimage": None,
}
WIDE = ("sc_citeseq_cbmc", "sc_10x_pbmc", "text_20news_tfidf2000", "mnist", "fashion_mnist", "text_r8_tfidf2000")
SEEDS = (0, 1, 2)
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "nmi", "ari", "linear_1pct", "linear_10pct")
STRENGTHS = (0.25, 0.5, 1.0, 2.0)
PATH = RESULTS / "study.jsonl"

COSINE = {"kernel": "cosine", "projection": (256, 128), "learning_rate": 1e-3}
Make = Callable[..., ViewsmithEstimator]

# name -> (estimator, name of the strength to search, or None)
TRAINED: dict[str, tuple[Make, str | None]] = {
    "contrastive": (lambda **k: Contrastive(**k), None),
    "pinda": (lambda **k: PiNDA(**k), "strength"),
    "neighbors + noise": (lambda **k: Contrastive(view_maker="neighbors+noise", **k), "noise_strength"),
    "noise": (lambda **k: Contrastive(view_maker="noise", **COSINE, **k), "noise_strength"),
    "scarf": (lambda **k: Contrastive(view_maker="corruption", **COSINE, **k), None),
    "neighbor mix": (
        lambda **k: Contrastive(view_maker="neighbor-mix", n_neighbors=10, **COSINE, **k),
        None,
    ),
    "pinda alone": (
        lambda **k: PiNDA(view_maker="identity", objective="adversarial", random_fraction=0.5, **COSINE, **k),
        "strength",
    ),
}


def epochs_for(model: ViewsmithEstimator, rows: int, width: int, steps: int | None = None) -> int:
    """Epochs of the budget: steps over steps per epoch."""
    direct = width > 200 and "neighbor" not in model.view_maker
    return math.ceil((steps or (800 if direct else 2000)) / max(1, rows // 256))


def trained(name: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    make, searched = TRAINED[name]
    x, y = data["x"], data["y"]
    chosen: dict[str, Any] = {}
    found: dict[str, Any] = {}
    if searched:
        found = search(make, searched, x, y, seed)
        chosen = {searched: found["strength"]}
    model = make(random_state=seed, **chosen)
    model.set_params(epochs=epochs_for(model, *x.shape))
    started = time.perf_counter()
    model.fit(x)
    seconds = time.perf_counter() - started
    result = score(model.transform(x), model.transform(data["x_test"]), data)
    last = model.metrics_[-1]
    return {
        **result,
        **found,
        "seconds_fit": round(seconds, 2),
        "steps": model.summary_["steps"],
        "effective_rank": round(last["effective_rank"], 2),
        **{key: round(last[key], 4) for key in ("noise_level", "noise_spread") if key in last},
    }


def search(make: Make, name: str, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """The strength whose short training scores best, with labels, on a fifth of the train rows."""
    fit, held, y_fit, y_held = train_test_split(x, y, test_size=0.2, stratify=y, random_state=seed)
    labels, free = {}, {}
    for strength in STRENGTHS:
        model = make(random_state=seed, **{name: strength})
        model.set_params(epochs=epochs_for(model, *fit.shape, steps=300)).fit(fit)
        h, h_held = model.transform(fit), model.transform(held)
        numbers = evaluate_embedding(h, y_fit, h_held, y_held, protocols=["linear_1pct", "linear", "knn"])
        labels[strength] = float(np.mean(list(numbers.values())))
        free[strength] = float(neighbor_r2(h, h_held, model.scaled(fit), model.scaled(held)))
    return chosen(labels, free)


def chosen(labels: dict[float, float], free: dict[float, float]) -> dict[str, Any]:
    """The strength that the labels choose, and what the label-free choice and a random one lose against it."""
    best, by_r2 = max(labels, key=labels.__getitem__), max(free, key=free.__getitem__)
    return {
        "strength": best,
        "strength_label_free": by_r2,
        "regret_label_free": round(labels[best] - labels[by_r2], 4),
        "regret_random": round(labels[best] - float(np.mean(list(labels.values()))), 4),
    }


def score(h: np.ndarray, h_test: np.ndarray, data: dict[str, np.ndarray]) -> dict[str, Any]:
    numbers = evaluate_embedding(h, data["y"], h_test, data["y_test"], protocols=list(PROTOCOLS))
    return {key: round(float(value), 4) for key, value in numbers.items()}


def fixed(name: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Rows that learn nothing: raw, PCA, UMAP, the untrained encoder."""
    x, x_test = data["x"], data["x_test"]
    model = Contrastive(epochs=1, random_state=seed).fit(x)
    scaled, scaled_test = model.scaled(x), model.scaled(x_test)
    if name.endswith(", same input"):
        axes = next(m for m in model.method_.modules() if isinstance(m, PrincipalAxes))
        with torch.no_grad():
            scaled, scaled_test = (axes(torch.from_numpy(part)).numpy() for part in (scaled, scaled_test))
    started = time.perf_counter()
    if name in ("raw", "pca, same input"):
        pair = scaled, scaled_test
    elif name == "pca":
        pair = pca(scaled, scaled_test)
    elif name.startswith("umap"):
        pair = umap(scaled, scaled_test, seed=seed)
    else:
        fresh = model.untrained(x)
        pair = fresh.transform(x), fresh.transform(x_test)
    return {**score(*pair, data), "seconds_fit": round(time.perf_counter() - started, 2)}


@functools.lru_cache(maxsize=1)
def data_of(name: str) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a set."""
    return load(name, SETS[name])


def cells(names: list[str]) -> list[Cell]:
    """All cells, those a claim rests on first."""

    def cell(name: str, method: str, seed: int) -> Cell:
        work = trained if method in TRAINED else fixed
        return Cell(name, method, seed, lambda: work(method, data_of(name), seed))

    stages = [
        (["contrastive", "umap", "pca", "raw", "untrained"], names),
        (["umap, same input", "pca, same input"], [name for name in names if name in WIDE]),
        (["pinda", "neighbors + noise", "noise", "scarf", "neighbor mix"], names),
        (["pinda alone"], names),
    ]
    found = []
    for methods, sets in stages:
        for name in sets:
            for method in methods:
                # raw and PCA have no randomness
                seeds = (0,) if method.startswith(("raw", "pca")) else SEEDS
                found += [cell(name, method, seed) for seed in seeds]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else None
    wanted = sys.argv[2:] or list(SETS)
    run(cells(wanted), PATH, minutes=minutes)
