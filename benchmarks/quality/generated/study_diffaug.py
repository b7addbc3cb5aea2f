"""The study of DiffAug: do generated positives add to fixed ones, at the same encoder steps, on the same network?

"phase A" is DiffAug without a generator. It has the same encoder, losses, optimizer, learning-rate schedule and encoder
steps as every other DiffAug row; these also train a generator. "replacement 0" has the same phases without generated
positives: their control. Settings were chosen without these sets (docs, DiffAug).
Rows named after a setting are ablations: they change only this setting. Encoder steps: 1,200 on vectors, 300 on images
and DNA, batch size 256. "contrastive" has the same encoder and steps.

The representation of each row is scored, and for DiffAug also the 2-D map, with the prefix map_. The rows "umap 2-D",
"pacmap 2-D" and "pca 2-D" are maps of other methods (of 50 principal axes on wide data). kNN in maps is Euclidean.
svm_cv is the mean of a stratified 5-fold cross-validation of the linear SVM on the test rows.

Train rows are limited (`common.data.SETS`), test rows to 5,000, random, seed 0. Test rows of DNA sets that are copies
of training rows are not scored.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.study_diffaug [minutes] [set or row ...]
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.common.data import Data, sets
from benchmarks.quality.suite import (
    PCA,
    RAW,
    UNTRAINED,
    Baseline,
    Budget,
    PositivePair,
    Scores,
    Stage,
    Study,
    Trained,
    main,
    rounded,
)
from viewsmith import Contrastive, DiffAug
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.networks import PrincipalAxes

VECTORS = (
    *("letter", "sc_citeseq_cbmc", "text_20news_tfidf2000", "sc_10x_pbmc", "wisdm_har", "gas_drift"),
    "sc_human_kidney",
)
DNA = ("dna_human_core_promoter", "dna_ienhancer2l")
SETS = sets(*VECTORS, "fashion_mnist", "cifar10_small", *DNA)
ABLATED = ("letter", "sc_citeseq_cbmc")
PROTOCOLS = ("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")

ARMS: dict[str, dict[str, Any]] = {
    "phase A": {"phases": "A"},
    "diffaug": {},
    "random condition": {"condition": "random"},
    "lambda 1": {"replacement": 1.0},
    # The control: the same phases without generated positives. Its generator, which the encoder does not see, is not
    # trained for long.
    "replacement 0": {"replacement": 0.0, "generator_epochs": 1},
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "lambda 0.5": {"replacement": 0.5},
    "from noise": {"strength": 1.0},
    "strength 0.3": {"strength": 0.3},
    "without outliers": {"keep_outliers": False},
    "ABABA": {"phases": "ABABA"},
    "supervised condition": {"condition": "labels"},
    "joint": {"phases": "J"},
    "InfoNCE": {"framework": "simclr"},
    "map condition": {"condition": "map"},
    "guidance 2": {"guidance": 2.0, "condition_drop": 0.1},
    "map alone, plain kernel": {"projector_dims": None, "kernel": "plain", "normalize": False, "nu_map": 0.1},
}
ON_ONE_SET: dict[str, dict[str, Any]] = {
    "strength 0.2": {"strength": 0.2},
    "refresh 1": {"refresh": 1},
    "published denoiser": {"denoiser": "published"},
    "phase A, wide": {"phases": "A", "hidden": (1024, 1024)},
    "wide": {"hidden": (1024, 1024)},
}


def cross_validated(h: np.ndarray, h_test: np.ndarray, data: Data) -> Scores:
    """Mean accuracy of the linear SVM in a cross-validation on the test rows."""
    y, folds = data.y_test, StratifiedKFold(5, shuffle=True, random_state=0)
    scores = [
        evaluate_embedding(h_test[fit], y[fit], h_test[rest], y[rest], protocols=["svm"])["svm"]
        for fit, rest in folds.split(h_test, y)
    ]
    return rounded({"svm_cv": float(np.mean(scores))})


def score_map(z: np.ndarray, z_test: np.ndarray, data: Data) -> Scores:
    """The scores of a 2-D map, with Euclidean neighbors."""
    y, y_test = data.y, data.y_test
    scores = evaluate_embedding(z, y, z_test, y_test, protocols=["svm", "kmeans_accuracy", "nmi"])
    scores["knn"] = KNeighborsClassifier(5).fit(z, y).score(z_test, y_test)
    return rounded(scores | cross_validated(z, z_test, data), "map_")


def maps(row: str, model: Any, data: Data) -> Scores:
    """`score_map` for models with a map."""
    if not isinstance(model, DiffAug):
        return {}
    return score_map(model.transform(data.x, output="map"), model.transform(data.x_test, output="map"), data)


def narrow(x: np.ndarray, x_test: np.ndarray) -> PositivePair:
    """Reduce wide rows to 50 principal axes."""
    if x.shape[1] <= 200:
        return x, x_test
    axes = PrincipalAxes(x.shape[1], 50)
    axes.fit(torch.from_numpy(x))
    return axes(torch.from_numpy(x)).numpy(), axes(torch.from_numpy(x_test)).numpy()


def pacmap(x: np.ndarray, x_test: np.ndarray, seed: int) -> PositivePair:
    """PaCMAP in two dimensions."""
    reducer: Any = importlib.import_module("pacmap").PaCMAP(n_components=2, random_state=seed)
    return reducer.fit_transform(x), reducer.transform(x_test, basis=x)


MAPS = {
    "umap 2-D": Baseline(lambda x, x_test, seed: umap(*narrow(x, x_test), seed=seed, n_components=2), score=score_map),
    "pca 2-D": Baseline(lambda x, x_test, seed: pca(*narrow(x, x_test), n_components=2), random=False, score=score_map),
    "pacmap 2-D": Baseline(lambda x, x_test, seed: pacmap(*narrow(x, x_test), seed), score=score_map),
}
STUDY = Study(
    "study_diffaug",
    SETS,
    {
        **{name: Trained(DiffAug, options) for name, options in (ARMS | ABLATIONS | ON_ONE_SET).items()},
        "contrastive": Trained(Contrastive, on={"dna_ienhancer2l": {"encoder_options": {"appended_pca": 0}}}),
        **MAPS,
        "raw": RAW,
        "pca": PCA,
        "untrained": UNTRAINED,
    },
    stages=(
        Stage(("phase A", "diffaug"), VECTORS, (0, 1, 2, 3, 4)),
        Stage(("phase A", "diffaug"), ("fashion_mnist", "cifar10_small", *DNA)),
        Stage(("phase A",), ("dna_ienhancer2l",), (3, 4)),
        Stage(("contrastive", "untrained", "raw", "pca", *MAPS), (*VECTORS, "dna_ienhancer2l"), (0,)),
        Stage(("random condition", "lambda 1", "replacement 0"), ABLATED),
        Stage(tuple(ABLATIONS), ABLATED, (0,)),
        # Settings that looked different with one seed.
        Stage(("without outliers", "ABABA", "supervised condition"), ("sc_citeseq_cbmc",), (1,)),
        Stage(("guidance 2",), ("sc_citeseq_cbmc",), (1, 2)),
        Stage(("refresh 1", "published denoiser", "phase A, wide"), ("letter",), (0, 1)),
        Stage(("wide",), ("letter",), (0,)),
        Stage(("strength 0.2",), ("dna_ienhancer2l",), (0, 1)),
        Stage(("strength 0.3",), ("dna_ienhancer2l",), (0,)),
    ),
    budget=Budget(vectors=1200, modalities=300),
    protocols=PROTOCOLS,
    reference=Trained(DiffAug, {"phases": "A"}),
    score_more=cross_validated,
    extra=maps,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
