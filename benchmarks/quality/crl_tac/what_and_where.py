"""What matters, and where: CRL-TAC on samples with one object, motif or event at an unknown place.

The samples are those of `clutter.py` and `hidden_events.py`: 1,500 for training (images also 6,000) and 500 for the
test, made anew for each seed, objects and clutter of test samples from the test part of the data set. Batches have 64
samples. The rows of CRL-TAC have the same number of training steps (`REGIMES`; an epoch has 23, or 93), those of other
methods on images half of it, because their steps on whole images take about twice as long; "cpu_seconds" is the CPU
time of each training. Rows:

crl-tac                 the defaults, but for crops (windows) of about the size of the object, in pixels (points), and
                        recordings whose windows have no trend (`detrend="linear"`)
uniform                 the same crops with equal probabilities, from the same encoder
contrastive             `contrastive` with its defaults on whole samples: random resized crops (images), edits (DNA),
                        stretched windows (recordings)
oracle                  the place is known: the objects are cut out, scaled ones resized, and "uniform" is trained and
                        scored on them, with crops of 5/7 of their side
found boxes             the same on what crl-tac has found: boxes of the size of the object around the centers of its
                        boxes, in the training samples too (images)
crl-tac, target 16      with an effective number of at least 16 crops instead of 8: two items to an image
crl-tac, recurrence     items and objects in color with `recurrence_weight=3`, the default for digits on black; also
                        "found boxes"
crl-tac, no recurrence  digits with `recurrence_weight=0`, as in the next rows; also "found boxes"
crl-tac, short          with fewer steps (138 to 230); also other rows
crl-tac, with trend     recordings as they are, with half of the steps; also "uniform" and "untrained"
untrained               the encoder of crl-tac before training, averaged over all crops
raw, pca                pixels; DNA and recordings: the raw features that a split of the train rows prefers
places                  three boxes that need no training: the middle, the largest deviation from the mean patch of the
                        training samples, and (color) spectral residual saliency, `salience.py`
byol                    `contrastive` with the framework byol
genview                 `genview` with simclr; its generator is trained on the same images
simclr, learned crops   as "contrastive", "byol" and "genview", with views drawn from the channel of the row crl-tac
byol, learned crops     (`channel:RUN`), represented by the mean over its 8 most probable crops
genview, learned crops

Scores: logistic regression, kNN and 1 % of the labels (viewsmith's protocol; of crl-tac also "top_linear", with
`inference="top"`). Place: the first box of `locate`. "corloc" is the fraction of all test samples whose box overlaps
the object by at least 1/2 (intersection over union), "center" the fraction whose box has its center in the object. A
sample without a box counts as wrong. With two items to an image: "both" is the fraction of images in which `locate`
with n=2 finds both ("both_center": both centers; "one_center": at least one), and there are no classes.

Sizes of crops and numbers of steps were chosen from trainings on images of the train part (seed 100): mnist with crops
of 20 and 28 pixels, fashion of 20 and 28, cifar of 20 and 32; detrended windows there, too. The study was
first done with fewer steps ("short").

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.crl_tac.what_and_where [minutes] [regime or row ...]
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import Data, data_folder
from benchmarks.common.runner import RESULTS, ROOT, Cell
from benchmarks.quality.crl_tac import clutter, hidden_events
from benchmarks.quality.crl_tac.salience import center, most_deviating, spectral_residual
from benchmarks.quality.suite import SEEDS, Scores, command, preferred, rounded, score
from viewsmith import CRLTAC, Contrastive, GenView, load
from viewsmith.evaluation.baselines import pca

PATH = RESULTS / "what_and_where.jsonl"
RUNS = ROOT / "build" / "what_and_where"  # runs whose channel serves other methods
TRAIN, TEST, BATCH = 1500, 500, 64
PROTOCOLS = ("linear", "knn", "linear_1pct")


@dataclass(frozen=True)
class Regime:
    """Samples, the size of the objects in pixels or points, and the number of training epochs, also of short rows.

    `options` are CRL-TAC's: how crops are made. `cut` are those for the objects alone (row "oracle"). `rows` is the
    number of training samples.
    """

    make: Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]
    size: tuple[int, int]
    epochs: int
    short: int
    options: dict[str, Any]
    cut: dict[str, Any] = field(default_factory=dict)
    modality: str = "images"
    rows: int = TRAIN


def _images(side: int, crop: int, short: int) -> Regime:
    return Regime(clutter.make, (side, side), 24, short, {"crop_size": crop})


def _sequences(length: int, whole: int, count: int, epochs: int, modality: str, **options: Any) -> Regime:
    options |= {"windows": count, "window_fraction": length / whole}
    cut = {"windows": 9, "window_fraction": 5 / 7}
    return Regime(hidden_events.make, (1, length), epochs, epochs // 2, options, cut, modality)


REGIMES = {
    "mnist": _images(28, 20, 8),
    "fashion": _images(28, 28, 10),
    "cifar": _images(32, 32, 6),
    "events": _sequences(hidden_events.EVENT, hidden_events.POINTS, 27, 12, "series", detrend="linear"),
    "mnist 16": _images(28, 20, 8),
    "mnist scaled": _images(28, 28, 8),
    "fashion two": _images(28, 28, 10),
    "promoters": _sequences(251, hidden_events.BASES, 16, 4, "dna"),
}
FIRST, SERVED = ("mnist", "fashion", "cifar"), ("mnist", "cifar")
MANY = ", 6,000 images"
REGIMES |= {
    name + MANY: replace(REGIMES[name], rows=6000, epochs=12) for name in ("mnist 16", "mnist scaled", "fashion")
}
CHEAP = ("crl-tac", "uniform", "oracle", "untrained", "raw", "pca", "places")
MAIN = ("crl-tac", "oracle", "uniform")
SHORT, TREND, TARGET = ", short", ", with trend", ", target 16"
RECURRENCE, PLAIN = ", recurrence", ", no recurrence"
BLACK = ("mnist", "mnist 16", "mnist scaled")
SERVING = ("byol", "simclr, learned crops", "byol, learned crops")
GENVIEW = ("genview", "genview, learned crops")


def samples(name: str, seed: int, quick: bool = False) -> tuple[Data, np.ndarray, np.ndarray]:
    """Train and test samples, and the boxes of their objects (n, k, 4): top, left, height, width; k is 1 or 2."""
    regime, kind = REGIMES[name], name.removesuffix(MANY)
    few = (40, 16) if quick else (regime.rows, TEST)
    (x, y, boxes), (x_test, y_test, boxes_test) = (
        regime.make(kind, count, seed, split) for count, split in zip(few, ("train", "test"), strict=True)
    )
    return Data(x, y, x_test, y_test), _four(boxes), _four(boxes_test)


def _four(places: np.ndarray) -> np.ndarray:
    """Boxes (n, k, 4) from boxes (n, 4) or (n, 2, 4), or from windows, starts and ends (n, 2)."""
    if places.shape[1:] == (2,):
        start, end = places.T
        places = np.stack([0 * start, start, 1 + 0 * start, end - start], axis=1)
    return places.reshape(len(places), -1, 4)


def cut_out(x: np.ndarray, boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The objects in samples, one of each, resized if they have another size."""
    made = []
    for sample, (top, left, height, width) in zip(x, boxes[:, 0], strict=True):
        if size[0] == 1 and x.ndim < 4:  # letters (n, L) or recordings (n, channels, time)
            made.append(sample[..., left : left + width])
        else:
            thing = sample[top : top + height, left : left + width]
            made.append(thing if thing.shape[:2] == size else clutter.resized(thing, size[0]))
    return np.stack(made)


def boxes_of(found: np.ndarray) -> np.ndarray:
    """Boxes (k, 4) of the entries that `locate` returns."""
    if "top" in (found.dtype.names or ()):
        return np.stack([found[name] for name in ("top", "left", "height", "width")], axis=1)
    start, end = found["start"], found["end"]
    return np.stack([0 * start, start, 1 + 0 * start, end - start], axis=1).astype(float)


def found_boxes(channel: CRLTAC, x: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes (n, 1, 4) of this size, in whole pixels, around the centers of what was found; else in the middle."""
    located, sides = channel.locate(x), np.array(x.shape[1:3])
    corners = np.repeat([(sides - size) / 2], len(x), axis=0)
    box = boxes_of(located)
    corners[located["sample"]] = box[:, :2] + (box[:, 2:] - size) / 2
    corners = corners.round().astype(int).clip(0, sides - size)
    return np.concatenate([corners, np.broadcast_to(size, (len(x), 2))], axis=1)[:, None]


def agreement(box: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intersection over union of boxes (..., 4), and whether the center of the first is in the second."""
    first = np.maximum(box[..., :2], truth[..., :2])
    last = np.minimum(box[..., :2] + box[..., 2:], truth[..., :2] + truth[..., 2:])
    common = np.clip(last - first, 0, None).prod(axis=-1)
    union = box[..., 2:].prod(axis=-1) + truth[..., 2:].prod(axis=-1) - common
    middle = box[..., :2] + box[..., 2:] / 2 - truth[..., :2]
    return common / union, ((middle >= 0) & (middle <= truth[..., 2:])).all(axis=-1)


def place_scores(sample: np.ndarray, box: np.ndarray, truth: np.ndarray) -> Scores:
    """Scores of boxes (k, 4) found in samples (k,), against the objects of all samples, (n, m, 4)."""
    right = np.zeros((2, *truth.shape[:2]), bool)  # of IoU and of centers: which objects have a box
    for row, one in zip(sample, box, strict=True):
        overlap, inside = agreement(one, truth[row])
        nearest = overlap.argmax()
        right[0, row, nearest] |= overlap[nearest] >= 0.5
        right[1, row] |= inside
    names = ("corloc", "center") if truth.shape[1] == 1 else ("both", "both_center")
    found = {name: float(each.all(axis=1).mean()) for name, each in zip(names, right, strict=True)}
    return rounded(found if truth.shape[1] == 1 else found | {"one_center": float(right[1].any(axis=1).mean())})


def kind_of(row: str) -> tuple[str, str]:
    """A row without its end, and the end ("" for most rows)."""
    end = next((end for end in (SHORT, TREND, TARGET, RECURRENCE, PLAIN) if row.endswith(end)), "")
    return row.removesuffix(end), end


def model_of(name: str, row: str, seed: int, *, quick: bool = False) -> CRLTAC | Contrastive | GenView:
    """The estimator of a trained row."""
    regime, (kind, end) = REGIMES[name], kind_of(row)
    ours = kind in (*MAIN, "found boxes")
    factor = 1 if ours or regime.modality != "images" else 0.5
    epochs = round(factor * (regime.short if end in (SHORT, TREND) else regime.epochs))
    shared = {"batch_size": BATCH, "epochs": 1 if quick else epochs, "random_state": seed, "modality": regime.modality}
    if ours:
        options = regime.cut if kind in ("oracle", "found boxes") else regime.options
        options = options | {TREND: {"detrend": "none"}, TARGET: {"effective_target": 16}}.get(end, {})
        if end:
            options = options | {"recurrence_weight": 3 if end == RECURRENCE else 0}
        return CRLTAC(**shared, **options, channel="learned" if kind == "crl-tac" else "uniform")
    framework = "byol" if row.startswith("byol") else "simclr"
    views = f"channel:{run_of(name, row, seed, quick)}" if "learned crops" in row else "auto"
    # All columns are learned, as in the other rows.
    plain = {"encoder_options": {"appended_pca": 0}} if regime.modality in ("images", "dna") else {}
    method = GenView if row.startswith("genview") else Contrastive
    return method(**shared, **plain, framework=framework, view_maker=views)


def folder_of(name: str, row: str, seed: int, quick: bool) -> Path:
    """The folder of the run of CRL-TAC that `row` needs."""
    return (data_folder() if quick else RUNS) / f"{name}-{seed}{kind_of(row)[1].replace(', ', '-')}"


def channel_of(row: str) -> str:
    """The row of CRL-TAC whose channel a row needs."""
    return "crl-tac" + kind_of(row)[1]


def run_of(name: str, row: str, seed: int, quick: bool) -> Path:
    """The run of CRL-TAC that `row` needs; trained now if there is none."""
    run = folder_of(name, row, seed, quick)
    if not (run / "summary.json").exists():
        data, _, _ = samples(name, seed, quick)
        model_of(name, channel_of(row), seed, quick=quick).fit(data.x).save(run)
    return run


def on_whole_images(model: Contrastive | GenView, x: np.ndarray) -> np.ndarray:
    """The encoder's representations of images, for a model that represents them by learned crops."""
    rows = torch.from_numpy(model.scaled(x)).split(50)
    with torch.no_grad():
        return torch.cat([model.method_.framework.encoder(part) for part in rows]).numpy()


def measure(name: str, row: str, seed: int, *, quick: bool = False) -> Scores:
    """Train a row and score it."""
    torch.set_num_threads(1)
    data, boxes, boxes_test = samples(name, seed, quick)
    size = REGIMES[name].size
    if row == "places":
        return untrained_places(name, data, boxes_test)
    if row.startswith("oracle"):
        data = Data(cut_out(data.x, boxes, size), data.y, cut_out(data.x_test, boxes_test, size), data.y_test)
    if "learned crops" in row:
        run_of(name, row, seed, quick)  # before the time is taken
    if row.startswith("found boxes"):
        channel = load(run_of(name, row, seed, quick))
        parts = [cut_out(x, found_boxes(channel, x, size), size) for x in (data.x, data.x_test)]
        data = Data(parts[0], data.y, parts[1], data.y_test)
    began = time.process_time()
    if row in ("untrained", "untrained" + TREND, "raw", "pca"):
        few = model_of(name, "crl-tac" + (TREND if row.endswith(TREND) else ""), seed, quick=True).fit(data.x[:BATCH])
        if row.startswith("untrained"):
            return scored(few.untrained(data.x), data)
        features, features_test = few.raw_features(data.x), few.raw_features(data.x_test)
        best = preferred(features, data.y)
        pair = features[best], features_test[best]
        return score(*(pair if row == "raw" else pca(*pair)), data, PROTOCOLS) | {"raw": best}
    model = model_of(name, row, seed, quick=quick).fit(data.x)
    found: Scores = {"cpu_seconds": round(time.process_time() - began, 1), "steps": model.summary_["steps"]}
    if "learned crops" in row:
        whole = score(*(on_whole_images(model, x) for x in (data.x, data.x_test)), data, PROTOCOLS)
        found |= {f"whole_{key}": value for key, value in whole.items()}
    if row.startswith("crl-tac"):
        if not row.endswith((TREND, TARGET)):
            shutil.rmtree(folder_of(name, row, seed, quick), ignore_errors=True)  # of other settings
            model.save(folder_of(name, row, seed, quick))
        located = model.locate(data.x_test, n=boxes.shape[1])
        found |= place_scores(located["sample"], boxes_of(located), boxes_test)
        found |= {"found": round(len(np.unique(located["sample"])) / len(data.x_test), 4)}
        found |= {key: round(model.metrics_[-1][key], 2) for key in ("effective", "places")}
        if data.y.ndim == 1:
            top = [model.transform(x, inference="top") for x in (data.x, data.x_test)]
            found |= {"top_linear": score(*top, data, ["linear"])["linear"]}
    return found | (scored(model, data) if data.y.ndim == 1 else {})


def scored(model: Any, data: Data) -> Scores:
    """Scores of the representations of a model."""
    return score(model.transform(data.x), model.transform(data.x_test), data, PROTOCOLS)


def untrained_places(name: str, data: Data, boxes: np.ndarray) -> Scores:
    """Scores of the boxes of `salience.py`, which have the size of the object."""
    regime = REGIMES[name]
    scale = CRLTAC(**regime.options, modality=regime.modality, batch_size=BATCH, epochs=1, random_state=0)
    scale.fit(data.x[:BATCH])
    x, train = (torch.from_numpy(scale.scaled(part)) for part in (data.x_test, data.x))
    if x.ndim == 3:  # sequences (n, C, L)
        x, train = x[:, :, None], train[:, :, None]
    stride = (1, 8) if regime.modality != "images" else (4, 4)
    found = {"middle": center(x, regime.size), "deviation": most_deviating(x, train, regime.size, stride)}
    if x.shape[1] == 3 and regime.modality == "images":
        found["saliency"] = spectral_residual(x, regime.size, stride)
    rows, made = np.arange(len(x)), {}
    for kind, box in found.items():
        made |= {f"{kind}_{key}": value for key, value in place_scores(rows, box.numpy(), boxes).items()}
    return made


def cells(quick: bool = False) -> list[Cell]:
    """Seed by seed, trained rows first; other methods, also with learned crops; earlier budgets; then what is left."""
    keys: dict[tuple[str, str, int], None] = {}

    def add(seeds: Sequence[int], names: Iterable[str], rows: Sequence[str]) -> None:
        for seed in SEEDS[:1] if quick else seeds:
            for name in names:
                allowed = ("crl-tac", "crl-tac" + TARGET) if name == "fashion two" else rows
                keys.update(dict.fromkeys((name, row, seed) for row in rows if row in allowed))

    images = (*FIRST, "mnist 16", "mnist scaled")
    add(SEEDS[:1], images, (*MAIN, "found boxes"))
    add(SEEDS[:2], FIRST, ("crl-tac", "oracle", "found boxes"))
    add(SEEDS[:1], ("events", "promoters"), CHEAP)
    add(SEEDS, ("events",), (*MAIN, "untrained"))
    add(SEEDS[:2], FIRST, ("uniform",))
    add(SEEDS[:1], ("fashion two",), CHEAP)
    add(SEEDS, FIRST, (*MAIN, "found boxes"))
    add(SEEDS, images, ("crl-tac", "oracle", "found boxes"))
    add(SEEDS, ("fashion two",), ("crl-tac", "crl-tac" + TARGET))
    add(SEEDS, (*images, "events"), CHEAP)
    add(SEEDS[:1], FIRST, ("contrastive",))
    add(SEEDS, SERVED, tuple(row for row in SERVING if row.endswith("learned crops")))
    add(SEEDS, ("events",), ("contrastive", *(row + TREND for row in ("crl-tac", "uniform", "untrained"))))
    add(SEEDS, BLACK, ("crl-tac" + PLAIN, "found boxes" + PLAIN))
    add(SEEDS, ("fashion", "cifar"), ("crl-tac" + RECURRENCE, "found boxes" + RECURRENCE))
    add(SEEDS, ("mnist", "mnist 16"), [row + SHORT for row in MAIN])
    add(SEEDS, (*images, "events"), ("contrastive" + SHORT,))
    add(SEEDS[:1], SERVED, [row + SHORT for row in SERVING])
    add(SEEDS, FIRST, ("contrastive",))
    add(SEEDS, SERVED, SERVING)
    add(SEEDS[:1], ("mnist",), GENVIEW)
    many = [name for name in REGIMES if name.endswith(MANY)]
    add(SEEDS, many, ("crl-tac", "oracle"))
    add(SEEDS[:1], many, ("uniform",))
    add(SEEDS, [name for name in REGIMES if name not in many], (*CHEAP, "contrastive"))
    return [Cell(name, row, seed, partial(measure, name, row, seed, quick=quick)) for name, row, seed in keys]


if __name__ == "__main__":
    command(__doc__, PATH, cells, kind=lambda name: REGIMES[name].modality)
