"""Cells: the neighbor recipe beside scVI and principal components, on the same genes and the same cells.

Sets: four of `common.data` (log-normalized; the counts are recovered for scVI, as its baseline does) and two 10x
folders of raw counts (a fifth for tests, 2,000 genes of the largest variance over mean in train cells). Rows: "pca" (50
components), "scvi" (10 latent variables, its own options; test cells are encoded), "contrastive", "linear-contrast",
all fitted on train cells. Probes are those of `viewsmith evaluate`; clusters by Leiden of all cells, as many as types,
as in `quality.leiden`. The extra scvi, leidenalg and umap-learn are needed:

    pip install 'viewsmith[scvi]' leidenalg umap-learn
    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.beside_scvi [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks.common.data import data_folder
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.leiden import COMPONENTS, TRAINED, as_many, graph
from benchmarks.quality.linear_contrast import usage
from benchmarks.quality.suite import command
from viewsmith.data import load_dataset
from viewsmith.evaluation.baselines import scvi_latent
from viewsmith.evaluation.protocol import evaluate_embedding

SETS = ("sc_10x_pbmc", "sc_human_kidney", "sc_citeseq_cbmc", "sc_worm_neuron")
#: 10x folders, and their columns of types.
FOLDERS = {"cells_mouse_bladder": "cell_type", "cells_pbmc_facs_10x": "facs_type"}
GENES = 2000
ROWS, SEEDS = ("pca", "scvi", *TRAINED), 3
PROTOCOLS = ("linear", "knn", "linear_1pct", "linear_10pct", "kmeans_accuracy", "ari")

Parts = tuple[np.ndarray, ...]


def cells_of(name: str) -> Parts:
    """Train cells (n, genes), log-normalized, and their types, and those for tests."""
    if name in SETS:
        with np.load(data_folder() / f"{name}.npz") as file:
            return tuple(file[f"{part}_{split}"] for split in ("train", "test") for part in "Xy")
    folder = data_folder() / "instruments" / name
    matrix, labels = folder / "filtered_feature_bc_matrix", folder / "labels.csv"
    data = load_dataset(matrix, labels=labels, label=FOLDERS[name])
    x, x_test = (np.asarray(rows[:]) for rows in (data.x_train, data.x_test))
    spread = x.var(0) / np.maximum(x.mean(0), 1e-9)
    genes = np.sort(np.argsort(-spread, kind="stable")[:GENES])
    return x[:, genes], np.asarray(data.y_train), x_test[:, genes], np.asarray(data.y_test)


def representation(x: np.ndarray, x_test: np.ndarray, row: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of train and test cells."""
    if row == "pca":
        components = PCA(COMPONENTS, random_state=seed).fit(x)
        return components.transform(x), components.transform(x_test)
    if row == "scvi":
        return scvi_latent(x, x_test, seed)
    model = TRAINED[row](random_state=seed).fit(x)
    return model.transform(x), model.transform(x_test)


def work(name: str, row: str, seed: int, small: Parts | None = None) -> dict[str, Any]:
    """The results of a cell of the study."""
    torch.set_num_threads(1)  # umap-learn, which the cell before has used, gives torch all cores
    x, y, x_test, y_test = small or cells_of(name)
    started = usage()[0]
    h, h_test = representation(x, x_test, row, seed)
    seconds = usage()[0] - started
    scores = evaluate_embedding(h, y, h_test, y_test, protocols=PROTOCOLS)
    found = {metric: round(value, 4) for metric, value in scores.items()}
    if small is None:
        types = np.concatenate([y, y_test])
        made = as_many(graph(np.concatenate([h, h_test]).astype(np.float32)), len(np.unique(types)))
        found |= {"leiden_clusters": int(made.max()) + 1}
        found |= {"leiden_ari": round(float(adjusted_rand_score(types, made)), 4)}
        found |= {"leiden_nmi": round(float(normalized_mutual_info_score(types, made)), 4)}
    return found | {"cpu_seconds": round(seconds, 1), "columns": h.shape[1]}


def cells(quick: bool = False) -> list[Cell]:
    """All cells of the study; with `quick` principal components of 100 noisy rows, which need no package."""
    if quick:
        random, y = np.random.default_rng(0), np.arange(100) % 2
        x = random.normal(size=(100, 80)).astype(np.float32) + 3 * y[:, None]
        small = x[:70], y[:70], x[70:], y[70:]
        return [Cell(SETS[0], "pca", 0, partial(work, SETS[0], "pca", 0, small))]
    return [
        Cell(name, row, seed, partial(work, name, row, seed))
        for seed in range(SEEDS)
        for name in (*SETS, *FOLDERS)
        for row in ROWS
        if seed == 0 or row != "pca"
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "beside_scvi.jsonl", cells)
