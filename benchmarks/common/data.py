"""Data sets of the benchmarks: .npz files in the folder VIEWSMITH_DATA, and how many rows of each are used."""

from __future__ import annotations

import functools
import io
import itertools
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
    """A file and the largest number of its rows that are used; the rows are drawn at random, seed 0.

    Vectors are read as float32 (n, d); images and DNA keep their dtype. `wide`: more than 200 columns. `prepare` is
    applied to the drawn rows.
    """

    file: str
    modality: Literal["vectors", "images", "dna", "series"] = "vectors"
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
    """The named data sets, with the given fields changed."""
    return {name: replace(SETS[name], **changes) for name in names}


def load(dataset: DataSet) -> Data:
    """Read a data set, without the test rows that the file marks as copies of training rows."""
    return _load(dataset, data_folder())


@functools.lru_cache(maxsize=1)
def _load(dataset: DataSet, folder: Path) -> Data:
    with np.load(folder / f"{dataset.file}.npz") as archive:
        x, x_test = (samples(archive, side) for side in ("train", "test"))
        y, y_test = archive["y_train"], archive["y_test"]
        if "test_in_train" in archive.files:
            is_new = archive["test_in_train"] == 0
            x_test, y_test = x_test[is_new], y_test[is_new]
    rng = np.random.default_rng(0)
    x, y = draw_rows(x, y, dataset.train_rows, rng)
    x_test, y_test = draw_rows(x_test, y_test, dataset.test_rows, rng)
    if dataset.modality == "vectors":
        x, x_test = (part.reshape(len(part), -1).astype(np.float32) for part in (x, x_test))
    data = Data(x, y.astype(int), x_test, y_test.astype(int))
    return dataset.prepare(data) if dataset.prepare else data


def samples(archive: Any, side: str) -> np.ndarray:
    """``X_train`` or ``X_test``; or images from ``jpeg_train``, their JPEG files one after another, with offsets."""
    if f"X_{side}" in archive.files:
        found: np.ndarray = archive[f"X_{side}"]
        return found
    from PIL import Image

    whole, offsets = archive[f"jpeg_{side}"].tobytes(), archive[f"offset_{side}"].tolist()
    files = (whole[start:end] for start, end in itertools.pairwise(offsets))
    return np.stack([np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files])


def draw_rows(
    x: np.ndarray, y: np.ndarray, limit: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw `limit` rows without repetition, or return all rows if there are no more."""
    if limit is None or len(x) <= limit:
        return x, y
    index = rng.permutation(len(x))[:limit]
    return x[index], y[index]


def data_folder() -> Path:
    """The folder that the environment variable VIEWSMITH_DATA names."""
    folder = os.environ.get("VIEWSMITH_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set VIEWSMITH_DATA to the folder that holds the data sets (.npz files)")
    return Path(folder)
