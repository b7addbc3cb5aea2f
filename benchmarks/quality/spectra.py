"""Spectra: the closed form beside what chemists take, and beside a table of the same columns.

Sets (nevernervous78/nirpyresearch, near-infrared of 600 points, which do not lie with the data: VIEWSMITH_DATA/spectra
has the files): coffee_classification.csv (70 spectra, seven kinds), milk-powder.csv (220 of eleven mixtures), milk.csv
(450 of nine mixtures), and numbers: peach_spectra_brix.csv (50), NIRplums_brix_firmness.csv (40, Brix) and
Incombustible_Material_NIR.csv (62). Five folds; spectra of one sample may be on both sides. Rows: "values", "pca" (20
components of standardized values), "snv" (standard normal variate), "snv, first derivatives" (Savitzky-Golay, 11
points), "minirocket" (`LinearContrast` for recordings), "table" (`Contrastive` on the columns, the default of a
table), "spectra" (the default of --modality spectra). Of a training, two folds each: "contrastive", "pinda", "pinda,
uniform", "diffaug", "metaug", "crl-tac". The strengths of views were set while coffee, milk powder, coal and plums were
looked at, the constant column and the widest window while all were: none is held out for these.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.spectra [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.common.data import data_folder
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.linear_contrast import usage
from benchmarks.quality.suite import command
from viewsmith import CRLTAC, Contrastive, DiffAug, LinearContrast, MetAug, PiNDA
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.modalities import modality_of

FOLDS = 5
#: Files, and the columns of the labels and of the first point.
FILES = {
    "coffee": ("coffee_classification.csv", 0, 1),
    "milk powder": ("milk-powder.csv", 1, 2),
    "milk": ("milk.csv", 1, 2),
    "peaches": ("peach_spectra_brix.csv", 0, 1),
    "plums": ("NIRplums_brix_firmness.csv", 1, 3),
    "coal": ("Incombustible_Material_NIR.csv", 1, 2),
}
NUMBERS = ("peaches", "plums", "coal")
#: Methods that train a network, seed 0.
TRAINED = {
    "contrastive": Contrastive,
    "pinda": PiNDA,
    "pinda, uniform": partial(PiNDA, distribution="uniform"),
    "diffaug": DiffAug,
    "metaug": MetAug,
    "crl-tac": CRLTAC,
}
ROWS = ("values", "pca", "snv", "snv, first derivatives", "minirocket", "table", "spectra")


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Spectra (n, points), and their kinds or numbers."""
    file, label, first = FILES[name]
    frame = pd.read_csv(data_folder() / "spectra" / file)
    y = frame.iloc[:, label].to_numpy()
    return frame.iloc[:, first:].to_numpy(np.float32), y if name in NUMBERS else np.unique(y, return_inverse=True)[1]


def representation(row: str, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a row makes of train and test spectra; everything is fitted to the former."""
    if row == "pca":
        scaler = StandardScaler().fit(train)
        pca = PCA(20, random_state=0).fit(scaler.transform(train))
        return pca.transform(scaler.transform(train)), pca.transform(scaler.transform(test))
    if row in ("minirocket", "table", "spectra"):
        x, x_test = (train[:, None], test[:, None]) if row == "minirocket" else (train, test)
        model = (
            Contrastive(random_state=0)
            if row == "table"
            else LinearContrast(modality="spectra" if row == "spectra" else "series", random_state=0)
        ).fit(x)
        return model.transform(x), model.transform(x_test)
    if row in TRAINED:
        model = TRAINED[row](modality="spectra", random_state=0).fit(train)
        return model.transform(train), model.transform(test)
    names = {"values": "values", "snv": "standard normal variates"}
    name = names.get(row, "first derivatives of these")
    train, test = (modality_of("spectra").raw_features(x[:, None], None)[name] for x in (train, test))
    return train, test


def work(name: str, row: str, fold: int, small: tuple[np.ndarray, np.ndarray] | None = None) -> dict[str, Any]:
    """The results of a cell."""
    x, y = table(name) if small is None else small
    kind = KFold if name in NUMBERS else StratifiedKFold
    train, test = list(kind(FOLDS, shuffle=True, random_state=0).split(x, y))[fold]
    started = usage()[0]
    h, h_test = representation(row, x[train], x[test])
    seconds = usage()[0] - started
    protocols = ("r2", "knn_r2") if name in NUMBERS else ("linear", "knn")
    scores = evaluate_embedding(h, y[train], h_test, y[test], protocols=protocols)
    return {metric: round(value, 4) for metric, value in scores.items()} | {
        "cpu_seconds": round(seconds, 1),
        "columns": h.shape[1],
    }


def cells(quick: bool = False) -> list[Cell]:
    """All cells; with `quick` of 40 spectra of two kinds."""
    if quick:
        random = np.random.default_rng(0)
        y = np.arange(40) % 2
        x = np.sin(np.linspace(0, 9, 60) + y[:, None]) + random.normal(0, 0.1, (40, 60))
        small = (x.astype(np.float32), y)
        return [Cell("coffee", row, 0, partial(work, "coffee", row, 0, small)) for row in ("values", "spectra")]
    return [
        Cell(name, row, fold, partial(work, name, row, fold))
        for name in FILES
        for row in (*ROWS, *TRAINED)
        for fold in range(2 if row in TRAINED else FOLDS)
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "spectra.jsonl", cells)
