"""What a few labels and groups bring: supervision="labels" and group_mode="align", against the same model without them.

Labels: 1 %, 5 % and 10 % of the train rows of each class, at least one; at most 1,000 train and 1,000 test rows of each
set, 250 training steps, layers of 64 features in place of 256. The scores are of a linear classifier and of the nearest
row, fitted on these labeled rows alone, and of k-means on the test rows, which never have labels. Baselines get the
same labels: UMAP with y, label spreading and logistic regression on scaled rows.

Groups: models fitted on some batches or subjects, 400 training steps, default layers, scored on others.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.vectors.study_labels [minutes] [set or row ...]
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from benchmarks.common.data import Data, data_folder, load, sets
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import command, rounded
from viewsmith import Contrastive
from viewsmith.evaluation.baselines import pca
from viewsmith.evaluation.neighbors import group_scores
from viewsmith.evaluation.protocol import evaluate_embedding, few_label_rows

SETS = sets(
    *("wisdm_har", "optdigits", "satimage", "texture", "gas_drift", "letter", "sc_10x_pbmc", "text_r8_tfidf2000"),
    train_rows=1000,
    test_rows=1000,
)
PERCENT = (1, 5, 10)
STEPS, STEPS_OF_GROUPS = 250, 400
SMALL: dict[str, Any] = {"hidden": (64,), "n_components": 64}
SEEDS = (0, 1, 2)
PATH = RESULTS / "labels_and_groups.jsonl"


def epochs(rows: int, steps: int = STEPS) -> int:
    return max(1, steps // max(1, rows // 256))


# ---- a few labels -----------------------------------------------------------------------------------------------


def labeled(data: Data, percent: int, seed: int) -> np.ndarray:
    """The labeled train rows of a draw."""
    return few_label_rows(data.y, percent / 100, seed)


def partly(data: Data, rows: np.ndarray) -> np.ndarray:
    """Labels of these rows, and -1 for all others."""
    y = np.full(len(data.y), -1)
    y[rows] = data.y[rows]
    return y


def scores(h: np.ndarray, h_test: np.ndarray, data: Data, rows: np.ndarray) -> dict[str, float]:
    """Classifiers fitted on the labeled rows, and k-means on the test rows."""
    few = evaluate_embedding(h[rows], data.y[rows], h_test, data.y_test, protocols=["linear", "kmeans_accuracy", "nmi"])
    nearest = KNeighborsClassifier(1, metric="cosine").fit(h[rows], data.y[rows])
    return dict(rounded(few | {"nearest": nearest.score(h_test, data.y_test)}))


def with_labels(name: str, percent: int, seed: int) -> dict[str, Any]:
    """The default model with supervision."""
    data = load(SETS[name])
    rows = labeled(data, percent, seed)
    model = Contrastive(random_state=seed, epochs=epochs(len(data.x)), supervision="labels", **SMALL)
    model.fit(data.x, partly(data, rows))
    return scores(model.transform(data.x), model.transform(data.x_test), data, rows)


def without(name: str, seed: int) -> dict[str, Any]:
    """The default model; it is scored with each number of labels."""
    data = load(SETS[name])
    model = Contrastive(random_state=seed, epochs=epochs(len(data.x)), **SMALL).fit(data.x)
    h, h_test = model.transform(data.x), model.transform(data.x_test)
    return of_each(lambda rows: scores(h, h_test, data, rows), data, seed)


def of_each(score: Any, data: Data, seed: int) -> dict[str, Any]:
    """Scores with each number of labels, ``linear_5`` for 5 %."""
    return {f"{key}_{p}": v for p in PERCENT for key, v in score(labeled(data, p, seed)).items()}


def scaled(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Standardized rows, of wide sets 50 principal coordinates."""
    scaler = StandardScaler().fit(data.x)
    x, x_test = scaler.transform(data.x), scaler.transform(data.x_test)
    return pca(x, x_test, 50) if x.shape[1] > 200 else (x, x_test)


def logistic(name: str, seed: int) -> dict[str, Any]:
    """Logistic regression on the labeled rows."""
    data = load(SETS[name])
    x, x_test = scaled(data)

    def score(rows: np.ndarray) -> dict[str, Any]:
        model = LogisticRegression(max_iter=1000).fit(x[rows], data.y[rows])
        return dict(rounded({"linear": model.score(x_test, data.y_test)}))

    return of_each(score, data, seed)


def spreading(name: str, seed: int) -> dict[str, Any]:
    """Label spreading on a graph of 10 neighbors, which labels test rows by their neighbors."""
    data = load(SETS[name])
    x, x_test = scaled(data)

    def score(rows: np.ndarray) -> dict[str, Any]:
        model = LabelSpreading(kernel="knn", n_neighbors=10).fit(x, partly(data, rows))
        return dict(rounded({"linear": model.score(x_test, data.y_test)}))

    return of_each(score, data, seed)


def umap_with_labels(name: str, percent: int, seed: int) -> dict[str, Any]:
    """32 coordinates of UMAP with y, -1 for rows without a label."""
    with contextlib.redirect_stdout(io.StringIO()):
        from umap import UMAP

    torch.set_num_threads(1)
    data = load(SETS[name])
    rows, (x, x_test) = labeled(data, percent, seed), scaled(data)
    model = UMAP(n_components=32, random_state=seed, n_jobs=1).fit(x, partly(data, rows))
    return scores(model.embedding_, model.transform(x_test), data, rows)


# ---- groups -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grouped:
    """Rows with classes and groups, fitted on some groups and scored on others."""

    x: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    groups_test: np.ndarray


def grouped(name: str) -> Grouped:
    """gas_drift: fitted on batches 1 to 5, scored on 6, 8 and 9; wisdm_har: subjects, as the file splits them."""
    key = {"gas_drift": "batch", "wisdm_har": "subject"}[name]
    with np.load(data_folder() / f"{name}.npz") as file:
        x, y, g = ([file[f"{part}_{split}"] for split in ("train", "test")] for part in ("X", "y", key))
    if name == "wisdm_har":
        return Grouped(x[0], y[0], g[0], x[1], y[1], g[1])
    rows, classes, batches = (np.concatenate(part) for part in (x, y, g))
    fit = batches <= 5
    return Grouped(rows[fit], classes[fit], batches[fit], rows[~fit], classes[~fit], batches[~fit])


def of_groups(name: str, mode: str, seed: int) -> dict[str, Any]:
    """Scores on rows of groups that were not in the training; mode "raw": of the scaled rows."""
    data = grouped(name)
    if mode == "raw":
        scaler = StandardScaler().fit(data.x)
        h, h_test = scaler.transform(data.x), scaler.transform(data.x_test)
    else:
        model = Contrastive(random_state=seed, epochs=epochs(len(data.x), STEPS_OF_GROUPS), group_mode=mode)
        model.fit(data.x, groups=data.groups)
        h, h_test = model.transform(data.x), model.transform(data.x_test)
    names = ["linear", "knn", "kmeans_accuracy", "nmi"]
    found = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=names)
    return dict(rounded(found | group_scores(h_test, data.groups_test, data.y_test)))


# ---- cells ------------------------------------------------------------------------------------------------------


def cells(quick: bool = False) -> list[Cell]:
    """Groups first, then labels: every set with seed 0 before other seeds, UMAP last."""
    if quick:
        return [
            cell_of("wisdm_har", "logistic regression", 0, partial(logistic, "wisdm_har", 0)),
            cell_of("wisdm_har groups", "raw", 0, partial(of_groups, "wisdm_har", "raw", 0)),
        ]
    found = []
    for seed in SEEDS:
        for name in ("gas_drift", "wisdm_har"):
            modes = {"none": "contrastive", "align": "aligned"} | ({"raw": "raw"} if seed == SEEDS[0] else {})
            for mode, row in modes.items():
                found.append(cell_of(f"{name} groups", row, seed, partial(of_groups, name, mode, seed)))
    for seed in SEEDS:
        for name in SETS:
            found.append(cell_of(name, "logistic regression", seed, partial(logistic, name, seed)))
            found.append(cell_of(name, "label spreading", seed, partial(spreading, name, seed)))
            found.append(cell_of(name, "contrastive", seed, partial(without, name, seed)))
            found += [cell_of(name, f"labels {p} %", seed, partial(with_labels, name, p, seed)) for p in PERCENT]
    for p in PERCENT[1:] + PERCENT[:1]:
        for seed in SEEDS:
            found += [cell_of(name, f"umap y {p} %", seed, partial(umap_with_labels, name, p, seed)) for name in SETS]
    return found


def cell_of(dataset: str, row: str, seed: int, work: Any) -> Cell:
    """A cell that also records the processor time of its work, on one thread."""

    def measured() -> dict[str, Any]:
        torch.set_num_threads(1)
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = work()
        return {**result, "seconds_cpu": round(time.process_time() - started, 2)}

    return Cell(dataset, row, seed, measured)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
