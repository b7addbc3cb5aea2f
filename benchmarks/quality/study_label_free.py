"""Do measures without labels tell which of several trainings is best?

A cell trains one row (a method with its views) on 1,000 train rows of a set with two seeds, and on two halves of these
rows, and stores the measures of `viewsmith.evaluation.label_free`, computed on 400 test rows without their labels,
beside the scores with labels: linear, kNN and k-means accuracy, and linear accuracy with 1 % of the labels. All
trainings have 300 steps (images and DNA 100). `benchmarks/tables/label_free.py` compares the two.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_label_free [minutes] [set or row ...]
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import SETS as KNOWN
from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import command, rounded
from viewsmith import Contrastive, PiNDA
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.evaluation.label_free import MEASURED_ROWS, measures, neighbor_overlap
from viewsmith.evaluation.protocol import evaluate_embedding

PATH = RESULTS / "study_label_free.jsonl"
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
STEPS, MODALITY_STEPS, BATCH = 300, 100, 128
# The order in which they are measured.
NAMES = (
    *("optdigits", "sc_citeseq_cbmc", "letter", "dna_ienhancer2l", "satimage", "text_r8_tfidf2000", "wisdm_har"),
    *("fashion_mnist", "gas_drift", "sc_10x_pbmc", "texture", "sc_human_kidney", "dna_human_core_promoter"),
    *("cifar10_small", "text_20news_tfidf2000"),
)
SETS = {name: replace(KNOWN[name], train_rows=1000, test_rows=1000) for name in NAMES}
LEARNED: dict[str, Any] = {"encoder_options": {"appended_pca": 0}}

Row = tuple[type[ViewsmithEstimator], Mapping[str, Any]]
OF_VECTORS: dict[str, Row] = {
    "contrastive": (Contrastive, {}),
    "noise": (Contrastive, {"view_maker": "noise"}),
    "corruption": (Contrastive, {"view_maker": "corruption"}),
    "mixup": (Contrastive, {"view_maker": "mixup"}),
    "simclr": (Contrastive, {"framework": "simclr", "framework_options": {"kernel": "cosine"}}),
    "vicreg": (Contrastive, {"framework": "vicreg"}),
    "pinda": (PiNDA, {}),
}
OF_MODALITIES: dict[str, Row] = {
    "contrastive": (Contrastive, {}),
    "noise": (Contrastive, {"view_maker": "noise"}),
    "vicreg": (Contrastive, {"framework": "vicreg"}),
    "pinda": (PiNDA, {}),
}


def work(name: str, row: str) -> dict[str, Any]:
    """Measures and scores of a row on a set, mean of two seeds, and its stability."""
    torch.set_num_threads(1)
    dataset, began = SETS[name], time.process_time()
    data = load(dataset)
    models = [_trained(dataset, row, data.x, seed) for seed in (0, 1)]
    order = np.random.default_rng(0).permutation(len(data.x))
    halves = [_trained(dataset, row, data.x[np.sort(order[i::2])], 0) for i in (0, 1)]
    few = np.random.default_rng(1).permutation(len(data.x_test))[:MEASURED_ROWS]
    found = [_measured(model, data, few) for model in models]
    together = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    rows = [model.transform(data.x_test[few]) for model in (*models, *halves)]
    together["stability_seeds"] = neighbor_overlap(rows[0], rows[1])
    together["stability_halves"] = neighbor_overlap(rows[2], rows[3])
    return rounded(together) | {"cpu_seconds": round(time.process_time() - began, 2)}


def _trained(dataset: DataSet, row: str, x: np.ndarray, seed: int) -> ViewsmithEstimator:
    vectors = dataset.modality == "vectors"
    cls, options = (OF_VECTORS if vectors else OF_MODALITIES)[row]
    batch = min(BATCH, len(x))
    epochs = -(-(STEPS if vectors else MODALITY_STEPS) // max(1, len(x) // batch))
    learned = LEARNED if cls is Contrastive and (dataset.wide or not vectors) else {}
    return cls(**{**learned, **options}, epochs=epochs, batch_size=batch, random_state=seed).fit(x)


def _measured(model: Any, data: Data, few: np.ndarray) -> dict[str, float]:
    """Scores with labels, with their own names, and measures without."""
    h, h_test = model.transform(data.x), model.transform(data.x_test)
    scores = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=PROTOCOLS)
    raw = [list(model.raw_features(part).values())[-1] for part in (data.x, data.x_test[few])]
    return scores | measures(h, h_test[few], raw, model=model, x=data.x, x_test=data.x_test[few])


def cells(quick: bool = False) -> list[Cell]:
    """All cells: the rows of a set, set by set; in a small form one of each kind of data."""
    names = ("optdigits", "dna_ienhancer2l") if quick else NAMES
    return [
        Cell(name, row, 0, partial(work, name, row))
        for name in names
        for row in (OF_VECTORS if SETS[name].modality == "vectors" else OF_MODALITIES)
    ]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
