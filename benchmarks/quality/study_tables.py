"""The study on mixed tables: weighted categories against plain one-hot, and against what people use today.

Features of a table are the estimators' own (numbers, indicators of gaps, one-hot categories, text axes, parts of
dates), in two units: *weighted*, the default, in which a column counts as one, and *one-hot*, in which each feature is
standardized as if it were a number. Rows without a label are left out, and so are columns that repeat or say the label.
At most 2,000 train and 1,000 test rows, stratified, drawn with seed 0. `mixture` is generated, with six known clusters.

    raw, raw one-hot      the features
    pca                   principal axes of raw
    gower + umap          UMAP (32 components) of Gower's distances: range-scaled numbers, categories, dates, text equal
                          or not, columns without a value in one of the rows left out of a pair
    umap                  the same of raw
    one-hot, ours         Contrastive with its defaults, on one-hot and on weighted features
    ours, corruption      the same with views that swap columns instead of neighbors

    VIEWSMITH_TABLES=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_tables [minutes] [set or row ...]
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
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
from viewsmith.domains.tables.encoder import TableEncoder, fit_table
from viewsmith.domains.tables.roles import choose_roles
from viewsmith.domains.tables.weights import fit_scaler
from viewsmith.estimators import Contrastive
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.networks.inputs.scaling import Scaler

PATH = RESULTS / "study_tables.jsonl"
PROTOCOLS = ("linear_10pct", "linear", "knn", "nmi")
TRAIN, TEST = 2000, 1000

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


def encoded(name: str, small: bool) -> tuple[TableEncoder, Data]:
    """Encoder, fitted to the train rows, and rows as it makes them."""
    frame, y, later, y_test = tables(name, small)
    table = fit_table(frame, choose_roles(frame))
    return table, Data(table.encode(frame), y, table.encode(later), y_test)


def in_units(table: TableEncoder, data: Data, weighted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features: weighted, or each standardized."""
    layer, rows = Scaler(data.x.shape[1]), torch.from_numpy(np.asarray(data.x))
    if weighted:
        fit_scaler(layer, rows, "standard", table)
    else:
        layer.fit(rows, "standard")
    with torch.no_grad():
        return layer(rows).numpy(), layer(torch.from_numpy(np.asarray(data.x_test))).numpy()


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


def gower_umap(name: str, small: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """UMAP of Gower's distances, 32 components."""
    from umap import UMAP

    frame, _, later, _ = tables(name, small)
    model = UMAP(n_components=32, metric="precomputed", random_state=seed)
    h = model.fit_transform(gower(frame, frame, frame))
    return h, model.transform(gower(later, frame, frame))


def contrastive(name: str, small: bool, seed: int, weighted: bool, **options: Any) -> Callable[[Any], Any]:
    """A fitted model's `transform`."""
    _, data = encoded(name, small)
    options |= {"epochs": 2} if small else {}
    model = Contrastive(random_state=seed, **options)
    if weighted:
        return model.fit(data.x).transform
    plain = model.fit(np.asarray(data.x))
    return lambda rows: plain.transform(np.asarray(rows))


def work(name: str, row: str, seed: int, small: bool) -> Scores:
    """What a cell measures."""
    torch.set_num_threads(1)
    table, data = encoded(name, small)
    started = time.process_time()
    if row in ("ours", "one-hot", "ours, corruption"):
        options = {"view_maker": "corruption"} if "corruption" in row else {}
        transform = contrastive(name, small, seed, row != "one-hot", **options)
        h, h_test = transform(data.x), transform(data.x_test)
    elif row == "gower + umap":
        h, h_test = gower_umap(name, small, seed)
    else:
        h, h_test = in_units(table, data, row != "raw one-hot")
        if row == "pca":
            h, h_test = pca(h, h_test)
        elif row == "umap":
            h, h_test = umap(h, h_test, seed=seed)
    seconds = round(time.process_time() - started, 1)
    known = {"train_rows": len(data.x), "features": data.x.shape[1], "columns": len(table.columns)}
    return score(h, h_test, data, PROTOCOLS) | known | {"cpu_seconds_fit": seconds}


FIXED = ("raw", "raw one-hot", "pca")
DRAWN = ("ours", "one-hot", "gower + umap", "umap")


def cells(quick: bool) -> list[Cell]:
    """All cells, seed by seed; a row without randomness with seed 0 alone."""
    plan: list[tuple[int, Sequence[str]]] = [(SEEDS[0], (*FIXED, *DRAWN))]
    plan += [(seed, DRAWN) for seed in SEEDS[1:]]
    plan += [(seed, ("ours, corruption",)) for seed in SEEDS]
    found = [
        Cell(name, row, seed, partial(work, name, row, seed, quick))
        for seed, rows in plan
        for name in SETS
        for row in rows
    ]
    return found if not quick else [cell for cell in found if cell.seed == SEEDS[0] and cell.dataset == "mixture"]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
