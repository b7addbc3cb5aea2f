"""Cells: representations in adata.obsm, then scanpy's neighbors and Leiden clusters on them: python scanpy_cells.py

Needs scanpy and leidenalg. The 700 blood cells, log-normalized, with 10 types, are in the package of scanpy.
"""

import anndata
import scanpy as sc
from sklearn.metrics import adjusted_rand_score

import viewsmith


def main(resolutions: tuple[float, ...] = (1.0, 0.3, 0.1), **options) -> anndata.AnnData:
    """Compare the clusters on principal components with those on the representation."""
    adata = sc.datasets.pbmc68k_reduced().raw.to_adata()
    viewsmith.tl.embed(adata, **options)  # would log-normalize raw counts itself, and leave adata.X as it is
    adata.obsm["X_pca"] = sc.pp.pca(adata.X, n_comps=30)
    for key in ("X_pca", "X_viewsmith"):
        sc.pp.neighbors(adata, use_rep=key, key_added=key)
        for resolution in resolutions:  # compare at an equal number of clusters, not at an equal resolution
            leiden = {"resolution": resolution, "flavor": "igraph", "n_iterations": 2, "key_added": f"leiden_{key}"}
            sc.tl.leiden(adata, neighbors_key=key, **leiden)
            found = adata.obs[f"leiden_{key}"]
            score = adjusted_rand_score(adata.obs["bulk_labels"], found)
            text = f"{found.nunique()} clusters, adjusted Rand index with the types {score:.3f}"
            print(f"{key}, resolution {resolution}: {text}")
    return adata


if __name__ == "__main__":
    main()
