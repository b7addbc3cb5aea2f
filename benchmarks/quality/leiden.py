"""Clusters of cells by Leiden, as scanpy makes them: on the representation and on principal components.

Sets of cells of `common.data`, all rows. Rows: "pca" (50 components), "pca of z-scores" (of genes over their deviation,
cut at 10), "contrastive", "linear-contrast" (three seeds). A fuzzy graph of 15 neighbors (umap-learn), modularity by
leidenalg, seed 0: at resolution 1, and at the resolution with as many clusters as there are types (or next to that, by
bisection). ARI and NMI with the types, and of k-means with that number. leidenalg and igraph are no dependencies:

    pip install leidenalg umap-learn
    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.leiden [minutes] [set or row] [--quick]
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors

from benchmarks.common.data import data_folder
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import command
from viewsmith import Contrastive, LinearContrast

SETS = ("sc_10x_pbmc", "sc_citeseq_cbmc", "sc_human_kidney", "sc_pbmc68k_reduced", "sc_worm_neuron")
TRAINED = {"contrastive": Contrastive, "linear-contrast": LinearContrast}
NEIGHBORS, COMPONENTS, MOST_Z, BISECTIONS = 15, 50, 10.0, 14


def representation(x: np.ndarray, row: str, seed: int) -> np.ndarray:
    """Coordinates of cells, (n, k)."""
    if row in TRAINED:
        return TRAINED[row](random_state=seed).fit(x).transform(x)
    if row == "pca of z-scores":
        x = np.clip((x - x.mean(0)) / (x.std(0) + 1e-9), -MOST_Z, MOST_Z)
    return PCA(COMPONENTS, random_state=seed).fit_transform(x)


def graph(h: np.ndarray) -> Any:
    """The fuzzy graph of neighbors, whose edges have weights."""
    distances, near = NearestNeighbors(n_neighbors=NEIGHBORS).fit(h).kneighbors(h)
    umap, igraph = importlib.import_module("umap.umap_"), importlib.import_module("igraph")
    weights = umap.fuzzy_simplicial_set(
        h, NEIGHBORS, np.random.RandomState(0), "euclidean", knn_indices=near, knn_dists=distances
    )[0].tocoo()
    once = weights.row < weights.col
    made = igraph.Graph(n=len(h), edges=np.stack([weights.row[once], weights.col[once]], 1).tolist())
    made.es["weight"] = weights.data[once].tolist()
    return made


def clusters(made: Any, resolution: float) -> np.ndarray:
    """Clusters of the nodes of a graph, (n,)."""
    leiden = importlib.import_module("leidenalg")
    found = leiden.find_partition(
        made, leiden.RBConfigurationVertexPartition, weights="weight", resolution_parameter=resolution, seed=0
    )
    return np.array(found.membership)


def as_many(made: Any, number: int) -> np.ndarray:
    """Clusters of the resolution that has this number, or the nearest one that is met."""
    low, high, best = 0.01, 8.0, clusters(made, 1.0)
    for _ in range(BISECTIONS):
        resolution = (low * high) ** 0.5
        found = clusters(made, resolution)
        best = min((best, found), key=lambda each: abs(each.max() + 1 - number))
        if found.max() + 1 == number:
            break
        low, high = (resolution, high) if found.max() + 1 < number else (low, resolution)
    return best


def work(name: str, row: str, seed: int) -> dict[str, Any]:
    """The results of a cell."""
    with np.load(data_folder() / f"{name}.npz") as file:
        x, y = (np.concatenate([file[f"{part}_train"], file[f"{part}_test"]]) for part in "Xy")
    h, number = representation(x, row, seed), len(np.unique(y))
    made = graph(h)
    found = {
        "as_many": as_many(made, number),
        "resolution_1": clusters(made, 1.0),
        "kmeans": KMeans(number, n_init=10, random_state=0).fit_predict(h),
    }
    scores: dict[str, Any] = {"types": number}
    for kind, each in found.items():
        scores[f"{kind}_clusters"] = int(each.max()) + 1
        scores[f"{kind}_ari"] = round(float(adjusted_rand_score(y, each)), 4)
        scores[f"{kind}_nmi"] = round(float(normalized_mutual_info_score(y, each)), 4)
    return scores


def cells(quick: bool = False) -> list[Cell]:
    """All cells; with `quick` one of the smallest set."""
    if quick:
        return [Cell(SETS[3], "pca", 0, partial(work, SETS[3], "pca", 0))]
    return [
        Cell(name, row, seed, partial(work, name, row, seed))
        for seed in range(3)
        for name in SETS
        for row in ("pca", "pca of z-scores", *TRAINED)
        if seed == 0 or row in TRAINED
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "leiden.jsonl", cells)
