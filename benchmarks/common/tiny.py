"""Tiny data sets with the names and forms of the real ones, for `--quick`: a script is tested without their folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from viewsmith.modalities.vectors.counts import log_normalize

#: Train rows, test rows, classes.
ROWS, TEST, CLASSES = 120, 40, 4
WIDTHS = {
    "optdigits": 64,
    "texture": 40,
    "letter": 16,
    "satimage": 36,
    "wisdm_har": 43,
    "gas_drift": 128,
    **dict.fromkeys(("sc_citeseq_cbmc", "sc_10x_pbmc", "sc_human_kidney", "sc_pbmc68k_reduced", "sc_worm_neuron"), 220),
    **dict.fromkeys(("text_20news_tfidf2000", "text_r8_tfidf2000"), 220),
}
IMAGES = {
    **dict.fromkeys(("mnist", "fashion_mnist"), (28, 28)),
    **dict.fromkeys(("cifar10", "cifar10_small"), (32, 32, 3)),
}
LENGTHS = {
    **dict.fromkeys(("dna_human_core_promoter", "dna_4mc_celegans", "dna_4mc_athaliana"), 40),
    "dna_ienhancer2l": 60,
    "dna_arabidopsis_promoter": 251,
}
#: Groups of rows, as in the real files.
GROUPS = {"wisdm_har": ("subject", 10), "gas_drift": ("batch", 10)}


def write(folder: Path) -> None:
    """Write all sets: classes are clusters of vectors, bright squares, or motifs."""
    rng, y = np.random.default_rng(0), np.arange(ROWS + TEST) % CLASSES
    for name, width in WIDTHS.items():
        centers = rng.normal(size=(CLASSES, width)) * 2
        x = centers[y] + rng.normal(size=(len(y), width))
        if name.startswith("sc_"):
            x = log_normalize(rng.poisson(np.exp(x / 2 - 1)))
        _save(folder, name, np.maximum(x, 0) if name.startswith("text_") else x, y)
    for name, shape in IMAGES.items():
        x = rng.integers(0, 100, (len(y), *shape))
        for image, label in zip(x, y, strict=True):
            top, left = 4 + 10 * (label // 2), 4 + 10 * (label % 2)
            image[top : top + 10, left : left + 10] += 150
        # The border is black, as that of digits.
        x[:, :4], x[:, -4:], x[:, :, :4], x[:, :, -4:] = 0, 0, 0, 0
        _save(folder, name, x.astype(np.uint8), y)
    motifs = np.frombuffer(b"TATAGGGGACACCCTT", np.uint8).reshape(CLASSES, 4)
    for name, length in LENGTHS.items():
        x = rng.choice(np.frombuffer(b"ACGT", np.uint8), (len(y), length))
        x[:, 5:9] = motifs[y]
        _save(folder, name, x, y)


def _save(folder: Path, name: str, x: np.ndarray, y: np.ndarray) -> None:
    x = x if x.dtype == np.uint8 else x.astype(np.float32)
    columns = {"X": x, "y": y}
    if name in GROUPS:
        group, count = GROUPS[name]
        columns[group] = 1 + np.arange(len(y)) * count // len(y)
    parts = {f"{key}_train": value[:ROWS] for key, value in columns.items()}
    np.savez(folder / f"{name}.npz", **parts, **{f"{key}_test": value[ROWS:] for key, value in columns.items()})


@contextlib.contextmanager
def tiny_data(wanted: bool = True) -> Iterator[None]:
    """Context in which VIEWSMITH_DATA is a folder of tiny sets, if `wanted`."""
    if not wanted:
        yield
        return
    before = os.environ.get("VIEWSMITH_DATA")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        os.environ["VIEWSMITH_DATA"] = folder
        try:
            yield
        finally:
            os.environ.pop("VIEWSMITH_DATA")
            if before is not None:
                os.environ["VIEWSMITH_DATA"] = before
