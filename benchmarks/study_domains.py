"""The study on images and DNA: does learned noise add to the domain's fixed views, or replace them?

Every trained row has the same encoder (the default one for CPUs), batch 256, optimizer and number of steps (STEPS).
Rows with noise get the same search: four strengths, a third of the steps each on 80 % of the train rows, scored with
labels on the other 20 % (mean of 1 %, linear and 5-nearest-neighbor accuracy); test labels choose nothing. The
label-free choice of the same strengths is recorded beside it.

raw: pixels / 255; for DNA 4-mer frequencies or one-hot bases, whichever a split of the train rows prefers. Train rows
are limited (see SETS), test rows to 5,000, random, seed 0. Of dna_ienhancer2l only the test rows without a copy in
train are scored; they are unbalanced (two thirds of one class).

    VIEWSMITH_DATA=folder python study_domains.py [minutes] [set ...]
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
from runner import RESULTS, Cell, data_folder, limited, run
from sklearn.model_selection import train_test_split
from study import SEEDS, chosen, score

from viewsmith.estimators import Contrastive, PiNDA, ViewsmithEstimator
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.label_free import neighbor_r2
from viewsmith.evaluation.protocol import evaluate_embedding

SETS: dict[str, int | None] = {
    "cifar10_small": None,
    "fashion_mnist": 10_000,
    "dna_human_core_promoter": None,
    "dna_ienhancer2l": None,
}
STEPS = 300
STRENGTHS = (0.125, 0.25, 0.5, 1.0)
PATH = RESULTS / "study_domains.jsonl"

Make = Callable[..., ViewsmithEstimator]

# name -> (estimator, name of the strength to search, or None)
TRAINED: dict[str, tuple[Make, str | None]] = {
    "fixed views": (lambda **k: Contrastive(**k), None),
    "pinda + fixed views": (lambda **k: PiNDA(**k), "strength"),
    "noise": (lambda **k: Contrastive(view_maker="noise", **k), "noise_strength"),
    "pinda alone": (lambda **k: PiNDA(view_maker="identity", two_sided=True, **k), "strength"),
    "neighbors": (lambda **k: Contrastive(view_maker="neighbors", **k), None),
    "neighbors + fixed views": (lambda **k: Contrastive(view_maker=f"neighbors+{k.pop('fixed')}", **k), None),
}


@functools.lru_cache(maxsize=1)
def load(name: str) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a data set in its own form."""
    with np.load(data_folder() / f"{name}.npz") as archive:
        x, y, x_test, y_test = (archive[key] for key in ("X_train", "y_train", "X_test", "y_test"))
        if "test_in_train" in archive.files:
            clean = archive["test_in_train"] == 0
            x_test, y_test = x_test[clean], y_test[clean]
    order = np.random.default_rng(0)
    x, y = limited(x, y, SETS.get(name), order)
    x_test, y_test = limited(x_test, y_test, 5000, order)
    return {"x": x, "y": y.astype(int), "x_test": x_test, "y_test": y_test.astype(int)}


def made(make: Make, name: str, **options: Any) -> ViewsmithEstimator:
    """The estimator of a row; some rows name the domain's fixed views."""
    if make is TRAINED["neighbors + fixed views"][0]:
        options["fixed"] = "dna" if name.startswith("dna") else "simclr"
    return make(**options)


def epochs_for(rows: int, steps: int) -> int:
    return math.ceil(steps / max(1, rows // 256))


def trained(dataset: str, name: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    make, searched = TRAINED[name]
    x, found = data["x"], {}
    given: dict[str, Any] = {}
    if searched:
        found = search(make, dataset, searched, x, data["y"], seed)
        given = {searched: found["strength"]}
    model = made(make, dataset, random_state=seed, epochs=epochs_for(len(x), STEPS), **given)
    started = time.perf_counter()
    model.fit(x)
    seconds = time.perf_counter() - started
    last = model.metrics_[-1]
    return {
        **score(model.transform(x), model.transform(data["x_test"]), data),
        **found,
        "seconds_fit": round(seconds, 2),
        "steps": model.summary_["steps"],
        "loss": round(last["loss"], 4),
        "effective_rank": round(last["effective_rank"], 2),
        **{key: round(last[key], 4) for key in ("noise_level", "noise_spread") if key in last},
    }


def search(make: Make, dataset: str, name: str, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """The strength whose short training scores best, with labels, on a fifth of the train rows."""
    fit, held, y_fit, y_held = train_test_split(x, y, test_size=0.2, stratify=y, random_state=seed)
    labels, free = {}, {}
    for strength in STRENGTHS:
        options = {name: strength, "random_state": seed, "epochs": epochs_for(len(fit), STEPS // 3)}
        model = made(make, dataset, **options).fit(fit)
        h, h_held = model.transform(fit), model.transform(held)
        numbers = evaluate_embedding(h, y_fit, h_held, y_held, protocols=["linear_1pct", "linear", "knn"])
        labels[strength] = float(np.mean(list(numbers.values())))
        raw, raw_held = (list(model.raw_features(part).values())[-1] for part in (fit, held))
        free[strength] = float(neighbor_r2(h, h_held, raw, raw_held))
    return chosen(labels, free)


def fixed(dataset: str, name: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Rows that learn nothing: raw, PCA, UMAP, the untrained encoder."""
    x, x_test = data["x"], data["x_test"]
    model = Contrastive(view_maker="identity", epochs=1, random_state=seed).fit(x[:512])
    started = time.perf_counter()
    extra = {}
    if name == "untrained":
        fresh = model.untrained(x)
        pair = fresh.transform(x), fresh.transform(x_test)
    else:
        features = model.raw_features(x)
        kind = preferred(features, data["y"])
        extra = {"raw": kind}
        pair = features[kind], model.raw_features(x_test)[kind]
        if name != "raw":
            pair = (pca if name == "pca" else umap)(*pair)
    return {**score(*pair, data), **extra, "seconds_fit": round(time.perf_counter() - started, 2)}


def preferred(features: dict[str, np.ndarray], y: np.ndarray) -> str:
    """The raw features with the better linear probe on a fifth of the train rows."""
    fit, held = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)

    def linear(rows: np.ndarray) -> float:
        return evaluate_embedding(rows[fit], y[fit], rows[held], y[held], protocols=["linear"])["linear"]

    return max(features, key=lambda kind: linear(features[kind])) if len(features) > 1 else next(iter(features))


def cells(names: list[str]) -> list[Cell]:
    """All cells, those a claim rests on first."""

    def cell(name: str, method: str, seed: int) -> Cell:
        work = trained if method in TRAINED else fixed
        return Cell(name, method, seed, lambda: work(name, method, load(name), seed))

    stages = [
        ["raw", "pca", "untrained", "fixed views"],
        ["pinda + fixed views", "noise", "pinda alone"],
        ["neighbors", "neighbors + fixed views", "umap"],
    ]
    found = []
    for methods in stages:
        for name in names:
            for method in methods:
                # raw and PCA have no randomness
                seeds = (0,) if method in ("raw", "pca") else SEEDS
                found += [cell(name, method, seed) for seed in seeds]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else None
    wanted = sys.argv[2:] or list(SETS)
    run(cells(wanted), PATH, minutes=minutes)
