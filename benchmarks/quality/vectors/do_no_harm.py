"""Does the default lose what raw features or PCA have? On all sets, and on sets of near-duplicate rows.

"contrastive" is the default of the modality, except that images and DNA are trained for `STEPS` steps, a fifth of the
default, and vectors without columns that are not learned (`appended_pca`). "further axes" has them: the default on
wide vectors whose 50 leading axes hold less than half of the variance. In "skip" there are up to 50 columns of the
encoder's input. `learned` has the scores of the learned columns; `knn_euclidean` is the nearest-neighbor accuracy by
Euclidean distance.

Numbers that need no labels, for a warning: `kept` is the fraction of the 10 nearest rows (cosine) of the scaled input
that are among the nearest in the representation, too, for 1,000 train rows. `r2` is R^2 of the input's 20 leading
principal coordinates of test rows, predicted by their mean over the 10 nearest train rows (`neighbor_r2`), `ridge` R^2
of 64 coordinates predicted by ridge regression; of the representation (`_h`) and of PCA with 64 axes (`_pca`).

"NAME": test rows, three seeds. What other studies measured of the same rows and defaults is not measured again
(`benchmarks/tables/harm.py`). "NAME, validation": a random fifth of the train rows is scored in place of test rows;
"NAME, fold 0": a fifth of them, each row in one of five folds.
"NAME, 5 copies": every fifth row, five times with Gaussian noise, which makes two copies .3 times as distant as
different rows are from their nearest one (median); copies of one row are all in train or all in test. On "flat" sets
pixels are vectors.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.do_no_harm [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.common.data import Data, DataSet, sets
from benchmarks.quality.suite import PCA, RAW, SEEDS, Budget, Row, Scores, Stage, Study, Trained, main, rounded, score
from benchmarks.quality.vectors.short_training import held_out
from benchmarks.quality.vectors.study import SETS as OF_STUDY
from viewsmith import Contrastive
from viewsmith.evaluation.baselines import pca
from viewsmith.evaluation.label_free import neighbor_r2
from viewsmith.evaluation.neighbors import neighbors
from viewsmith.evaluation.protocol import evaluate_embedding

PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
COPIES, JITTER = 5, 0.3
QUERIES, NEIGHBORS, COLUMNS = 1000, 10, 256


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


def fold(data: Data, k: int) -> Data:
    """The train rows outside the k-th of five folds, and those of the fold in place of test rows."""
    index, held = list(StratifiedKFold(5, shuffle=True, random_state=0).split(data.x, data.y))[k]
    return Data(data.x[index], data.y[index], data.x[held], data.y[held])


VALIDATION = partial(held_out, rows=0.8)


def euclidean(h: np.ndarray, h_test: np.ndarray, data: Data) -> Scores:
    """Nearest-neighbor accuracy by Euclidean distance."""
    found = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=["knn"], metric="euclidean")
    return rounded({"knn_euclidean": found["knn"]})


def more(row: str, model: Any, data: Data) -> Scores:
    """Numbers that need no labels; scores of the learned columns, if there are others."""
    if row == "further axes":  # what is learned is that of "contrastive"
        return {}
    x, h, h_test = (part.reshape(len(part), -1) for part in (model.scaled(data.x), *embedded(model, data)))
    x_test = model.scaled(data.x_test).reshape(len(h_test), -1)
    queries = np.random.default_rng(0).permutation(len(x))[:QUERIES]

    def nearest(rows: np.ndarray) -> np.ndarray:
        found = neighbors(rows, rows[queries], NEIGHBORS + 1)
        return np.stack([near[near != query][:NEIGHBORS] for near, query in zip(found, queries, strict=True)])

    pairs = zip(nearest(x), nearest(h), strict=True)
    found: Scores = rounded({"kept": float(np.mean([np.isin(a, b).mean() for a, b in pairs]))})
    axes, axes_test = pca(x, x_test)
    for name, (rows, rows_test) in {"h": (h, h_test), "pca": (axes, axes_test)}.items():
        found |= rounded({f"r2_{name}": neighbor_r2(rows, rows_test, x, x_test)})
        found |= rounded({f"ridge_{name}": ridge_r2(rows, rows_test, axes, axes_test)})
    if h.shape[1] > COLUMNS:
        parts = h[:, :COLUMNS], h_test[:, :COLUMNS], data
        found["learned"] = score(*parts, PROTOCOLS) | euclidean(*parts)
    return found


def embedded(model: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Representations of train and test rows."""
    return model.transform(data.x), model.transform(data.x_test)


def ridge_r2(h: np.ndarray, h_test: np.ndarray, axes: np.ndarray, axes_test: np.ndarray) -> float:
    """R^2 of coordinates, weighted by their variance, predicted by ridge regression from standardized columns."""
    scaler = StandardScaler().fit(h)
    predicted = Ridge(alpha=1.0).fit(scaler.transform(h), axes).predict(scaler.transform(h_test))
    return float(1 - np.square(axes_test - predicted).sum() / np.square(axes_test - axes_test.mean(0)).sum())


def skipped(columns: int = 50) -> dict[str, Any]:
    """Options of the row "skip": so many columns more than learned ones."""
    options = {"appended_pca": columns, "appended_length": 3.0}
    return {"epochs": "auto", "batch_size": 256, "encoder_options": options, "n_components": COLUMNS + columns}


# Steps on images and DNA: the budget of `study_modalities`.
STEPS = 300
PLAIN = {
    **OF_STUDY,
    **sets("text_r8_tfidf2000", "satimage", "gas_drift", "sc_human_kidney"),
    **{name: DataSet(name, wide=True) for name in ("sc_pbmc68k_reduced", "sc_worm_neuron")},
    "cifar10_small": DataSet("cifar10_small", wide=True),
}
FLAT = ("mnist", "fashion_mnist", "cifar10_small")
VECTORS = {name: known for name, known in PLAIN.items() if name not in FLAT}
MODALITIES = {
    **sets("cifar10_small", "fashion_mnist"),
    "mnist": DataSet("mnist", "images", train_rows=10_000),
    **sets("dna_human_core_promoter", "dna_ienhancer2l"),
    **{
        name: DataSet(name, "dna", train_rows=10_000)
        for name in ("dna_arabidopsis_promoter", "dna_4mc_celegans", "dna_4mc_athaliana")
    },
}
COPIED = (
    *(("optdigits", 5), ("satimage", 5), ("letter", 5), ("wisdm_har", 5), ("sc_10x_pbmc", 5)),
    *(("optdigits", 20), ("letter", 20)),
)
# Sets with fewer than 50 features.
NARROW = {"texture": 40, "letter": 16, "wisdm_har": 43, "satimage": 36}
VALIDATED = {
    **{f"{name}, validation": replace(known, prepare=VALIDATION) for name, known in PLAIN.items()},
    **{
        f"{name}, {copies} copies, validation": replace(PLAIN[name], prepare=partial(copied_validation, copies=copies))
        for name, copies in COPIED
    },
}
# Of so few test rows, one is .007; each of the five folds leaves out other train rows.
FOLDS = {
    f"sc_pbmc68k_reduced, fold {k}": replace(PLAIN["sc_pbmc68k_reduced"], prepare=partial(fold, k=k)) for k in range(5)
}
COPIES_5 = {f"{name}, 5 copies": replace(PLAIN[name], prepare=copied) for name, copies in COPIED if copies == COPIES}
FLAT_PIXELS = {f"{name}, flat": PLAIN[name] for name in FLAT}
SETS = {**VECTORS, **COPIES_5, **MODALITIES, **FLAT_PIXELS, **FOLDS, **VALIDATED}
SHORT = {"epochs": "auto"}
# Validation rows are of a time when all batches had 256 rows, as still from 1,000 rows on.
BEFORE = SHORT | {"batch_size": 256}
ROWS: dict[str, Row] = {
    "contrastive": Trained(
        Contrastive, on={name: SHORT for name in SETS if name not in MODALITIES} | dict.fromkeys(VALIDATED, BEFORE)
    ),
    "skip": Trained(Contrastive, skipped(), {name: skipped(columns) for name, columns in NARROW.items()}),
    "further axes": Trained(Contrastive, SHORT | {"encoder_options": {}}),
    "raw": RAW,
    "pca": PCA,
}
# The sets on which it is the default.
FURTHER = (*(name for name, known in VECTORS.items() if known.wide), "sc_10x_pbmc, 5 copies")
# What other studies have of the defaults on test rows: `benchmarks/tables/harm.py`.
FIRST = tuple(OF_STUDY)[:6]
OF_MODALITIES = ("cifar10_small", "fashion_mnist", "dna_human_core_promoter", "dna_ienhancer2l")
ELSEWHERE = {"contrastive": FIRST, "raw": (*FIRST, *OF_MODALITIES, "wisdm_har", "gas_drift", "sc_human_kidney")}
TESTED = (*VECTORS, *MODALITIES, *COPIES_5)
STUDY = Study(
    "do_no_harm",
    SETS,
    ROWS,
    stages=(
        Stage(("raw", "pca"), [name for name in TESTED if name not in ELSEWHERE["raw"]]),
        *(
            Stage(("contrastive",), [name for name in TESTED if name not in ELSEWHERE["contrastive"]], (seed,))
            for seed in SEEDS
        ),
        *(Stage(("further axes",), FURTHER, (seed,)) for seed in SEEDS),
        Stage(("raw", "pca", "further axes"), tuple(FOLDS)),
        Stage(("contrastive", "raw"), tuple(VALIDATED), (0,)),
        Stage(("pca",), tuple(VALIDATED)[:-2], (0,)),
        Stage(("skip",), ("optdigits", "texture", "letter", "sc_10x_pbmc", "mnist, flat", "wisdm_har"), (0,)),
    ),
    budget=Budget(vectors=2000, modalities=STEPS),
    protocols=PROTOCOLS,
    reference=Trained(Contrastive),
    score_more=euclidean,
    extra=more,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
