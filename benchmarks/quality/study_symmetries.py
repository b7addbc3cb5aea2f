"""Mirrored images, reverse complements and reversed recordings on and off, against what the test chooses.

on, off   the default views of the modality with the rate .5 or 0 of the mirror (images), of the other strand (DNA) or
          of time reversal (series)
auto      the rate that the default chooses from the train rows of the cell, and the CPU seconds of the test; its scores
          are those of the row on or off with the same seed, for the same settings give the same model
no gray   of sets in color: the row on without gray views
cost      CPU seconds of a whole default fit, whose steps are the default's, and of the test within it

Which mirrors and turns should be views of images? Rows of `LinearContrast`, at most 2,000 train and 1,000 test rows:

default            crops and light, no mirrors and turns
default and NAME   the same, with the one transformation (mirror, upside-down, quarter-turn) or with all
test pixels        the tests of all transformations on small pixels, at most 3,000 samples
test features      in standardized fixed features, at most 1,000 samples

All other rows of a set train `STEPS` steps with batches of 256 on the same 3,000 train rows, with the default encoder
for CPUs; probes on at most 2,000 test rows. Labels are read by probes alone. The sets signs (hands), smiles (faces),
omniglot (characters), letters and the series are written by `benchmarks.common.prepare_sets`.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_symmetries [minutes] [set ...]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from benchmarks.common.data import SETS as KNOWN
from benchmarks.common.data import Data, DataSet, data_folder, load
from benchmarks.common.prepare_sets import SERIES
from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.linear_contrast import cells_in_flow, image_set
from benchmarks.quality.suite import SEEDS, command, rounded
from viewsmith import Contrastive, LinearContrast
from viewsmith.core.registry import find
from viewsmith.evaluation.feature_space import FeatureSpace
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.evaluation.symmetries import Compared, Symmetry, components, symmetries, tested
from viewsmith.modalities import modality_of
from viewsmith.modalities.base import Transformation
from viewsmith.networks.features import FeatureContext

STEPS = 300
MIRRORS = {"mirror": "flip", "upside-down": "upside_down", "quarter-turn": "turn"}
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


def smears() -> Data:
    """Red cells, white cells and platelets of blood smears: squares of 96 pixels at 32 x 32; photographs held out."""
    import pandas as pd
    from PIL import Image

    folder = data_folder() / "objects" / "bccd"
    boxes = pd.read_csv(folder / "boxes.csv")
    boxes = boxes.groupby("class").sample(361, random_state=0).sort_values("file")
    crops = []
    for row in boxes.itertuples():
        left, top = (int(low + high) // 2 - 48 for low, high in ((row.left, row.right), (row.top, row.bottom)))
        image = Image.open(folder / "images" / str(row.file)).convert("RGB")
        left, top = min(max(left, 0), image.width - 96), min(max(top, 0), image.height - 96)
        crops.append(np.asarray(image.crop((left, top, left + 96, top + 96)).resize((32, 32), Image.Resampling.BOX)))
    x, y = np.stack(crops), np.unique(boxes["class"], return_inverse=True)[1]
    files = np.unique(boxes["file"], return_inverse=True)[1]
    test = np.isin(files, np.random.default_rng(0).permutation(files.max() + 1)[: files.max() // 4])
    return Data(x[~test], y[~test], x[test], y[test])


def sentinel() -> Data:
    """Patches of a satellite's image, 9 x 9, red, green and blue as 8 bits; polygons held out."""
    import pandas as pd
    import tifffile

    folder = data_folder() / "instruments" / "sentinel2_12band"
    table = pd.read_csv(folder / "labels.csv")
    x = np.stack([tifffile.imread(folder / file)[[3, 2, 1]] for file in table["file"]]).astype(np.float32)
    low, high = np.percentile(x, (1, 99))
    x = (255 * ((x - low) / (high - low)).clip(0, 1)).round().astype(np.uint8).transpose(0, 2, 3, 1)
    y, polygon = (np.unique(table[name], return_inverse=True)[1] for name in ("class", "polygon"))
    test = polygon % 4 == 0
    return Data(x[~test], y[~test], x[test], y[test])


PICTURES: dict[str, Callable[[], Data]] = {
    "ifc_jurkat_16bit": cells_in_flow,
    "bccd": smears,
    **{name: partial(image_set, name, 2000, 1000) for name in ("cifar10_small", "mnist", "fashion_mnist")},
    **{name: partial(image_set, name, 2000, 1000) for name in ("signs", "smiles", "omniglot", "letters")},
    "digits": digits,
    "sentinel2_12band": sentinel,
}
WITH = [f"default and {name}" for name in (*MIRRORS, "all")]


@lru_cache(maxsize=1)
def picture_set(name: str) -> Data:
    """Images of a set, at most 2,000 for training."""
    return PICTURES[name]()


def in_closed_form(name: str, row: str, seed: int, *, small: int | None = None) -> dict[str, Any]:
    """Scores of a representation of images in closed form; or tests of the transformations."""
    torch.set_num_threads(1)
    data = picture_set(name)
    if small is not None:
        data = Data(data.x[:small], data.y[:small], data.x_test[:small], data.y_test[:small])
    began = time.process_time()
    if row.startswith("test"):
        plain = {each: known(data, "images", each)[each] for each in MIRRORS}
        tests = (in_features if row == "test features" else partial(symmetries, modality="images"))(
            data.x, transformations=plain, seed=seed
        )
        found: dict[str, Any] = {test.name: rounded(_numbers(test)) for test in tests}
        return found | {"seconds": round(time.process_time() - began, 2)}
    asked = row.removeprefix("default and ").replace("all", " ".join(MIRRORS)).split()
    rates: dict[str, Any] = {option: 0.5 * (each in asked) for each, option in MIRRORS.items()}
    flip = rates.pop("flip")
    model = LinearContrast(random_state=seed, device="cpu", n_views=4, flip=flip, view_options=rates).fit(data.x)
    h, h_test = model.transform(data.x), model.transform(data.x_test)
    scores = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=("linear", "knn"))
    return {**rounded(scores), "rows": len(data.x), "seconds": round(time.process_time() - began, 2)}


def in_features(x: np.ndarray, *, transformations: dict[str, Transformation], seed: int) -> list[Symmetry]:
    """Both tests of images in standardized fixed features, which are fitted to at most 1,000 of them."""
    rng, modality = np.random.default_rng(seed), modality_of("images")
    x = x[np.sort(rng.permutation(len(x))[:1000])]
    layer, shape = modality.input_layer(x.shape[1:]), x.shape[1:]
    modality.fit_input(layer, torch.from_numpy(x), "auto")
    made = find("features", "patches", "images").build(FeatureContext(shape, modality.channels(shape), "patches"))
    scaled = layer(torch.from_numpy(x))
    made.fit(scaled, torch.Generator().manual_seed(seed))
    space, kinds = FeatureSpace(made, scaled), np.unique(x.reshape(len(x), -1), axis=0, return_inverse=True)[1].ravel()
    found = []
    for name, transform in transformations.items():
        changed = space.standardized(layer(torch.from_numpy(np.ascontiguousarray(transform(x)))))
        near = space.coordinates, space.projected(changed)
        told_by = [components(space.standard.numpy(), changed.numpy())]
        found.append(tested(name, Compared(near, told_by), kinds, rng))
    return found


def _numbers(test: Symmetry) -> dict[str, float]:
    return {"ratio": test.ratio, "told_apart": test.told_apart, "at_least": test.told_apart_interval[0]}


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

    def closed(name: str, row: str, seed: int) -> Cell:
        return Cell(name, row, seed, lambda: in_closed_form(name, row, seed, small=100 if quick else None))

    trained = [
        cell(name, row, seed)
        for seed in SEEDS[: 1 if quick else None]
        for name in (("digits",) if quick else (*SETS, "digits"))
        for row in ("auto", "on", "off", *["no gray"] * (name in COLOR), *["cost"] * (seed == 0 and not quick))
    ]
    return trained + [
        closed(name, row, seed)
        for seed in SEEDS[: 1 if quick else None]
        for name in (("digits",) if quick else PICTURES)
        for row in ("default", *WITH, "test pixels", "test features")
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
