"""The study of DiffAug: do generated positives add to fixed ones, at the same encoder steps, on the same network?

"phase A" is DiffAug without a generator: same encoder, losses, optimizer, learning-rate curve and encoder steps as
every DiffAug row, which trains its generator on top of them. Settings were chosen without these sets (docs, DiffAug);
rows with a setting in their name are ablations of one thing. Encoder steps: 1,200 on vectors, 300 on images and DNA,
batch 256. "simclr + neighbor mix" and "contrastive" have the same encoder and steps.

Of each trained row the representation is scored and, with the prefix map_, the 2-D map, beside UMAP, PaCMAP and PCA in
two dimensions (rows "umap 2-D" and so on; after 50 principal axes on wide data). kNN in maps is Euclidean. svm_cv is
the mean of a stratified 5-fold cross-validation of the linear SVM on the test rows.

Train rows are limited (see SETS) and test rows to 5,000, random, seed 0; of DNA sets the test rows without a copy in
train are scored.

    VIEWSMITH_DATA=folder python study_diffaug.py [minutes] [set ...]
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import time
from typing import Any

import numpy as np
import torch
from runner import RESULTS, Cell, load, run
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from study_domains import load as load_domain
from study_domains import preferred

from viewsmith.estimators import Contrastive, DiffAug, ViewsmithEstimator
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.networks import PrincipalAxes

VECTORS: dict[str, int | None] = {
    "letter": 10_000,
    "sc_citeseq_cbmc": None,
    "text_20news_tfidf2000": 8000,
    "sc_10x_pbmc": None,
    "wisdm_har": None,
    "gas_drift": None,
    "sc_human_kidney": 10_000,
}
DOMAINS = ("fashion_mnist", "cifar10_small", "dna_human_core_promoter", "dna_ienhancer2l", "dna_arabidopsis_promoter")
STEPS = {"vectors": 1200, "domains": 300}
SEEDS, MORE_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4)
PROTOCOLS = ("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
PATH = RESULTS / "study_diffaug.jsonl"

ARMS: dict[str, dict[str, Any]] = {
    "phase A": {"phases": "A"},
    "diffaug": {},
    "random condition": {"condition": "random"},
    "lambda 1": {"replacement": 1.0},
    "lambda 0.5": {"replacement": 0.5},
    "from noise": {"strength": 1.0},
    "strength 0.3": {"strength": 0.3},
    "kept near": {"keep_outliers": False},
    "ABABA": {"phases": "ABABA"},
    "supervised condition": {"condition": "labels"},
    "joint": {"phases": "J"},
    "InfoNCE": {"framework": "simclr"},
    "map condition": {"condition": "map"},
    "guidance 2": {"guidance": 2.0, "condition_drop": 0.1},
    "strength 0.2": {"strength": 0.2},
    "refresh 1": {"refresh": 1},
    "published denoiser": {"denoiser": "published"},
    "phase A, wide": {"phases": "A", "hidden": (1024, 1024)},
    "wide": {"hidden": (1024, 1024)},
    "map alone, plain kernel": {"projection": None, "kernel": "plain", "normalize": False, "nu_map": 0.1},
}
PEERS: dict[str, dict[str, Any]] = {
    "contrastive": {},
    "simclr + neighbor mix": {
        "view_maker": "neighbor-mix",
        "n_neighbors": 10,
        "kernel": "cosine",
        "projection": (256, 128),
        "learning_rate": 1e-3,
    },
}
ABLATED = ("letter", "sc_citeseq_cbmc", "fashion_mnist", "dna_ienhancer2l")


@functools.lru_cache(maxsize=1)
def data_of(name: str) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a set."""
    return load(name, VECTORS[name]) if name in VECTORS else load_domain(name)


def trained(name: str, arm: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Scores of a trained row."""
    x = data["x"]
    steps = STEPS["vectors" if name in VECTORS else "domains"]
    model: ViewsmithEstimator = Contrastive(**PEERS[arm]) if arm in PEERS else DiffAug(**ARMS[arm])
    model.set_params(random_state=seed, epochs=math.ceil(steps / max(1, len(x) // 256)))
    started = time.perf_counter()
    model.fit(x, data["y"] if model.reads_labels() else None)
    seconds = time.perf_counter() - started
    result = score(model.transform(x), model.transform(data["x_test"]), data)
    found: dict[str, Any] = {"seconds_fit": round(seconds, 2), "steps": model.summary_["steps"]}
    if isinstance(model, DiffAug):
        maps = [model.transform(part, output="map") for part in (x, data["x_test"])]
        result |= score_map(maps[0], maps[1], data)
        row = next((r for r in reversed(model.metrics_) if "drift" in r), {})
        found |= {key: round(row[key], 4) for key in ("drift", "generated_similarity") if key in row}
        found["warnings"] = model.warnings_
    return {**result, **found, "loss": round(model.metrics_[-1]["loss"], 4)}


def score(h: np.ndarray, h_test: np.ndarray, data: dict[str, np.ndarray]) -> dict[str, Any]:
    """The protocol on representations, and the cross-validated linear SVM on the test rows."""
    numbers = evaluate_embedding(h, data["y"], h_test, data["y_test"], protocols=list(PROTOCOLS))
    numbers["svm_cv"] = cross_validated(h_test, data["y_test"])
    return {key: round(float(value), 4) for key, value in numbers.items()}


def score_map(z: np.ndarray, z_test: np.ndarray, data: dict[str, np.ndarray]) -> dict[str, Any]:
    """The same of a 2-D map, with Euclidean neighbors."""
    y, y_test = data["y"], data["y_test"]
    numbers = evaluate_embedding(z, y, z_test, y_test, protocols=["svm", "kmeans_accuracy", "nmi"])
    numbers["knn"] = KNeighborsClassifier(5).fit(z, y).score(z_test, y_test)
    numbers["svm_cv"] = cross_validated(z_test, y_test)
    return {f"map_{key}": round(float(value), 4) for key, value in numbers.items()}


def cross_validated(h: np.ndarray, y: np.ndarray) -> float:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = [
        evaluate_embedding(h[fit], y[fit], h[held], y[held], protocols=["svm"])["svm"]
        for fit, held in folds.split(h, y)
    ]
    return float(np.mean(scores))


def fixed(name: str, row: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Rows that learn nothing, or a map alone."""
    x, x_test = data["x"], data["x_test"]
    model = DiffAug(phases="A", epochs=1, random_state=seed).fit(x if name in VECTORS else x[:512])
    started = time.perf_counter()
    if row == "untrained":
        fresh = model.untrained(x)
        maps = [fresh.transform(part, output="map") for part in (x, x_test)]
        return {**score(fresh.transform(x), fresh.transform(x_test), data), **score_map(maps[0], maps[1], data)}
    features, features_test = model.raw_features(x), model.raw_features(x_test)
    kind = preferred(features, data["y"])
    pair = features[kind], features_test[kind]
    if row == "raw":
        return score(*pair, data)
    if row == "pca":
        return score(*pca(*pair), data)
    if row == "umap":
        return {**score(*umap(*pair, seed=seed), data), "seconds_fit": round(time.perf_counter() - started, 2)}
    if pair[0].shape[1] > 200:
        axes = PrincipalAxes(pair[0].shape[1], 50)
        axes.fit(torch.from_numpy(pair[0]))
        pair = tuple(axes(torch.from_numpy(part)).numpy() for part in pair)
    if row == "pca 2-D":
        made = pca(*pair, n_components=2)
    elif row == "umap 2-D":
        made = umap(*pair, seed=seed, n_components=2)
    else:
        reducer: Any = importlib.import_module("pacmap").PaCMAP(n_components=2, random_state=seed)
        made = reducer.fit_transform(pair[0]), reducer.transform(pair[1], basis=pair[0])
    return {**score_map(made[0], made[1], data), "seconds_fit": round(time.perf_counter() - started, 2)}


def cells(names: list[str]) -> list[Cell]:
    """All cells, those a claim rests on first."""

    def cell(name: str, row: str, seed: int) -> Cell:
        work = trained if row in ARMS or row in PEERS else fixed
        return Cell(name, row, seed, lambda: work(name, row, data_of(name), seed))

    ablations = [row for row in ARMS if row not in ("phase A", "diffaug", "random condition", "lambda 1")]
    stages = [
        (("phase A", "diffaug"), names, SEEDS),
        (("contrastive", "untrained", "raw", "pca", "umap 2-D", "pca 2-D", "pacmap 2-D"), names, (0,)),
        (("phase A", "diffaug"), names, MORE_SEEDS),
        (("random condition", "lambda 1"), names, SEEDS),
        (("contrastive", "untrained", "umap 2-D"), names, SEEDS),
        (ablations, [name for name in names if name in ABLATED], (0, 1, 2)),
        (("simclr + neighbor mix", "umap", "pacmap 2-D"), names, SEEDS),
    ]
    found: dict[Any, Cell] = {}
    for rows, sets, seeds in stages:
        for name in sets:
            for row in rows:
                if row == "simclr + neighbor mix" and name.startswith("dna"):
                    continue  # no such view of DNA
                for seed in (0,) if row in ("raw", "pca", "pca 2-D") else seeds:
                    made = cell(name, row, seed)
                    found.setdefault(made.key, made)
    return list(found.values())


if __name__ == "__main__":
    torch.set_num_threads(1)
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else None
    wanted = sys.argv[2:] or [*VECTORS, *DOMAINS]
    run(cells(wanted), PATH, minutes=minutes)
