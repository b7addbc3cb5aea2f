"""The study on vectors: does learned noise, or any fixed view, beat the neighbor recipe, UMAP, PCA and raw features?

Every trained row has the same encoder (d - 256 - 256, BatchNorm), batch size 256, optimizer and number of steps: 2,000,
or 800 if the encoder gets more than 200 features without principal axes (about 30 s of training on one CPU thread).
Rows with noise have the same search over its strength: four values, 300 steps each (`suite.Search`).

On wide sets, the encoder of rows with neighbors gets principal axes (`viewsmith.networks.PrincipalAxes`); "pca, same
input" and "umap, same input" are PCA and UMAP of these axes. Train rows are limited (`common.data.SETS`), test rows to
5,000, random, seed 0.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.study [minutes] [set or row ...] [--quick]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import DataSet, sets
from benchmarks.quality.suite import PCA, RAW, UMAP, UNTRAINED, Budget, Row, Search, Stage, Study, Trained, main
from viewsmith import Contrastive, PiNDA
from viewsmith.networks import PrincipalAxes

# The first eight sets compare the neighbor recipe with UMAP.
SETS = {
    **sets("optdigits", "texture", "letter", "sc_citeseq_cbmc", "sc_10x_pbmc", "text_20news_tfidf2000"),
    **{name: DataSet(name, train_rows=5000, wide=True) for name in ("mnist", "fashion_mnist")},
    **sets("wisdm_har"),
}
# Sets on which other views than neighbors are measured.
VIEWS_ON = ("optdigits", "texture", "letter", "sc_10x_pbmc", "wisdm_har")
WIDE = tuple(name for name, dataset in SETS.items() if dataset.wide)
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "nmi", "ari", "linear_1pct", "linear_10pct")
STRENGTHS = (0.25, 0.5, 1.0, 2.0)

BUDGET = Budget(vectors=2000)
DIRECT = replace(BUDGET, wide=800)  # no principal axes before the encoder
COSINE = {"kernel": "cosine", "projector_dims": (256, 128), "learning_rate": 1e-3}
OF_NOISE = Search("noise_strength", STRENGTHS, Budget(vectors=300))
OF_PINDA = replace(OF_NOISE, option="strength")


def axes(model: Contrastive, x: np.ndarray) -> np.ndarray:
    """The principal axes that the encoder of a wide set gets."""
    module = next(m for m in model.method_.modules() if isinstance(m, PrincipalAxes))
    with torch.no_grad():
        made: np.ndarray = module(torch.from_numpy(model.scaled(x))).numpy()
    return made


ALONE: dict[str, Any] = {"view_maker": "identity", "objective": "adversarial", "random_fraction": 0.5}
TRAINED: dict[str, Row] = {
    "contrastive": Trained(Contrastive),
    "pinda": Trained(PiNDA, search=OF_PINDA),
    "neighbors + noise": Trained(Contrastive, {"view_maker": "neighbors+noise"}, search=OF_NOISE),
    "noise": Trained(Contrastive, {"view_maker": "noise"} | COSINE, search=OF_NOISE, budget=DIRECT),
    "scarf": Trained(Contrastive, {"view_maker": "corruption"} | COSINE, budget=DIRECT),
    "neighbor mix": Trained(Contrastive, {"view_maker": "neighbor-mix", "n_neighbors": 10} | COSINE),
    "pinda alone": Trained(PiNDA, ALONE | COSINE, search=OF_PINDA, budget=DIRECT),
}
BASELINES: dict[str, Row] = {
    "umap": UMAP,
    "pca": PCA,
    "raw": RAW,
    "untrained": UNTRAINED,
    "umap, same input": replace(UMAP, features=axes),
    "pca, same input": replace(RAW, features=axes),
}
STUDY = Study(
    "study",
    SETS,
    TRAINED | BASELINES,
    stages=(
        Stage(("contrastive", "umap", "pca", "raw", "untrained")),
        Stage(("umap, same input", "pca, same input"), WIDE),
        Stage(("pinda", "neighbors + noise", "noise", "scarf", "neighbor mix"), VIEWS_ON),
        Stage(("pinda alone",), ("letter", "wisdm_har")),
    ),
    budget=BUDGET,
    protocols=PROTOCOLS,
    reference=Trained(Contrastive),
)

if __name__ == "__main__":
    main(STUDY, __doc__)
