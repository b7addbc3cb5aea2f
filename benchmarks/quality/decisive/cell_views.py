"""Generated views of cells as training data for a probe on genes: a check of what `few_label_views` found on one set.

As there, a logistic regression is fitted on the labeled rows and `VIEWS` views of each, 1 % or 5 % of 2,000 train rows:
on scaled genes ("raw"), on 64 principal axes of them ("pca"), and on representations of the DiffAug model itself ("h").
Rows: "none" (the labeled rows alone), "neighbor mix" and "diffaug". A cell is one set and one seed.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.decisive.cell_views [minutes] [set ...]
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common.data import load, sets
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.decisive.few_label_views import PERCENT, STEPS, VIEWS, probe
from benchmarks.quality.suite import SEEDS, command, rounded
from benchmarks.quality.vectors.study_labels import epochs
from viewsmith import Contrastive, DiffAug
from viewsmith.evaluation.protocol import few_label_rows

SETS = sets("sc_citeseq_cbmc", "sc_human_kidney", "sc_10x_pbmc", train_rows=2000, test_rows=1000)
KINDS = ("raw", "pca", "h")
AXES = 64
PATH = RESULTS / "cell_views.jsonl"


def measure(name: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Accuracies ``"raw diffaug 5"``: features, and views with 5 % of the labels."""
    torch.set_num_threads(1)
    data, steps = load(SETS[name]), 1 if quick else epochs(2000, STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DiffAug(random_state=seed, epochs=steps).fit(data.x)
        mix = Contrastive(view_maker="neighbor-mix", n_neighbors=10, random_state=seed, epochs=1).fit(data.x)
        made = {
            "diffaug": model.views(data.x, VIEWS, random_state=seed),
            "neighbor mix": mix.views(data.x, VIEWS, random_state=seed),
        }
    axes = make_pipeline(StandardScaler(), PCA(AXES, random_state=0)).fit(data.x)
    features = {"raw": np.asarray, "pca": axes.transform, "h": model.transform}
    found: dict[str, float] = {}
    for kind in KINDS:
        scaler = StandardScaler().fit(features[kind](data.x))
        test = scaler.transform(features[kind](data.x_test))
        for percent in PERCENT:
            rows = few_label_rows(data.y, percent / 100, seed)
            x, y = data.x[rows], data.y[rows]
            parts = {"none": (x, y)} | {
                row: (
                    np.concatenate([x, views[rows].reshape(-1, x.shape[1])]),
                    np.concatenate([y, np.repeat(y, VIEWS)]),
                )
                for row, views in made.items()
            }
            for row, (rows_of, labels) in parts.items():
                fitted = probe(scaler.transform(features[kind](rows_of)), labels, len(y))
                found[f"{kind} {row} {percent}"] = fitted.score(test, data.y_test)
    return dict(rounded(found))


def cells(quick: bool = False) -> list[Cell]:
    """A cell for each set and seed."""
    names, seeds = (list(SETS)[:1], SEEDS[:1]) if quick else (list(SETS), SEEDS)
    return [Cell(name, "views", seed, partial(measure, name, seed, quick=quick)) for seed in seeds for name in names]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
