"""CRL-TAC's tables 1 and 2: MNIST digits at one of nine places of an 84 x 84 image, and MNIST as it is.

All 60,000 training images and 10,000 test images. A digit's place is drawn once, from seed 0. One thread. Rows:

crl-tac         the library's defaults (`EPOCHS` epochs); on plain MNIST the channel's beta is 1, as in the paper
two threads     on a machine that does nothing else: what 10 and 20 minutes on two cores give (84 x 84)
uniform         a uniform channel: SimCLR with uniform crops
untrained       before training
published head  the head of two layers, 200 and 50 wide, for the default's one layer of 128
30 epochs       for longer
low beta        the encoder's beta as in the paper as well (0.5, and 1 on plain MNIST)

Each is scored as encoder output f and as projection h, averaged over P(T|x) ("learned"; uniform for the others), its 8
most probable crops ("top"), all crops ("uniform"), and, on the large images, the 9 crops that lie in the digit's cell
("oracle"). Probe: logistic regression, C = 1, on standardized ("std") and on raw features. Also the mass of P(T|x) on
crops that touch the digit, the effective number of crops and the largest probability, means over the test images, and
the uniformity of h (mean Gaussian potential exp(-2 d^2), all pairs of 5,000 test images).

    VIEWSMITH_DATA=folder python crl_tac_mnist.py [minutes] [row ...]
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from runner import RESULTS, Cell, data_folder, run

from viewsmith.estimators import CRLTAC
from viewsmith.evaluation.linear import fit_linear
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.methods.crl_tac import CRLTACMethod

EPOCHS = 12
HEAD = {"projection": (200, 50)}
OPTIONS: dict[str, dict[str, Any]] = {
    "crl-tac": {},
    "uniform": {"channel": "uniform"},
    "untrained": {"channel": "uniform", "epochs": 1},
    "crl-tac, two threads": {},
    "crl-tac, two threads, 22 epochs": {"epochs": 22},
    "crl-tac, published head": HEAD,
    "uniform, published head": HEAD | {"channel": "uniform"},
    "crl-tac, published head, 30 epochs": HEAD | {"epochs": 30},
    "crl-tac, low beta": {"beta": 0.5},
}
# Beta 1 where the paper has it.
PLAIN = {"channel_beta": 1.0}
SEEDS = (0, 1, 2)
CELL, SIDE = 28, 84
PATH = RESULTS / "crl_tac_mnist.jsonl"

Data = dict[str, np.ndarray]


def placed(x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) on one of the nine cells of black images (n, 84, 84), and the cells, 0 to 8."""
    cells = np.random.default_rng(seed).integers(0, 9, len(x))
    image = np.zeros((len(x), SIDE, SIDE), x.dtype)
    for cell in range(9):
        row, column = (CELL * part for part in divmod(cell, 3))
        image[cells == cell, row : row + CELL, column : column + CELL] = x[cells == cell]
    return image, cells


def oracle(cells: np.ndarray) -> torch.Tensor:
    """Shares of the 289 crops: the nine inside each digit's cell alike, float32 (n, 289)."""
    offsets = torch.arange(3)
    corner = torch.from_numpy(np.stack(np.divmod(cells, 3), 1)) * (CELL // 4)
    rows, columns = corner[:, :1] + offsets, corner[:, 1:] + offsets
    crops = (17 * rows[:, :, None] + columns[:, None, :]).flatten(1)
    return torch.zeros(len(cells), 289).scatter(1, crops, 1 / 9)


@functools.lru_cache(maxsize=1)
def data_of(name: str, dataset: str = "mnist") -> Data:
    with np.load(data_folder() / f"{dataset}.npz") as archive:
        raw = {key.lower().removesuffix("_train"): archive[key] for key in ("X_train", "y_train", "X_test", "y_test")}
    if name == "plain":
        return raw
    x, cells = placed(raw["x"].reshape(-1, CELL, CELL), 0)
    x_test, cells_test = placed(raw["x_test"].reshape(-1, CELL, CELL), 1)
    return {**raw, "x": x, "x_test": x_test, "cells": cells, "cells_test": cells_test}


def embeddings(model: CRLTAC, x: np.ndarray, cells: np.ndarray | None, columns: list[str]) -> dict[str, Any]:
    """f and h by way of averaging, and what the channel does, of images."""
    method = model.method_
    assert isinstance(method, CRLTACMethod)
    family, found = method.channel.family, {}
    truth = None if cells is None else oracle(cells)
    parts: dict[str, list[torch.Tensor]] = {}
    for start in range(0, len(x), 128):
        block = torch.from_numpy(model.scaled(x[start : start + 128]))
        with torch.no_grad():
            f = family.embed(method.encoder, block)
            z = method.every_projection(block, f)
            shares = {name: method.channel.shares(block, *HOW[name]) for name in columns if name != "oracle"}
            if truth is not None and "oracle" in columns:
                shares["oracle"] = truth[start : start + 128]
            made = {f"f {name}": (share[:, None] @ f)[:, 0] for name, share in shares.items()}
            made |= {f"h {name}": F.normalize((share[:, None] @ z)[:, 0], dim=1) for name, share in shares.items()}
            p = method.channel.log_p(block).exp()
            touched = F.max_pool2d(block, family.crop, family.stride).flatten(1) > 0
            made |= {"mass": (p * touched).sum(1), "effective": method.channel.effective(block), "largest p": p.amax(1)}
        for name, value in made.items():
            parts.setdefault(name, []).append(value)
    found = {name: torch.cat(part).numpy() for name, part in parts.items()}
    return found


HOW: dict[str, tuple[Any, ...]] = {"learned": ("expectation",), "top": ("top", 8), "uniform": ("uniform",)}


def score(name: str, row: str, data: Data, seed: int) -> dict[str, Any]:
    options = OPTIONS[row]
    if name == "plain":
        options = options | PLAIN | ({"beta": 1.0} if "low beta" in row else {})
    torch.set_num_threads(2 if "two threads" in row else 1)
    started = time.perf_counter()
    model = CRLTAC(**{"epochs": EPOCHS, "random_state": seed} | options)
    if row == "untrained":
        model = model.fit(data["x"][:512]).untrained(data["x"][:512])
    else:
        model.fit(data["x"])
    seconds = time.perf_counter() - started
    columns = ["learned", "top", "uniform"] if row.startswith("crl-tac") else ["uniform"]
    if "cells" in data:
        columns.append("oracle")
    train = embeddings(model, data["x"], data.get("cells"), columns)
    test = embeddings(model, data["x_test"], data.get("cells_test"), columns)
    found: dict[str, Any] = {"seconds_fit": round(seconds, 1), "epochs": model.epochs}
    for key in train:
        if key[:2] in ("f ", "h "):
            for kind in ("std", "raw") if key in ("f learned", "h learned", "f uniform", "h uniform") else ("std",):
                found[f"{key} {kind}"] = round(probe(train[key], data["y"], test[key], data["y_test"], kind), 4)
        else:
            found[key] = round(float(test[key].mean()), 4)
    best = "learned" if "learned" in columns else "uniform"
    h = torch.from_numpy(test[f"h {best}"][:5000])
    found["uniformity"] = round(float(torch.exp(-2 * torch.cdist(h, h).square()).mean()), 4)
    return found


def probe(h: np.ndarray, y: np.ndarray, h_test: np.ndarray, y_test: np.ndarray, kind: str) -> float:
    if kind == "std":
        return float(evaluate_embedding(h, y, h_test, y_test, protocols=["linear"])["linear"])
    classes, codes = np.unique(y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit_linear(h, codes, len(classes), loss="logistic")
    return float((classes[model.predict(h_test)] == y_test).mean())


def cells(wanted: list[str]) -> list[Cell]:
    def cell(name: str, row: str, seed: int) -> Cell:
        return Cell(f"mnist {name}", row, seed, lambda: score(name, row, data_of(name), seed))

    first = [cell(name, row, 0) for row in OPTIONS for name in ("84 x 84", "plain")]
    first = [made for made in first if made.key[0] != "mnist plain" or "two threads" not in made.key[1]]
    later = [
        cell(name, row, seed) for seed in SEEDS[1:] for name in ("84 x 84", "plain") for row in ("crl-tac", "uniform")
    ]
    return [made for made in first + later if not wanted or made.key[0] in wanted or made.key[1] in wanted]


if __name__ == "__main__":
    run(cells(sys.argv[2:]), PATH, minutes=float(sys.argv[1]) if len(sys.argv) > 1 else None)
