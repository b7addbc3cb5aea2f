"""Does the default on vectors lose what raw features or PCA have? On all sets, and on sets of near-duplicate rows.

"contrastive" is the default with batches of 256. In "skip" the representation has up to 50 more columns that are not
learned (`skip_components`); `learned` has the scores of its other columns, which are those of the default.
`knn_euclidean` is the nearest-neighbor accuracy by Euclidean distance. `kept` needs no labels: the fraction of the 10
nearest rows (cosine) of the scaled input that are among the nearest in the representation, too, for 1,000 train rows.

"NAME, validation": a random fifth of the train rows is scored in place of test rows. "NAME, 5 copies": every fifth row,
five times with Gaussian noise, which makes two copies .3 times as distant as different rows are from their nearest one
(median); copies of one row are all in train or all in test. Pixels are flat vectors here.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.do_no_harm [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common.data import Data, DataSet, sets
from benchmarks.quality.short_training import held_out
from benchmarks.quality.study import SETS as OF_STUDY
from benchmarks.quality.suite import PCA, RAW, Budget, Row, Scores, Stage, Study, Trained, main, rounded, score
from viewsmith.estimators import Contrastive
from viewsmith.evaluation.neighbors import neighbors
from viewsmith.evaluation.protocol import evaluate_embedding

PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
COPIES, JITTER = 5, 0.3
QUERIES, NEIGHBORS, LEARNED = 1000, 10, 256


def copied(data: Data, copies: int = COPIES, jitter: float = JITTER) -> Data:
    """One of `copies` rows, so many times with noise; of train and of test rows."""
    rng = np.random.default_rng(0)
    deviation = data.x.std(0)
    few = rng.permutation(len(data.x))[: len(data.x) // copies]
    scaled = data.x[few] / np.where(deviation > 0, deviation, 1)
    second = neighbors(scaled, scaled[:500], 2, "euclidean")[:, 1]
    nearest = np.median(np.linalg.norm(scaled[:500] - scaled[second], axis=1))
    # The squared distance of two copies has this expectation: 2 * features * noise^2.
    noise = jitter * nearest / np.sqrt(2 * (deviation > 0).sum()) * deviation

    def several(x: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chosen = rng.permutation(np.repeat(chosen, copies))
        return (x[chosen] + noise * rng.normal(size=(len(chosen), x.shape[1]))).astype(np.float32), y[chosen]

    few_test = rng.permutation(len(data.x_test))[: len(data.x_test) // copies]
    return Data(*several(data.x, data.y, few), *several(data.x_test, data.y_test, few_test))


def copied_validation(data: Data, copies: int = COPIES) -> Data:
    """`copied` of four fifths of the train rows, and of the others in place of test rows."""
    return copied(held_out(data, rows=0.8), copies)


VALIDATION = partial(held_out, rows=0.8)


def euclidean(h: np.ndarray, h_test: np.ndarray, data: Data) -> Scores:
    """Nearest-neighbor accuracy by Euclidean distance."""
    found = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=["knn"], metric="euclidean")
    return rounded({"knn_euclidean": found["knn"]})


def more(row: str, model: Any, data: Data) -> Scores:
    """The neighbors that are kept; scores of the learned columns, if there are others."""
    x, h = model.scaled(data.x), model.transform(data.x)
    queries = np.random.default_rng(0).permutation(len(x))[:QUERIES]

    def nearest(rows: np.ndarray) -> np.ndarray:
        found = neighbors(rows, rows[queries], NEIGHBORS + 1)
        return np.stack([near[near != query][:NEIGHBORS] for near, query in zip(found, queries, strict=True)])

    pairs = zip(nearest(x), nearest(h), strict=True)
    found: Scores = rounded({"kept": float(np.mean([np.isin(a, b).mean() for a, b in pairs]))})
    if h.shape[1] > LEARNED:
        parts = h[:, :LEARNED], model.transform(data.x_test)[:, :LEARNED], data
        found["learned"] = score(*parts, PROTOCOLS) | euclidean(*parts)
    return found


def skipped(columns: int = 50) -> dict[str, Any]:
    """Options of the row "skip": so many columns more than learned ones."""
    options = {"skip_components": columns, "skip_length": 3.0}
    return {"epochs": "auto", "batch_size": 256, "encoder_options": options, "n_components": LEARNED + columns}


PLAIN = {
    **OF_STUDY,
    **sets("wisdm_har", "text_r8_tfidf2000", "satimage", "gas_drift", "sc_human_kidney"),
    **{name: DataSet(name, wide=True) for name in ("sc_pbmc68k_reduced", "sc_worm_neuron")},
    "cifar10_small": DataSet("cifar10_small", wide=True),
}
COPIED = (
    *(("optdigits", 5), ("satimage", 5), ("letter", 5), ("wisdm_har", 5), ("sc_10x_pbmc", 5)),
    *(("optdigits", 20), ("letter", 20)),
)
# Sets with fewer than 50 features.
NARROW = {"texture": 40, "letter": 16, "wisdm_har": 43, "satimage": 36}
SETS = {
    **PLAIN,
    **{f"{name}, validation": replace(known, prepare=VALIDATION) for name, known in PLAIN.items()},
    **{
        f"{name}, {copies} copies, validation": replace(PLAIN[name], prepare=partial(copied_validation, copies=copies))
        for name, copies in COPIED
    },
}
ROWS: dict[str, Row] = {
    "contrastive": Trained(Contrastive, {"epochs": "auto", "batch_size": 256}),
    "skip": Trained(Contrastive, skipped(), {name: skipped(columns) for name, columns in NARROW.items()}),
    "raw": RAW,
    "pca": PCA,
}
STUDY = Study(
    "do_no_harm",
    SETS,
    ROWS,
    stages=(
        Stage(("contrastive", "raw"), tuple(SETS)[len(PLAIN) :], (0,)),
        Stage(("pca",), tuple(SETS)[len(PLAIN) : -2], (0,)),
        Stage(("skip",), ("optdigits", "texture", "letter", "sc_10x_pbmc", "mnist", "wisdm_har"), (0,)),
    ),
    budget=Budget(vectors=2000),
    protocols=PROTOCOLS,
    reference=Trained(Contrastive),
    score_more=euclidean,
    extra=more,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
