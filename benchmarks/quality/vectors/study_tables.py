"""The study on mixed tables: weighted categories against plain one-hot, and against what people use today.

Features of a table are the estimators' own (numbers, indicators of gaps, one-hot categories, text axes, parts of
dates), in two units: *weighted*, the default, in which a column counts as one, and *one-hot*, in which each feature is
standardized as if it were a number. Rows without a label are left out, and so are columns that repeat or say the label.
At most 1,000 train and 1,000 test rows, stratified, drawn with seed 0; models are fitted on 80 % of the train rows. All
rows are scored on test rows and, as ``validation_...``, on the other train rows, with which defaults are chosen.
`mixture` is generated, with six known clusters.

    raw, raw one-hot      the features
    raw, double           weighted features whose categories differ by a squared distance of 2 in place of 1, as much as
                          two random rows in a number on average
    pca                   principal axes of raw
    gower + umap          UMAP (32 components) of Gower's distances: range-scaled numbers, categories, dates, text equal
                          or not, columns without a value in one of the rows left out of a pair
    ours                  Contrastive with its defaults, but `STEPS` training steps and layers of 64 features in place
                          of 256, on weighted features
    ours, double          on the weights of "raw, double"
    ours, one-hot         on one-hot features

    export VIEWSMITH_TABLES=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.study_tables [minutes] [set or row ...]
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from benchmarks.common.data import Data
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import SEEDS, Scores, command, score
from viewsmith import Contrastive
from viewsmith.evaluation.baselines import pca
from viewsmith.modalities.tables.columns import Category
from viewsmith.modalities.tables.encoder import TableEncoder, fit_table
from viewsmith.modalities.tables.roles import choose_roles
from viewsmith.modalities.tables.scaling import fit_scaler
from viewsmith.networks.scaling import Scaler

PATH = RESULTS / "study_tables.jsonl"
SMALL: dict[str, Any] = {"hidden": (64,), "n_components": 64}
PROTOCOLS = ("linear_10pct", "linear", "knn", "nmi")
TRAIN, TEST, STEPS = 1000, 1000, 250

#: Label and columns left out of each file.
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mixture": ("cluster", ()),
    "penguins": ("species", ()),
    "titanic": ("alive", ("survived", "class", "who", "adult_male", "embark_town")),
    "german_credit": ("class", ()),
    "adult": ("income", ("fnlwgt", "education_num")),
    "taxis": ("dropoff_borough", ("dropoff_zone",)),
    "diamonds": ("cut", ()),
}


def mixture(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Six clusters in four numbers and four categories; four numbers and four categories of many values are noise."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 6, rows)
    table: dict[str, Any] = {"cluster": cluster}
    for i in range(4):
        table[f"number {i}"] = rng.normal(size=6)[cluster] * 1.5 + rng.normal(size=rows)
        frequent = rng.integers(0, 4 + 2 * i, 6)[cluster]
        other = rng.integers(0, 4 + 2 * i, rows)
        table[f"kind {i}"] = np.char.add("v", np.where(rng.random(rows) < 0.7, frequent, other).astype(str))
        table[f"noise {i}"] = rng.normal(size=rows)
        table[f"noise kind {i}"] = np.char.add("w", rng.integers(0, 20, rows).astype(str))
    frame = pd.DataFrame(table)
    for name in ("number 0", "kind 1", "noise 0", "noise kind 1"):
        frame.loc[rng.random(rows) < 0.1, name] = None
    return frame


@functools.lru_cache(maxsize=1)
def tables(name: str, small: bool = False) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Train rows, their classes, and test rows of a set, without label and left-out columns."""
    label, left_out = SETS[name]
    frame = mixture() if name == "mixture" else pd.read_csv(Path(os.environ["VIEWSMITH_TABLES"]) / f"{name}.csv")
    frame = frame[frame[label].notna()]
    counts = frame[label].value_counts()
    frame = frame[frame[label].isin(counts.index[counts >= 10])]
    y = pd.factorize(frame.pop(label), sort=True)[0]
    frame = frame.drop(columns=list(left_out)).reset_index(drop=True)
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=0)
    limits = (200, 100) if small else (TRAIN, TEST)
    train, test = (
        rows if len(rows) <= limit else train_test_split(rows, train_size=limit, stratify=y[rows], random_state=0)[0]
        for rows, limit in zip((train, test), limits, strict=True)
    )
    return frame.iloc[train], y[train], frame.iloc[test], y[test]


@functools.lru_cache(maxsize=1)
def encoded(name: str, small: bool) -> tuple[TableEncoder, Data, Data]:
    """Encoder, fitted to the train rows; rows to fit on with validation rows, and with test rows."""
    frame, y, later, y_test = tables(name, small)
    fit, rest = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    table = fit_table(frame.iloc[fit], choose_roles(frame.iloc[fit]))
    x, x_rest, x_test = (table.encode(part) for part in (frame.iloc[fit], frame.iloc[rest], later))
    return table, Data(x, y[fit], x_rest, y[rest]), Data(x, y[fit], x_test, y_test)


def in_units(table: TableEncoder, x: np.ndarray, units: str) -> Scaler:
    """The input layer fitted to rows: "weighted", "double", or "one-hot", which is each feature standardized."""
    layer, rows = Scaler(x.shape[1]), torch.from_numpy(np.asarray(x))
    if units == "one-hot":
        layer.fit(rows, "standard")
        return layer
    fit_scaler(layer, rows, "standard", table)
    if units == "double":
        for column, (first, end) in zip(table.columns, table.spans, strict=True):
            if isinstance(column, Category):
                layer.scale[first:end] = 1.0
    return layer


def gower(rows: pd.DataFrame, others: pd.DataFrame, train: pd.DataFrame) -> np.ndarray:
    """Gower's distances (1971) of rows from others, (n, m): the mean over the columns that both rows have."""
    total = np.zeros((len(rows), len(others)), np.float32)
    seen = np.zeros_like(total)
    for name in train.columns:
        numeric = pd.api.types.is_numeric_dtype(train[name]) and not pd.api.types.is_bool_dtype(train[name])
        if numeric:
            spread = float(train[name].max() - train[name].min()) or 1.0
            a, b = (part[name].to_numpy(np.float32) / spread for part in (rows, others))
            both = ~np.isnan(a)[:, None] & ~np.isnan(b)
            apart = np.abs(a[:, None] - b).clip(max=1)
        else:
            codes = pd.factorize(pd.concat([rows[name], others[name]]))[0]
            a, b = codes[: len(rows)], codes[len(rows) :]
            both = (a >= 0)[:, None] & (b >= 0)
            apart = (a[:, None] != b).astype(np.float32)
        total += np.where(both, apart, 0)
        seen += both
    return total / np.maximum(seen, 1)


def gower_umap(name: str, small: bool, seed: int) -> list[np.ndarray]:
    """UMAP of Gower's distances, 32 components: rows to fit on, validation and test rows."""
    from umap import UMAP

    frame, y, later, _ = tables(name, small)
    fit, rest = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    train = frame.iloc[fit]
    model = UMAP(n_components=32, metric="precomputed", random_state=seed)
    h = model.fit_transform(gower(train, train, train))
    return [h, *(model.transform(gower(part, train, train)) for part in (frame.iloc[rest], later))]


def contrastive(name: str, small: bool, seed: int, units: str) -> Callable[[Any], Any]:
    """A fitted model's `transform`."""
    table, data, _ = encoded(name, small)
    layer = in_units(table, data.x, units)

    def scaled(rows: Any) -> np.ndarray:
        with torch.no_grad():
            return layer(torch.from_numpy(np.asarray(rows))).numpy()

    epochs = 2 if small else math.ceil(STEPS / max(1, len(data.x) // 256))
    model = Contrastive(random_state=seed, scaling="none", epochs=epochs, **SMALL).fit(scaled(data.x))
    return lambda rows: model.transform(scaled(rows))


def work(name: str, row: str, seed: int, small: bool) -> Scores:
    """What a cell measures."""
    torch.set_num_threads(1)
    table, held_out, tested = encoded(name, small)
    started = time.process_time()
    parts = held_out.x, held_out.x_test, tested.x_test
    if row == "gower + umap":
        h, *others = gower_umap(name, small, seed)
    else:
        units = next((units for units in ("double", "one-hot") if units in row), "weighted")
        if row.startswith("ours"):
            transform = contrastive(name, small, seed, units)
        else:
            layer = in_units(table, held_out.x, units)
            transform = lambda rows: layer(torch.from_numpy(np.asarray(rows))).numpy()  # noqa: E731
        h, *others = (transform(part) for part in parts)
        if row == "pca":
            others = [pca(h, part)[1] for part in others]
            h = pca(h, h)[0]
    seconds = round(time.process_time() - started, 1)
    known = {"fitted_rows": len(h), "features": held_out.x.shape[1], "columns": len(table.columns)}
    chosen = score(h, others[0], held_out, PROTOCOLS)
    validation = {f"validation_{metric}": value for metric, value in chosen.items()}
    return score(h, others[1], tested, PROTOCOLS) | validation | known | {"cpu_seconds_fit": seconds}


FIXED = ("raw", "raw, double", "raw one-hot", "pca")
DRAWN = ("ours", "ours, double", "ours, one-hot", "gower + umap")


def cells(quick: bool) -> list[Cell]:
    """All cells, seed by seed; a row without randomness with seed 0 alone."""
    names = ("mixture",) if quick else tuple(SETS)
    plan = [(0, name, row) for name in names for row in FIXED]
    plan += [(seed, name, row) for seed in SEEDS[: 1 if quick else None] for name in names for row in DRAWN]
    return [Cell(name, row, seed, partial(work, name, row, seed, quick)) for seed, name, row in plan]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
