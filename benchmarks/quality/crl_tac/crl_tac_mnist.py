"""CRL-TAC's tables 1 and 2: MNIST digits at one of nine places of an 84 x 84 image, and plain MNIST (28 x 28).

All 60,000 training images and 10,000 test images. The place of each digit is drawn once, from a fixed seed. One thread.
Rows:

crl-tac         the defaults of the library (`EPOCHS` epochs), the objective as published (`recurrence_weight=0`, as in
                all rows); on plain MNIST the channel's beta is 1, as in the paper
two threads     on an otherwise idle machine: accuracy after 10 and 20 minutes on two cores (84 x 84)
uniform         a uniform channel, that is SimCLR with uniform crops
untrained       the encoder before training
published head  a head with two layers of widths 200 and 50, instead of the default with one layer of width 128
30 epochs       a longer training

The set "84 x 84, 1,000" has 1,000 training and 1,000 test images. On it the preset "paper-images" is trained for
150 steps with a uniform channel and for 300 with a learned one, with biases (as in the preset) and without them. With
biases it is also trained on all images, for `EPOCHS` epochs.

The encoder output f and the projection h of each row are scored, averaged over P(T|x) ("learned"; for other channels
the average is uniform), over its 8 most probable crops ("top"), over all crops ("uniform"), and, on the large images,
over the 9 crops inside the digit's cell ("oracle"). Probe: logistic regression, C = 1, on standardized ("std") and on
raw features. Further results: the probability of crops that touch the digit ("mass"), the effective number of crops and
the largest probability, means over the test images; the uniformity of h: the mean Gaussian potential exp(-2 d^2) over
all pairs of 5,000 test images; and the median of |cos| over different ones.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.crl_tac.crl_tac_mnist [minutes] [row ...] [--quick]
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import SEEDS, command, score
from viewsmith import CRLTAC
from viewsmith.evaluation.linear import fit_linear
from viewsmith.methods.crl_tac.training import CRLTACMethod

EPOCHS = 12
PUBLISHED = {"recurrence_weight": 0}
HEAD = {"projector_dims": (200, 50)}
OPTIONS: dict[str, dict[str, Any]] = {
    "crl-tac": {},
    "uniform": {"channel": "uniform"},
    "untrained": {"channel": "uniform", "epochs": 1},
    "crl-tac, two threads": {},
    "crl-tac, two threads, 22 epochs": {"epochs": 22},
    "crl-tac, published head": HEAD,
    "uniform, published head": HEAD | {"channel": "uniform"},
    "crl-tac, published head, 30 epochs": HEAD | {"epochs": 30},
}
PRESET = CRLTAC.presets["paper-images"]
# 150 and 300 steps: a uniform channel collapses soon, a learned one starts late, and not in small batches.
PRESET_LENGTH = {"uniform": {"epochs": 10, "batch_size": 64}, "learned": {"epochs": 100}}
PRESET_ROWS = {
    f"preset, {channel}{end}": {**PRESET, **PRESET_LENGTH[channel], "channel": channel, "bias": bias}
    for channel in ("uniform", "learned")
    for bias, end in ((True, ""), (False, ", no biases"))
}
ROWS = OPTIONS | PRESET_ROWS
# Plain MNIST: beta 1, as in the paper.
PLAIN = {"channel_beta": 1.0}
CELL, SIDE = 28, 84
PATH = RESULTS / "crl_tac_mnist.jsonl"


def places(n: int, seed: int) -> np.ndarray:
    """A random cell of the 3 x 3 grid, 0 to 8, for each of n images."""
    return np.random.default_rng(seed).integers(0, 9, n)


def put_on_grid(x: np.ndarray, seed: int) -> np.ndarray:
    """Put images (n, 28, 28) at their `places` in black images (n, 84, 84)."""
    image = np.zeros((len(x), SIDE, SIDE), x.dtype)
    cells = places(len(x), seed)
    for cell in range(9):
        row, column = (CELL * part for part in divmod(cell, 3))
        image[cells == cell, row : row + CELL, column : column + CELL] = x[cells == cell]
    return image


def on_grid(data: Data) -> Data:
    """Put training images at places drawn from seed 0, and test images at places from seed 1."""
    return replace(data, x=put_on_grid(data.x, 0), x_test=put_on_grid(data.x_test, 1))


SETS = {
    "84 x 84": DataSet("mnist", "images", test_rows=None, prepare=on_grid),
    "plain": DataSet("mnist", "images", test_rows=None),
    "84 x 84, 1,000": DataSet("mnist", "images", train_rows=1000, test_rows=1000, prepare=on_grid),
}


def oracle(cells: np.ndarray) -> torch.Tensor:
    """Probabilities of the 289 crops, float32 (n, 289): 1/9 for each crop inside the digit's cell, otherwise 0."""
    offsets = torch.arange(3)
    corner = torch.from_numpy(np.stack(np.divmod(cells, 3), 1)) * (CELL // 4)
    rows, columns = corner[:, :1] + offsets, corner[:, 1:] + offsets
    crops = (17 * rows[:, :, None] + columns[:, None, :]).flatten(1)
    return torch.zeros(len(cells), 289).scatter(1, crops, 1 / 9)


def embeddings(model: CRLTAC, x: np.ndarray, cells: np.ndarray | None, averages: list[str]) -> dict[str, np.ndarray]:
    """f and h of images for each average (with the oracle, if the cells are known), and statistics of the channel."""
    method = model.method_
    assert isinstance(method, CRLTACMethod)
    family = method.channel.family
    oracle_weights = None if cells is None else oracle(cells)
    parts: dict[str, list[torch.Tensor]] = {}
    for start in range(0, len(x), 128):
        block = torch.from_numpy(model.scaled(x[start : start + 128]))
        with torch.no_grad():
            f = family.embed(method.encoder, block)
            z = method.every_projection(block)
            weights = {name: method.channel.inference_weights(block, *AVERAGES[name]) for name in averages}
            if oracle_weights is not None:
                weights["oracle"] = oracle_weights[start : start + 128]
            made = {f"f {name}": (w[:, None] @ f)[:, 0] for name, w in weights.items()}
            made |= {f"h {name}": F.normalize((w[:, None] @ z)[:, 0], dim=1) for name, w in weights.items()}
            p = method.channel.log_p(block).exp()
            touched = F.max_pool2d(block, family.crop, family.stride).flatten(1) > 0
            made |= {"mass": (p * touched).sum(1), "effective": method.channel.effective(block), "largest p": p.amax(1)}
        for name, value in made.items():
            parts.setdefault(name, []).append(value)
    return {name: torch.cat(part).numpy() for name, part in parts.items()}


AVERAGES: dict[str, tuple[Any, ...]] = {"learned": ("expectation",), "top": ("top", 8), "uniform": ("uniform",)}


def measure(name: str, row: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Train a row and score it."""
    dataset, options = SETS[name], ROWS[row]
    if name == "plain":
        options = options | PLAIN
    if name == "84 x 84" and row in PRESET_ROWS:
        options = options | {"batch_size": PRESET["batch_size"], "epochs": EPOCHS}
    if quick:
        dataset, options = replace(dataset, train_rows=16, test_rows=12), options | {"epochs": 1}
    data = load(dataset)
    torch.set_num_threads(2 if "two threads" in row and not quick else 1)
    started = time.perf_counter()
    model = CRLTAC(**{"epochs": EPOCHS, "random_state": seed} | PUBLISHED | options)
    if row == "untrained":
        model = model.fit(data.x[:512]).untrained(data.x[:512])
    else:
        model.fit(data.x)
    seconds = time.perf_counter() - started
    averages = ["uniform"] if options.get("channel") == "uniform" else ["learned", "top", "uniform"]
    cells, cells_test = (
        None if name == "plain" else places(len(y), seed) for seed, y in enumerate((data.y, data.y_test))
    )
    train, test = embeddings(model, data.x, cells, averages), embeddings(model, data.x_test, cells_test, averages)
    found: dict[str, Any] = {"seconds_fit": round(seconds, 1), "epochs": model.epochs}
    for key in train:
        if key[:2] in ("f ", "h "):
            found[f"{key} std"] = score(train[key], test[key], data, ["linear"])["linear"]
            if key[2:] in ("learned", "uniform"):
                found[f"{key} raw"] = round(probe(train[key], test[key], data), 4)
        else:
            found[key] = round(float(test[key].mean()), 4)
    h = torch.from_numpy(test[f"h {averages[0]}"][:5000])
    found["uniformity"] = round(float(torch.exp(-2 * torch.cdist(h, h).square()).mean()), 4)
    found["cosine"] = round(float((h @ h.T)[torch.ones(len(h), len(h)).triu(1) > 0].abs().median()), 4)
    return found


def probe(h: np.ndarray, h_test: np.ndarray, data: Data) -> float:
    """Accuracy of logistic regression on unscaled features."""
    classes, codes = np.unique(data.y, return_inverse=True)
    with warnings.catch_warnings(action="ignore"):
        model = fit_linear(h, codes, len(classes), loss="logistic")
    return float((classes[model.predict(h_test)] == data.y_test).mean())


def cells(quick: bool = False) -> list[Cell]:
    """The preset on few images with three seeds: minutes for a cell; all rows on all images with seed 0, the defaults
    and the uniform channel with three seeds: 8 to 20 minutes for a cell."""
    on_grid_alone = ("crl-tac, two threads", "crl-tac, two threads, 22 epochs", "uniform, published head")
    whole = ("84 x 84", "plain")
    keys = [("84 x 84, 1,000", row, seed) for row in PRESET_ROWS for seed in SEEDS]
    keys += [(name, row, 0) for row in OPTIONS for name in whole if name != "plain" or row not in on_grid_alone]
    keys += [(name, row, seed) for seed in SEEDS[1:] for name in whole for row in ("crl-tac", "uniform")]
    keys += [("84 x 84", f"preset, {channel}", seed) for channel in PRESET_LENGTH for seed in SEEDS]
    return [
        Cell(f"mnist {name}", row, seed, partial(measure, name, row, seed, quick=quick)) for name, row, seed in keys
    ]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
