"""Cells: representations in adata.obsm, then scanpy's neighbors and Leiden clusters on them: python scanpy_cells.py

Needs scanpy and leidenalg. The counts are drawn here: five types of cells, in two batches with different depth.
"""

import anndata
import numpy as np
import pandas as pd
import scanpy as sc
from sklearn.metrics import adjusted_rand_score

import viewsmith


def cells(number: int = 1000, genes: int = 300, seed: int = 0) -> anndata.AnnData:
    """Counts with the type and the batch of each cell in obs."""
    rng = np.random.default_rng(seed)
    types, batches = rng.integers(0, 5, number), rng.integers(0, 2, number)
    profiles = rng.gamma(0.3, 1, (5, genes)) + 0.05
    depth = rng.lognormal(0, 0.4, number) * np.array([0.5, 1.0])[batches]
    counts = rng.poisson(profiles[types] * depth[:, None]).astype(np.float32)
    names = [f"c{i}" for i in range(number)]
    obs = pd.DataFrame({"type": types.astype(str), "batch": batches.astype(str)}, index=names)
    return anndata.AnnData(X=counts, obs=obs.astype("category"))


def main(number: int = 1000, **options) -> anndata.AnnData:
    """Compare the clusters on principal components with those on the representation."""
    adata = cells(number)
    viewsmith.tl.embed(adata, **options)  # log-normalizes the raw counts itself, and leaves adata.X as it is
    log = sc.pp.log1p(sc.pp.normalize_total(adata, target_sum=1e4, copy=True), copy=True)
    adata.obsm["X_pca"] = sc.pp.pca(log.X, n_comps=30)
    for key in ("X_pca", "X_viewsmith"):
        sc.pp.neighbors(adata, use_rep=key, key_added=key)
        sc.tl.leiden(adata, neighbors_key=key, key_added=f"leiden_{key}", flavor="igraph", n_iterations=2)
        found = adata.obs[f"leiden_{key}"]
        score = adjusted_rand_score(adata.obs["type"], found)
        print(f"{key}: {found.nunique()} clusters, adjusted Rand index with the types {score:.3f}")
    return adata


if __name__ == "__main__":
    main()
