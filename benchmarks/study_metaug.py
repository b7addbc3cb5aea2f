"""The study of MetAug: does a contrast gain by augmented features, by one loss for all pairs, and by meta-learning?

All trained rows have the same encoder, head, views, memory, optimizer, learning-rate curve and encoder steps: 900 on
vectors, 300 on images and DNA, at batch 256 or 64 (the row's name says it). "contrast" is MetAug without generators
and with a loss for each pair of views (InfoNCE against the queue), "oucl" unites the pairs ("MetAug (only OUCL)"),
"mag" adds generators to the contrast ("MetAug (only MAG)"), "metaug" is both. "first-order" and "frozen" are metaug
with generators that take the encoder's step as given, or stay random. "simclr" is NT-Xent over the batch with the
cosine kernel, "simclr + mag" the generators added to it.

Train rows are limited (see SETS) and test rows to 5,000, random, seed 0; of DNA sets the test rows without a copy in
train are scored. Settings are the defaults, chosen without these sets (docs, MetAug).

    VIEWSMITH_DATA=folder python study_metaug.py [minutes] [set ...]
"""

from __future__ import annotations

import functools
import math
import sys
import time
from typing import Any

import numpy as np
import torch
from runner import RESULTS, Cell, load, run
from study_domains import load as load_domain
from study_domains import preferred

from viewsmith.estimators import MetAug
from viewsmith.evaluation.baselines import pca
from viewsmith.evaluation.protocol import evaluate_embedding

VECTORS: dict[str, int | None] = {"sc_citeseq_cbmc": None, "text_20news_tfidf2000": 8000}
DOMAINS = ("fashion_mnist", "cifar10_small", "dna_human_core_promoter")
STEPS = {"vectors": 900, "domains": 300}
SEEDS = (0, 1, 2)
PROTOCOLS = ("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
PATH = RESULTS / "study_metaug.jsonl"

ARMS: dict[str, dict[str, Any]] = {
    "contrast": {"united": False, "meta": "none"},
    "oucl": {"meta": "none"},
    "mag": {"united": False},
    "metaug": {},
    "first-order": {"meta": "first-order"},
    "frozen": {"meta": "frozen"},
    "simclr": {"framework": "simclr", "kernel": "cosine", "meta": "none"},
    "simclr + mag": {"framework": "simclr", "kernel": "cosine"},
}
MAIN, ABLATION, ADDED = ("contrast", "oucl", "mag", "metaug"), ("first-order", "frozen"), ("simclr", "simclr + mag")
ABLATED = ("sc_citeseq_cbmc", "fashion_mnist")
BATCHES = (256, 64)


@functools.lru_cache(maxsize=1)
def data_of(name: str) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a set."""
    return load(name, VECTORS[name]) if name in VECTORS else load_domain(name)


def model_of(name: str, arm: str, rows: int, batch: int, seed: int) -> MetAug:
    steps = STEPS["vectors" if name in VECTORS else "domains"]
    epochs = math.ceil(steps / max(1, rows // batch))
    return MetAug(**ARMS[arm], batch_size=batch, epochs=epochs, random_state=seed)


def trained(name: str, arm: str, batch: int, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Scores of a trained row."""
    model = model_of(name, arm, len(data["x"]), batch, seed)
    started = time.perf_counter()
    model.fit(data["x"])
    seconds = time.perf_counter() - started
    last = model.metrics_[-1]
    return {
        **score(model.transform(data["x"]), model.transform(data["x_test"]), data),
        "seconds_fit": round(seconds, 2),
        "steps": model.summary_["steps"],
        **{key: round(last[key], 4) for key in ("loss", "effective_rank", "feature_cosine", "margin") if key in last},
        "warnings": model.warnings_,
    }


def score(h: np.ndarray, h_test: np.ndarray, data: dict[str, np.ndarray]) -> dict[str, float]:
    numbers = evaluate_embedding(h, data["y"], h_test, data["y_test"], protocols=list(PROTOCOLS))
    return {key: round(float(value), 4) for key, value in numbers.items()}


def fixed(name: str, row: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Rows that learn nothing."""
    x, x_test = data["x"], data["x_test"]
    model = MetAug(meta="none", epochs=1, random_state=seed).fit(x if name in VECTORS else x[:512])
    if row == "untrained":
        fresh = model.untrained(x)
        return score(fresh.transform(x), fresh.transform(x_test), data)
    features, features_test = model.raw_features(x), model.raw_features(x_test)
    kind = preferred(features, data["y"])
    pair = features[kind], features_test[kind]
    return score(*(pair if row == "raw" else pca(*pair)), data)


def cells(names: list[str]) -> list[Cell]:
    """All cells, those a claim rests on first."""

    def of_arm(name: str, arm: str, batch: int, seed: int) -> Cell:
        return Cell(name, f"{arm}, batch {batch}", seed, lambda: trained(name, arm, batch, data_of(name), seed))

    def of_row(name: str, row: str, seed: int) -> Cell:
        return Cell(name, row, seed, lambda: fixed(name, row, data_of(name), seed))

    found = [of_arm(name, arm, 256, seed) for seed in SEEDS for name in names for arm in MAIN]
    found += [of_row(name, row, 0) for name in names for row in ("raw", "pca", "untrained")]
    ablated = [name for name in names if name in ABLATED]
    found += [of_arm(name, arm, 256, seed) for seed in SEEDS for name in ablated for arm in ABLATION]
    found += [of_row(name, "untrained", seed) for name in names for seed in SEEDS[1:]]
    found += [of_arm(name, arm, 256, seed) for seed in SEEDS for name in names for arm in ADDED]
    found += [of_arm(name, arm, 64, seed) for seed in SEEDS for name in names for arm in MAIN]
    found += [of_arm(name, arm, 64, seed) for seed in SEEDS for name in ablated for arm in ABLATION]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else None
    wanted = sys.argv[2:] or [*VECTORS, *DOMAINS]
    run(cells(wanted), PATH, minutes=minutes)
