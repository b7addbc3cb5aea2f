"""Data sets of the benchmarks: .npz files in the folder that VIEWSMITH_DATA names, and what is used of each."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Data:
    """Train rows x (n, ...) with classes y (n,), and test rows."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class DataSet:
    """A file and what is used of it: more rows than the limits are dropped at random, seed 0.

    Vectors are read as float32 (n, d), images and DNA as they are stored. `wide`: more than 200 columns. `prepare`
    changes the limited rows.
    """

    file: str
    domain: Literal["vectors", "images", "dna"] = "vectors"
    train_rows: int | None = None
    test_rows: int | None = 5000
    wide: bool = False
    prepare: Callable[[Data], Data] | None = None


SETS = {
    known.file: known
    for known in (
        DataSet("optdigits"),
        DataSet("texture"),
        DataSet("letter", train_rows=10_000),
        DataSet("satimage"),
        DataSet("wisdm_har"),
        DataSet("gas_drift"),
        DataSet("sc_citeseq_cbmc", wide=True),
        DataSet("sc_10x_pbmc", wide=True),
        DataSet("sc_human_kidney", wide=True),
        DataSet("text_20news_tfidf2000", train_rows=8000, wide=True),
        DataSet("text_r8_tfidf2000", wide=True),
        DataSet("cifar10_small", "images"),
        DataSet("fashion_mnist", "images", train_rows=10_000),
        DataSet("dna_human_core_promoter", "dna"),
        DataSet("dna_ienhancer2l", "dna"),
        DataSet("dna_arabidopsis_promoter", "dna"),
    )
}


def sets(*names: str, **changes: Any) -> dict[str, DataSet]:
    """Data sets by name, with these fields changed."""
    return {name: replace(SETS[name], **changes) for name in names}


@functools.lru_cache(maxsize=1)
def load(dataset: DataSet) -> Data:
    """Rows of a data set; test rows with a copy in train, where the file marks them, are left out."""
    with np.load(data_folder() / f"{dataset.file}.npz") as archive:
        x, y, x_test, y_test = (archive[key] for key in ("X_train", "y_train", "X_test", "y_test"))
        if "test_in_train" in archive.files:
            clean = archive["test_in_train"] == 0
            x_test, y_test = x_test[clean], y_test[clean]
    order = np.random.default_rng(0)
    x, y = limited(x, y, dataset.train_rows, order)
    x_test, y_test = limited(x_test, y_test, dataset.test_rows, order)
    if dataset.domain == "vectors":
        x, x_test = (part.reshape(len(part), -1).astype(np.float32) for part in (x, x_test))
    data = Data(x, y.astype(int), x_test, y_test.astype(int))
    return dataset.prepare(data) if dataset.prepare else data


def limited(
    x: np.ndarray, y: np.ndarray, limit: int | None, order: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """At most `limit` rows, drawn without repetition."""
    if limit is None or len(x) <= limit:
        return x, y
    index = order.permutation(len(x))[:limit]
    return x[index], y[index]


def data_folder() -> Path:
    """The folder that VIEWSMITH_DATA names."""
    folder = os.environ.get("VIEWSMITH_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set VIEWSMITH_DATA to the folder that holds the data sets (.npz files)")
    return Path(folder)
