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

Raman spectra of saliva (MIND-Lab/Raman-Spectra-Data in VIEWSMITH_DATA/raman), eight of each patient: "saliva, covid"
(101 patients: COV+, COV-, CTRL) and "saliva, neurology" (70: PD, AD, CTRL), five folds by patient. Also "baseline, snv,
pca": less a baseline by asymmetric least squares (Eilers and Boelens 2005; 1e5, 0.01), 20 components.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.spectra [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solveh_banded
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold
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
#: Folders of patients, and how many spectra of each patient are taken, every third one.
SALIVA, EACH = {"saliva, covid": "covid_dataset", "saliva, neurology": "pd_ad_dataset"}, 8
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
OF_SALIVA = ("values", "pca", "snv", "snv, first derivatives", "baseline, snv, pca", "spectra")


@lru_cache(maxsize=1)
def saliva(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spectra (n, points) at 900 points that all have, kinds, and numbers of patients."""
    folders = sorted(path for path in (data_folder() / "raman" / SALIVA[name]).iterdir() if path.is_dir())
    axes = [np.loadtxt(path / "raman_shift.csv", delimiter=",").ravel() for path in folders]
    points = np.linspace(max(a.min() for a in axes), min(a.max() for a in axes), 900)
    x, kinds, patients = [], [], []
    for number, (path, axis) in enumerate(zip(folders, axes, strict=True)):
        found = np.loadtxt(path / "spectra.csv", delimiter=",", ndmin=2)[::3][:EACH]
        x += [np.interp(points, axis, row) for row in found]
        kinds += [pd.read_csv(path / "user_information.csv")["category"][0]] * len(found)
        patients += [number] * len(found)
    return np.stack(x).astype(np.float32), np.unique(kinds, return_inverse=True)[1], np.array(patients)


def without_baseline(x: np.ndarray, stiffness: float = 1e5, above: float = 0.01, rounds: int = 10) -> np.ndarray:
    """Spectra (n, points) less smooth lines below them, by asymmetric least squares."""
    second = np.diff(np.eye(x.shape[1]), 2, axis=0)
    smooth = stiffness * second.T @ second
    bands = np.zeros((3, x.shape[1]))
    for k in range(3):
        bands[2 - k, k:] = np.diagonal(smooth, k)
    corrected = []
    for row in x.astype(np.float64):
        weight = np.ones(len(row))
        for _ in range(rounds):
            line = solveh_banded(bands + [[0], [0], [1]] * weight, weight * row)
            weight = np.where(row > line, above, 1 - above)
        corrected.append(row - line)
    return np.stack(corrected).astype(np.float32)


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
    if row == "baseline, snv, pca":
        both = representation("snv", without_baseline(train), without_baseline(test))
        pca = PCA(20, random_state=0).fit(both[0])
        return pca.transform(both[0]), pca.transform(both[1])
    names = {"values": "values", "snv": "standard normal variates"}
    name = names.get(row, "first derivatives of these")
    train, test = (modality_of("spectra").raw_features(x[:, None], None)[name] for x in (train, test))
    return train, test


def work(name: str, row: str, fold: int, small: tuple[np.ndarray, np.ndarray] | None = None) -> dict[str, Any]:
    """The results of a cell."""
    x, y, *groups = saliva(name) if name in SALIVA else table(name) if small is None else small
    kind = KFold if name in NUMBERS else StratifiedGroupKFold if groups else StratifiedKFold
    train, test = list(kind(FOLDS, shuffle=True, random_state=0).split(x, y, *groups))[fold]
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
    ] + [
        Cell(name, row, fold, partial(work, name, row, fold))
        for name in SALIVA
        for row in OF_SALIVA
        for fold in range(FOLDS)
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "spectra.jsonl", cells)
