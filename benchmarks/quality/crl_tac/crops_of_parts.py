"""What found parts are worth: the representation that SimCLR learns from crops, by where the crops come from.

One object of CIFAR-10, MNIST or Fashion-MNIST at an unknown place among fragments of others (`clutter.py`): 1,500
training and 500 test images, made anew for each seed. A row makes one square of each image, 32 x 32 pixels after
resizing; then `contrastive` with its defaults (SimCLR; mirrored views only where the symmetry test allows them) learns
from the training squares, 24 epochs of batches of 64, 552 steps, and is scored on the test squares with viewsmith's
protocol: logistic regression, kNN, 1 % of the labels. "pixels" is logistic regression on the squares themselves.

uniform         a square at a random place, of the median side of those of discovery (of the object, if nothing recurs)
discovery       the square around the best part that `Discovery` finds; none if it says that nothing recurs
crl-tac         the crop that CRL-TAC locates, in the middle if it locates none; 6 epochs with defaults, so it starts
                from discovery, or as published if nothing recurs. "own_linear" and so on are scores of its own
                representation of whole images, after "own_seconds"
crl-tac, none   the same without discovery, and with crops of the size of the object
true            the object

"cpu_seconds" includes the search for the parts. Labels are for the scores alone; nothing is chosen by them.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.crl_tac.crops_of_parts [minutes] [set ...]
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch

from benchmarks.common.data import Data
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.crl_tac.what_and_where import BATCH, PROTOCOLS, REGIMES, boxes_of, place_scores, samples
from benchmarks.quality.suite import SEEDS, Scores, command, rounded, score
from viewsmith import CRLTAC, Contrastive, Discovery
from viewsmith.methods.discovery.images import reduced

PATH = RESULTS / "crops_of_parts.jsonl"
ROWS = ("uniform", "discovery", "true", "crl-tac", "crl-tac, none")
SIDE, EPOCHS, BRIEF = 32, 24, 6  # pixels of a crop; epochs of a training, and of CRL-TAC


def discovered(x: np.ndarray, seed: int) -> Discovery:
    """Discovery of the best part of every image, whatever its q-value."""
    return Discovery(random_state=seed, max_q=1).fit(x)


def squares(x: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """What is in boxes (n, 4), top, left, height and width, one of each image, resized to `SIDE` pixels."""
    cut = []
    for image, (top, left, height, width) in zip(x, boxes.round().astype(int), strict=True):
        part = image[max(top, 0) : top + height, max(left, 0) : left + width]
        cut.append(reduced(part.reshape(*part.shape[:2], -1), (SIDE, SIDE)))
    return np.stack(cut)


def places(name: str, row: str, seed: int, data: Data, epochs: int) -> tuple[list[np.ndarray], CRLTAC | None]:
    """Boxes (n, 4) in the training and test images, top, left, height and width; empty if nothing recurs."""
    images, sides = (data.x, data.x_test), np.array(data.x.shape[1:3])
    if row.startswith("crl-tac"):
        options = {"start": "none", "crop_size": REGIMES[name].size[0]} if row.endswith("none") else {}
        model = CRLTAC(epochs=min(epochs, BRIEF), batch_size=BATCH, random_state=seed, **options).fit(data.x)
        located = [model.locate(x) for x in images]
        side = np.median(boxes_of(located[0])[:, 2]) if len(located[0]) else REGIMES[name].size[0]
        boxes = [np.tile([*(sides - side) / 2, side, side], (len(x), 1)) for x in images]
        for own, found in zip(boxes, located, strict=True):
            own[found["sample"]] = boxes_of(found)
        return boxes, model
    search = discovered(data.x, seed)
    boxes = [np.tile([0.0, 0.0, *REGIMES[name].size], (len(x), 1)) for x in images]
    if search.recurs_:
        for own, x in zip(boxes, images, strict=True):
            found = search.locate(x)
            low, high = (np.stack([found[a], found[b]], 1) for a, b in (("top", "left"), ("bottom", "right")))
            side = (high - low).max(1, keepdims=True)
            own[found["sample"]] = np.concatenate([(low + high - side) / 2, side, side], 1)
            own[:, :2] = np.clip(own[:, :2], 0, np.maximum(sides - own[:, 2:], 0))
    elif row == "discovery":
        return [], None
    if row == "uniform":
        rng, side = np.random.default_rng(seed), np.median(boxes[0][:, 2])
        boxes = [np.insert(rng.uniform(0, sides - side, (len(x), 2)), 2, [[side], [side]], 1) for x in images]
    return boxes, None


def measure(name: str, row: str, seed: int, *, quick: bool = False) -> Scores:
    """The crops of a row, and the scores of what is learned from them."""
    torch.set_num_threads(1)
    data, known, known_test = samples(name, seed, quick)
    epochs, began = 1 if quick else EPOCHS, time.process_time()
    model: CRLTAC | None = None
    if row == "true":
        boxes = [known[:, 0], known_test[:, 0]]
    else:
        boxes, model = places(name, row, seed, data, epochs)
    if not boxes:
        return {"recurs": False, "cpu_seconds": round(time.process_time() - began, 1)}
    found = place_scores(np.arange(len(boxes[1])), boxes[1].astype(float), known_test)
    found |= {"side": float(np.median(boxes[1][:, 2]))}
    if model is not None:
        found |= {"own_seconds": time.process_time() - began}
        found |= {f"own_{key}": value for key, value in scored(model, data).items()}
        began = time.process_time() - found["own_seconds"]
    crops = [squares(x, own) for x, own in zip((data.x, data.x_test), boxes, strict=True)]
    data = Data(crops[0], data.y, crops[1], data.y_test)
    # All columns are learned.
    options = {"encoder_options": {"appended_pca": 0}, "batch_size": BATCH, "epochs": epochs, "random_state": seed}
    learner = Contrastive(**options).fit(data.x)
    spent = time.process_time() - began
    pixels = score(*(x.reshape(len(x), -1) / 255 for x in crops), data, ["linear"])["linear"]
    found |= {"steps": learner.summary_["steps"], "cpu_seconds": spent, "pixels": pixels}
    return rounded(found | scored(learner, data))


def scored(model: CRLTAC | Contrastive, data: Data) -> Scores:
    """Scores of the representations of a model."""
    return score(model.transform(data.x), model.transform(data.x_test), data, PROTOCOLS)


def cells(quick: bool = False) -> list[Cell]:
    """Objects in color first."""
    seeds = SEEDS[:1] if quick else SEEDS
    order = [(name, row) for name in ("cifar", "fashion", "mnist") for row in ROWS]
    return [Cell(name, row, s, partial(measure, name, row, s, quick=quick)) for name, row in order for s in seeds]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
