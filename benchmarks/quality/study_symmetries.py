"""Mirrored images, reverse complements and reversed recordings on and off, against what the test chooses.

on, off   the default views of the modality with the rate .5 or 0 of the mirror (images), of the other strand (DNA) or
          of time reversal (series)
auto      the rate that the default chooses from the train rows of the cell, and the CPU seconds of the test; its scores
          are those of the row on or off with the same seed, for the same settings give the same model
no gray   of sets in color: the row on without gray views
cost      CPU seconds of a whole default fit, whose steps are the default's, and of the test within it

All other rows of a set train `STEPS` steps with batches of 256 on the same 3,000 train rows, with the default encoder
for CPUs; probes on at most 2,000 test rows. Labels are read by probes alone. The sets signs (hands), smiles (faces),
omniglot (characters), letters and the series are written by `benchmarks.common.prepare_sets`.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_symmetries [minutes] [set ...]
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from benchmarks.common.data import SETS as KNOWN
from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.prepare_sets import SERIES
from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.suite import SEEDS, command, rounded
from viewsmith import Contrastive
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.evaluation.symmetries import symmetries
from viewsmith.modalities import modality_of
from viewsmith.modalities.base import Transformation

STEPS = 300
ROWS, TEST_ROWS = 3000, 2000
_NEW = (
    DataSet("mnist", "images"),
    DataSet("dna_4mc_celegans", "dna"),
    DataSet("dna_4mc_athaliana", "dna"),
    *(DataSet(name, "images") for name in ("signs", "smiles", "omniglot", "letters")),
    *(DataSet(name, "series") for name in SERIES),
)
SETS = {
    known.file: replace(known, train_rows=ROWS, test_rows=TEST_ROWS)
    for known in (*KNOWN.values(), *_NEW)
    if known.modality != "vectors"
}
OPTIONS = {
    "images": ("flip", "mirror"),
    "dna": ("strand", "reverse-complement"),
    "series": ("time_reversal", "time-reversal"),
}
COLOR = ("cifar10_small", "signs")
PROTOCOLS = ("linear", "knn", "linear_1pct")
PATH = RESULTS / "study_symmetries.jsonl"


@lru_cache(maxsize=1)
def digits() -> Data:
    """The digits of scikit-learn, 8 x 8, two thirds of them for training."""
    x, y = load_digits(return_X_y=True)
    x = np.round(x * 255 / 16).astype(np.uint8).reshape(-1, 8, 8)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1200], order[1200:]
    return Data(x[train], y[train], x[test], y[test])


def measure(name: str, row: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Scores of a model with the transformation on or off; or the choice."""
    torch.set_num_threads(1)
    data, modality = (digits(), "images") if name == "digits" else (load(SETS[name]), SETS[name].modality)
    option, transformation = OPTIONS[modality]
    if row == "cost":
        return cost(data, modality, transformation)
    if row == "auto":
        began = time.process_time()
        (test,) = symmetries(data.x, modality, known(data, modality, transformation), seed=seed)
        seconds = time.process_time() - began
        return rounded(
            {"told_apart": test.told_apart, "distance_ratio": test.ratio, "on": test.on_the_data, "seconds": seconds}
        )
    epochs = 1 if quick else math.ceil(STEPS / max(1, len(data.x) // 256))
    given: dict[str, Any] = {option: 0.0 if row == "off" else 0.5}
    if modality == "series":
        given = {"view_options": given, "modality": modality}
    elif row == "no gray":
        given["view_options"] = {"gray": 0.0}
    began = time.perf_counter()
    model = Contrastive(epochs=epochs, batch_size=256, random_state=seed, device="cpu", **given).fit(data.x)
    seconds = time.perf_counter() - began
    h, h_test = model.transform(data.x), model.transform(data.x_test)
    scores = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=PROTOCOLS)
    return rounded({**scores, "seconds": seconds})


def known(data: Data, modality: str, name: str) -> dict[str, Transformation]:
    """A transformation of the modality, by its name."""
    return {name: modality_of(modality).transformations(data.x.shape[1:])[name]}


def cost(data: Data, modality: str, transformation: str) -> dict[str, float]:
    """CPU seconds of a default fit with the test, and of the same test by itself."""
    began = time.process_time()
    model = Contrastive(random_state=0, device="cpu", modality=modality).fit(data.x)
    fitted = time.process_time()
    symmetries(data.x, modality, known(data, modality, transformation), seed=0)
    test, fit = time.process_time() - fitted, fitted - began
    return rounded({"steps": model.summary_["steps"], "seconds_fit": fit, "seconds_test": test, "share": test / fit})


def cells(quick: bool = False) -> list[Cell]:
    """All cells, one seed after another."""

    def cell(name: str, row: str, seed: int) -> Cell:
        return Cell(name, row, seed, lambda: measure(name, row, seed, quick=quick))

    return [
        cell(name, row, seed)
        for seed in SEEDS[: 1 if quick else None]
        for name in (("digits",) if quick else (*SETS, "digits"))
        for row in ("auto", "on", "off", *["no gray"] * (name in COLOR), *["cost"] * (seed == 0))
    ]


def table() -> str:
    """Means over seeds: both rows, the choice, and how far it is below the better row."""
    found = rows(PATH)
    lines = [
        "| set | told apart | distance ratio | auto | linear on / off | kNN on / off | 1 % on / off | linear lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (*SETS, "digits"):
        mine = [row for row in found if row["dataset"] == name and "error" not in row]
        mean = {
            (row, key): float(np.mean([cell[key] for cell in mine if cell["method"] == row]))
            for row, keys in (("auto", ("told_apart", "distance_ratio", "on")), ("on", PROTOCOLS), ("off", PROTOCOLS))
            for key in keys
        }
        chosen = "on" if mean["auto", "on"] > 0.5 else "off"
        pairs = [f"{mean['on', key]:.3f} / {mean['off', key]:.3f}" for key in PROTOCOLS]
        below = max(mean["on", "linear"], mean["off", "linear"]) - mean[chosen, "linear"]
        test = [f"{mean['auto', 'told_apart']:.2f}", f"{mean['auto', 'distance_ratio']:.2f}", chosen]
        lines.append("| " + " | ".join([name, *test, *pairs, f"{below:.3f}"]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
