"""The contrast in closed form against raw features, fixed features without a contrast, and a trained encoder.

Rows: "raw" (the best of the modality's raw features, chosen on train rows), "features" (the fixed features, as
`LinearContrast` standardizes them), "linear-contrast" (the default), "contrastive" (the default training). Of
recordings, also scikit-learn's RidgeClassifierCV and one nearest neighbor, as MiniRocket is used. Nothing is chosen on
test labels; ridge and number of columns are chosen on held-out train samples without labels.

Images are whole data sets, or drawn rows (`common.data`). Recordings: sets of the UCR and UEA archives, with their
published splits and others, that the package aeon brings (AEON=folder of its datasets) or that lie with the data (of
unequal length: NaN at the end, as they are read); and spoken digits as sound, one second each, each of six speakers
held out. The settings of log-mel features and their view were chosen on three of them (george, jackson, nicolas).
Beats of three records of MIT-BIH, ventricular or other, from .25 s before to .35 s after, one record held out. Cells:
16-bit tiles as 8-bit copies, the channels by their 0.1 and 99.9 percentiles; a random fifth is scored; views are turns
and mirrors. `ifc_16_bits` are the tiles as they are, with the views that the product chooses; `..._4_phases` those of
four phases without the DNA channel, and "no turns" has mirror images alone. Of patches of Sentinel-2 whole polygons are
held out. Letters: families of proteins and of RNA, of which a fifth, stratified, is scored; "k-mers" are the
frequencies of words alone (proteins: 2 letters, RNA: 4), where "raw" may be letters by place. The
settings of proteins are the first that were tried. "catch22" are those statistics of each channel of recordings.

EmoDB, PLAID and the sequences of `letter_sets` do not lie with the data: VIEWSMITH_DATA/emodb has the WAV files, plaid
the .ts files. One actor of EmoDB is held out ("raw" is the log-mel spectrogram, 40 bands of 64 frames).
indian_pines has Indian_pines_corrected.mat (200 bands) and Indian_pines_gt.mat: patches of 9 x 9 pixels around every
third pixel of every third row. Patches of a class that share pixels are of one field; a third of the fields of each
class is held out, and classes of one field are left out. pancreas_cells has images of five channels (imaging mass
cytometry, in cytomapper of Bioconductor) NAME_imc.tiff with NAME_mask.tiff, and cells.csv: image, cell, type; crops of
16 x 16 pixels, one of three images held out. "pca": 64 components of the pixels; "channel means": of each image.
Larger images: sign_digits (`Dataset` of ardamavi/Sign-Language-Digits-Dataset, center squares of 100 x 100, a random
fifth held out), omniglot (`images_background_small1` of brendenlake/omniglot, 105 x 105, drawers 16 to 20 held out),
expressions (muxspace/facial_expressions, 500 faces of five expressions each, squares of 160 x 160, a fifth held out)
and clothing (alexeygrigorev/clothing-dataset-small, its split, squares of 128 x 128). "not reduced": patches see these
as they are, and "pixels": those of 32 x 32. The sides of reduced images were chosen on the first three of these sets.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.linear_contrast [minutes] [set or row] [--quick]
"""

from __future__ import annotations

import csv
import os
import resource
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common.data import Data, DataSet, data_folder, load
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.letter_sets import gene_families, localization, peptides, transcripts
from benchmarks.quality.suite import command, preferred
from viewsmith import Contrastive, LinearContrast
from viewsmith.core.registry import find
from viewsmith.data import image_squares, load_dataset
from viewsmith.estimator.model import shrunken
from viewsmith.evaluation.baselines import BaselineContext, pca
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.methods.linear_contrast.training import LinearContrastMethod
from viewsmith.modalities import modality_of
from viewsmith.modalities.series.networks import LogMelPatches, MiniRocket, mel_filters
from viewsmith.networks import PartContext
from viewsmith.views import ViewMaker

SEEDS = (0, 1, 2)
PROTOCOLS = ("linear", "knn", "linear_1pct", "linear_10pct")
UCR = ("GunPoint", "ArrowHead", "ItalyPowerDemand", "OSULeaf", "ACSF1", "BasicMotions")
#: Splits of the archives' sets beside the published one: as many rows of each class for training, drawn anew.
SPLITS = range(1, 6)
UNEQUAL = {"JapaneseVowels": "ts_japanesevowels", "PickupGestureWiimoteZ": "ts_pickupgesturewiimotez"}
#: Without turns and images upside down; for sets of images that allow them.
NO_TURNS = "linear-contrast, no turns"
TURNED = ("ifc_16_bits", "ifc_16_bits_4_phases", "sentinel2_12band")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
RECORDS = ("100", "106", "108")
#: Larger dictionaries of patches, for all of CIFAR-10.
LARGER = {f"linear-contrast, {centers} centers": {"centers": centers} for centers in (512, 1024)}
#: Views of sound beside the default, speed.
SOUND = ("pitch", "speed+pitch", "speed+time-mask", "speed+frequency-mask", "speed+shift")
OF_ACTORS = ("log-mel statistics", "minirocket")
OF_SOUND = tuple(f"linear-contrast, {views}" for views in SOUND)
EMODB_RATE = 22_050
POINTS = 8000  # of a spoken digit, one second; shorter ones are padded by zeros


class Turns(ViewMaker):
    """Quarter turns and mirror images of square images."""

    def symmetric_copies(self, x: torch.Tensor) -> list[torch.Tensor]:
        turned = [torch.rot90(x, number, (2, 3)) for number in range(4)]
        return [*turned, *(each.flip(3) for each in turned)]

    def forward(
        self, x: torch.Tensor, *, index: torch.Tensor | None = None, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        kind = torch.randint(8, (len(x),), generator=generator, device=x.device)
        return torch.stack(self.symmetric_copies(x))[kind, torch.arange(len(x), device=x.device)]


def image_set(name: str, train_rows: int | None = None, test_rows: int | None = None) -> Data:
    return load(DataSet(name, "images", train_rows=train_rows, test_rows=test_rows))


def ucr(name: str, split: int = 0) -> Data:
    """A set of the archives as recordings (n, channels, time) from its .ts files; `split` 0 is the published one."""
    unequal = UNEQUAL.get(name)
    folder = data_folder() / "instruments" / unequal if unequal else Path(os.environ["AEON"]) / name
    parts = [recordings(folder / f"{name}_{split}.ts") for split in ("TRAIN", "TEST")]
    (x, y), (x_test, y_test) = parts
    longest = max(x.shape[2], x_test.shape[2])
    x, x_test = (ended(part, longest) for part in (x, x_test))
    _, codes = np.unique(np.concatenate([y, y_test]), return_inverse=True)
    x, train = np.concatenate([x, x_test]), np.arange(len(y))
    if split:
        random = np.random.default_rng(split)
        counts = np.bincount(codes[train], minlength=codes.max() + 1)
        members = [random.permutation(np.flatnonzero(codes == number)) for number in range(len(counts))]
        train = np.concatenate([rows[:count] for rows, count in zip(members, counts, strict=True)])
    test = np.setdiff1d(np.arange(len(x)), train)
    return Data(x[train], codes[train], x[test], codes[test])


def ended(x: np.ndarray, points: int) -> np.ndarray:
    """Recordings (..., time) with NaN after their end, as `load_dataset` gives those of unequal length."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, points - x.shape[-1])], constant_values=np.nan)


def recordings(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Recordings (n, channels, time), NaN after the end of shorter ones, and their classes from a .ts file."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
    rows = [line.split(":") for line in lines[start + 1 :] if line.strip()]
    samples = [np.array([channel.split(",") for channel in row[:-1]], np.float32) for row in rows]
    longest = max(sample.shape[1] for sample in samples)
    x = np.stack([ended(sample, longest) for sample in samples])
    return x, np.array([row[-1].strip() for row in rows])


def speaker(name: str) -> Data:
    """Spoken digits; those of one speaker are the test rows."""
    waves, digits, speakers = [], [], []
    for path in sorted((data_folder() / "instruments" / "fsdd_wav" / "recordings").glob("*.wav")):
        waves.append(wave(path)[:POINTS])
        digit, who, _ = path.stem.split("_")
        digits.append(int(digit))
        speakers.append(who)
    rows = np.stack([np.pad(each, (0, POINTS - len(each))) for each in waves])[:, None]
    return held_out(rows, np.array(digits), np.array(speakers) == name)


def wave(path: Path) -> np.ndarray:
    """Points of a WAV file of 16 bits, full scale is 1."""
    from scipy.io import wavfile

    found: np.ndarray = wavfile.read(path)[1].astype(np.float32) / 2**15
    return found


def held_out(x: Any, y: np.ndarray, test: np.ndarray) -> Data:
    """Rows with codes of their classes; those of `test` are the test rows."""
    codes = np.unique(y, return_inverse=True)[1]
    return Data(x[~test], codes[~test], x[test], codes[test])


def emotions(name: str) -> Data:
    """Spoken emotions (EmoDB, of 22,050 Hz); those of the actor of this number are the test rows."""
    paths = sorted((data_folder() / "emodb").glob("*.wav"))
    rows = np.stack([wave(path) for path in paths])[:, None]
    y, actors = (np.array([path.stem[part] for path in paths]) for part in (slice(5, 6), slice(0, 2)))
    return held_out(rows, y, actors == name)


def appliances() -> Data:
    """Currents of appliances of unequal length (PLAID of the UCR archive), its published split."""
    data = load_dataset(data_folder() / "plaid")
    assert data.y is not None and data.test_index is not None
    return held_out(np.asarray(data.x), data.y, np.isin(np.arange(len(data.x)), data.test_index))


def fields_of_crops(fold: int) -> Data:
    """Patches of the scene Indian Pines, in the bands of its spectrometer; a third of the fields is held out."""
    from scipy.io import loadmat
    from scipy.ndimage import label, maximum_filter

    folder, half = data_folder() / "indian_pines", PATCH // 2
    scene = loadmat(folder / "Indian_pines_corrected.mat")["indian_pines_corrected"]
    of = loadmat(folder / "Indian_pines_gt.mat")["indian_pines_gt"]
    held, known = np.zeros(of.shape, bool), np.zeros(of.shape, bool)
    for kind in range(1, of.max() + 1):
        fields, number = label(maximum_filter(of == kind, PATCH), np.ones((3, 3)))
        fields[of != kind] = 0
        if number > 1:
            by_size = np.argsort(-np.bincount(fields.ravel())[1:], kind="stable") + 1
            known |= fields > 0
            held |= np.isin(fields, by_size[(np.arange(number) + kind) % THIRDS == fold])
    inside = np.zeros(of.shape, bool)
    inside[half:-half:APART, half:-half:APART] = True
    rows, columns = np.nonzero(known & inside)
    corners = zip(rows - half, columns - half, strict=True)
    x = np.stack([scene[top : top + PATCH, left : left + PATCH] for top, left in corners])
    return held_out(x, of[rows, columns], held[rows, columns])


def files_of_images(files: Sequence[Path], kinds: Sequence[str], side: int, held: np.ndarray) -> Data:
    """Center squares of image files."""
    with_color = Image.open(files[0]).mode == "RGB"
    x = image_squares([np.asarray(Image.open(file).convert("RGB" if with_color else "L")) for file in files], side)
    return held_out(x, np.unique(kinds, return_inverse=True)[1], held)


def larger_images(name: str) -> Data:
    """Images of 100 to 160 pixels."""
    folder, rng = data_folder() / name, np.random.default_rng(0)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".png"))
    if name == "omniglot":
        kinds = [f"{file.parts[-3]} {file.parts[-2]}" for file in files]
        return files_of_images(files, kinds, 105, np.array([int(file.stem[-2:]) > DRAWERS for file in files]))
    if name == "clothing":
        return files_of_images(
            files, [f.parts[-2] for f in files], 128, np.array([f.parts[-3] != "train" for f in files])
        )
    if name == "sign_digits":
        return files_of_images(files, [f.parts[-2] for f in files], 100, rng.random(len(files)) < 0.2)
    by_kind: dict[str, list[Path]] = {kind: [] for kind in EXPRESSIONS}
    with (folder / "legend.csv").open() as table:
        for row in csv.DictReader(table):
            if (kind := row["emotion"].lower()) in by_kind:
                by_kind[kind].append(folder / "images" / row["image"])
    drawn = [(own[i], kind) for kind, own in by_kind.items() for i in rng.permutation(len(own))[:500]]
    files, kinds = (list(each) for each in zip(*drawn, strict=True))
    return files_of_images(files, kinds, 160, rng.random(len(files)) < 0.2)


def pancreas_cells(image: str) -> Data:
    """Crops of cells of the pancreas, five channels of mass cytometry; those of one image are the test rows."""
    import tifffile
    from scipy.ndimage import center_of_mass

    folder, half, crops, kinds, images = data_folder() / "pancreas_cells", CROP // 2, [], [], []
    with (folder / "cells.csv").open() as file:
        table = list(csv.DictReader(file))
    for name in PANCREAS:
        pixels = tifffile.imread(folder / f"{name}_imc.tiff").transpose(1, 2, 0)
        pixels = np.pad(pixels, ((half, half), (half, half), (0, 0)), mode="reflect")
        mask, cells = tifffile.imread(folder / f"{name}_mask.tiff"), [row for row in table if row["image"] == name]
        centers = center_of_mass(mask > 0, mask, [int(row["cell"]) for row in cells])
        for row, (top, left) in zip(cells, np.round(centers).astype(int), strict=True):
            crops.append(pixels[top : top + CROP, left : left + CROP])
            kinds.append(row["type"])
            images.append(name)
    return held_out(np.stack(crops), np.array(kinds), np.array(images) == image)


def beats_of(record: str) -> Data:
    """Windows around the beats of records; those of one record are the test rows."""
    import wfdb

    folder, windows, kinds, records = data_folder() / "instruments" / "ecg_mitbih_wfdb", [], [], []
    with (folder / "labels.csv").open() as file:
        beats = [row for row in csv.DictReader(file) if 90 <= int(row["sample"]) < 650_000 - 126]
    signals = {name: wfdb.rdrecord(str(folder / name)).p_signal.T.astype(np.float32) for name in RECORDS}
    for row in beats:
        at = int(row["sample"])
        windows.append(signals[row["record"]][:, at - 90 : at + 126])
        kinds.append(row["beat"] == "PVC")
        records.append(row["record"] == record)
    x, y, test = np.stack(windows), np.array(kinds, int), np.array(records)
    return Data(x[~test], y[~test], x[test], y[test])


def tiles_in_flow(four: bool) -> Data:
    """The same cells as the product reads them, uint16; or those of four frequent phases, without the DNA channel."""
    folder = data_folder() / "instruments" / "ifc_jurkat_16bit" / "tiles"
    data = load_dataset(folder, channels=["0", "2"] if four else None)
    assert data.y is not None and data.test_index is not None
    kept = np.isin(data.y, ("G1", "S_phase", "G2", "Prophase")) | (not four)
    codes = np.unique(data.y, return_inverse=True)[1]
    train, test = (index[kept[index]] for index in (data.train_index, data.test_index))
    x = np.asarray(data.x)
    return Data(x[train], codes[train], x[test], codes[test])


def patches_of_sentinel() -> Data:
    """Patches of 12 bands, four kinds of ground; every fifth polygon is for tests."""
    import pandas as pd
    import tifffile

    folder = data_folder() / "instruments" / "sentinel2_12band"
    table = pd.read_csv(folder / "labels.csv")
    x = np.stack([tifffile.imread(folder / file).transpose(1, 2, 0) for file in table["file"]])
    y, test = np.unique(table["class"], return_inverse=True)[1], (table["polygon"] % 5 == 0).to_numpy()
    return Data(x[~test], y[~test], x[test], y[test])


def families(name: str) -> Data:
    """Letters of sequences, and their families; X of RNA, an unknown base, is written N."""
    folder = data_folder() / "instruments" / name
    records = (record.split("\n") for record in (folder / "sequences.fasta").read_text().split(">")[1:])
    sequences = {header.split()[0]: "".join(lines) for header, *lines in records}
    with (folder / "labels.csv").open() as file:
        labels = [(row["id"], row["family"]) for row in csv.DictReader(file)]
    rna = name == "rna_families"
    texts = [sequences[key].replace("X", "N") if rna else sequences[key] for key, _ in labels]
    x = np.asarray(modality_of("dna" if rna else "proteins").read(texts))
    y = np.unique([family for _, family in labels], return_inverse=True)[1]
    train, test = train_test_split(np.arange(len(x)), test_size=0.2, random_state=0, stratify=y)
    return Data(x[train], y[train], x[test], y[test])


def cells_in_flow() -> Data:
    """Cells of imaging flow cytometry, three channels, 7 phases; 8-bit copies."""
    import pandas as pd
    import tifffile  # Pillow reads the first channel alone

    folder = data_folder() / "instruments" / "ifc_jurkat_16bit"
    table = pd.read_csv(folder / "labels.csv")
    tiles = [tifffile.imread(folder / file) for file in table["file"]]
    x = np.stack(tiles).astype(np.float32)
    low, high = np.percentile(x, (0.1, 99.9), axis=(0, 2, 3), keepdims=True)
    x = (255 * ((x - low) / (high - low)).clip(0, 1)).round().astype(np.uint8).transpose(0, 2, 3, 1)
    y = np.unique(table["phase"], return_inverse=True)[1]
    train, test = train_test_split(np.arange(len(x)), test_size=0.2, random_state=0, stratify=y)
    return Data(x[train], y[train], x[test], y[test])


IMAGES: dict[str, Callable[[], Data]] = {
    "cifar10_small": partial(image_set, "cifar10_small"),
    "fashion_mnist": partial(image_set, "fashion_mnist", 10_000, 5000),
    "mnist": partial(image_set, "mnist", 10_000, 5000),
    "cifar10": partial(image_set, "cifar10"),
}
FAMILIES = ("protein_families", "rna_families")
ACTORS = ("03", "08", "09", "10", "11", "12", "13", "14", "15", "16")
FOLDS, THIRDS = 5, 3
LONG = (transcripts, gene_families, localization)
PATCH, CROP, APART = 9, 16, 3  # sides, and pixels from one patch to the next
PANCREAS = ("E34", "G01", "J02")
BANDS = ("indian_pines", "pancreas_cells")
OF_BANDS = ("pca", "channel means")
DRAWERS, EXPRESSIONS = 15, ("anger", "happiness", "neutral", "sadness", "surprise")
LARGE = ("sign_digits", "omniglot", "expressions", "clothing")
WHOLE, PIXELS = "linear-contrast, not reduced", "pixels"
#: Public sets that do not lie with the data: left out where VIEWSMITH_DATA has no such folder.
BROUGHT: dict[str, dict[str, Callable[[], Data]]] = {
    "emodb": {f"actor {name}": partial(emotions, name) for name in ACTORS},
    "plaid": {"PLAID": appliances},
    "peptides": {f"peptides, fold {fold}": partial(peptides, fold, FOLDS) for fold in range(FOLDS)},
    **{made.__name__: {made.__name__: made} for made in LONG},
    "indian_pines": {f"Indian Pines, third {fold}": partial(fields_of_crops, fold) for fold in range(THIRDS)},
    "pancreas_cells": {f"pancreas, image {name}": partial(pancreas_cells, name) for name in PANCREAS},
    **{name: {name: partial(larger_images, name)} for name in LARGE},
}
OF_CHANNELS = [name for folder in BANDS for name in BROUGHT[folder]]
SETS: dict[str, Callable[[], Data]] = (
    IMAGES
    | {"ifc_jurkat_16bit": cells_in_flow}
    | {"ifc_16_bits": partial(tiles_in_flow, False), "ifc_16_bits_4_phases": partial(tiles_in_flow, True)}
    | {"sentinel2_12band": patches_of_sentinel}
    | {name: partial(ucr, name) for name in (*UCR, *UNEQUAL)}
    | {f"{name}, split {split}": partial(ucr, name, split) for split in SPLITS for name in (*UCR, *UNEQUAL)}
    | {name: partial(families, name) for name in FAMILIES}
    | {f"speaker {name}": partial(speaker, name) for name in SPEAKERS}
    | {f"beats of {record}": partial(beats_of, record) for record in RECORDS}
    | {name: made for brought in BROUGHT.values() for name, made in brought.items()}
)


def options(name: str) -> dict[str, Any]:
    """Options of both methods on a set."""
    if name.partition(",")[0] in (*UCR, *UNEQUAL) or name.startswith("beats"):
        return {"modality": "series"}
    if name == "PLAID":
        return {"modality": "series"}
    if name.startswith(("speaker", "actor")):
        rate = 8000 if name.startswith("speaker") else EMODB_RATE
        return {"modality": "series", "features": "log-mel", "features_options": {"sampling_rate": rate}}
    return {"view_maker": Turns()} if name == "ifc_jurkat_16bit" else {}


def usage() -> tuple[float, float]:
    """CPU seconds of this process so far, and its largest memory in GB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def work(name: str, row: str, seed: int, small: int | None = None) -> dict[str, Any]:
    """The results of a cell."""
    torch.set_num_threads(1)
    data = SETS[name]()
    if small is not None:
        data = Data(data.x[:small], data.y[:small], data.x_test[:small], data.y_test[:small])
    given, started = options(name), usage()[0]
    protocols = PROTOCOLS if np.bincount(data.y).min() >= 10 else PROTOCOLS[:2]
    more: dict[str, Any] = {}
    model: Any = None
    of_actors = row in OF_ACTORS or (row == "raw" and name.startswith("actor"))
    if row == PIXELS:
        pass
    elif row in ("contrastive", "raw", "k-mers", "catch22", *OF_BANDS) and not of_actors:
        trained = {key: value for key, value in given.items() if not key.startswith("features")}
        epochs: dict[str, Any] = {"epochs": 1} if row != "contrastive" or small is not None else {}
        # Rows of a scene are in its order.
        some = slice(0, None, max(1, len(data.x) // 200)) if name in OF_CHANNELS else slice(200)
        rows = data.x if row == "contrastive" else data.x[some]
        model = Contrastive(random_state=seed, **trained, **epochs).fit(rows)
    elif not of_actors:
        given |= {"features_options": LARGER[row]} if row in LARGER else {}
        given |= {"features_options": {"reduced_to": ()}} if row == WHOLE else {}
        given |= {"view_maker": row.partition(", ")[2]} if row in OF_SOUND else {}
        given |= {"view_maker": "turns", "upside_down": 0, "turn": 0, "diagonal": 0} if row == NO_TURNS else {}
        model = LinearContrast(random_state=seed, **given).fit(data.x)
    fitted = usage()[0] - started
    if row == "raw" and of_actors:
        more["raw"] = "log-mel spectrogram"
        spectra = LogMelPatches(PartContext(data.x.shape[1:], 1), sampling_rate=EMODB_RATE)
        h, h_test = (spectra.spectrogram(torch.from_numpy(x)).flatten(1).numpy() for x in (data.x, data.x_test))
    elif row in ("raw", "k-mers"):
        found = model.raw_features(data.x)
        words = [name for name in found if name.endswith("-mer frequencies")]
        more["raw"] = preferred(found, data.y) if row == "raw" else words[0]
        h, h_test = found[more["raw"]], model.raw_features(data.x_test)[more["raw"]]
    elif row == "pca":
        h, h_test = pca(*(next(iter(model.raw_features(x).values())) for x in (data.x, data.x_test)))
    elif row == PIXELS:
        h, h_test = (image_squares(list(x), 32).reshape(len(x), -1) / np.float32(255) for x in (data.x, data.x_test))
    elif row == "channel means":
        h, h_test = (x.mean(axis=(1, 2), dtype=np.float32) for x in (data.x, data.x_test))
    elif row == "catch22":
        h, h_test = find("baseline", row).build(BaselineContext(model, "", data.x, data.x_test))
    elif row == "log-mel statistics":
        h, h_test = log_mel_statistics(data.x), log_mel_statistics(data.x_test)
    elif row == "minirocket":
        h, h_test = minirocket(data.x, data.x_test, seed)
    elif row == "features":
        h, h_test = features(model, data.x), features(model, data.x_test)
    else:
        h, h_test = model.transform(data.x), model.transform(data.x_test)
    seconds, gigabytes = usage()
    if row.startswith("linear-contrast"):
        facts = model.summary_
        more = {"columns": h.shape[1], "ridge": facts["ridge"], "held_out_nats": facts["held_out_nats"]}
    scores = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=protocols)
    if given.get("modality") == "series":
        ridge = RidgeClassifierCV(np.logspace(-3, 3, 10)).fit(h, data.y)
        nearest = KNeighborsClassifier(1, metric="cosine").fit(h, data.y)
        scores |= {"ridge_classifier": ridge.score(h_test, data.y_test), "nearest": nearest.score(h_test, data.y_test)}
    if name.startswith("beats"):  # nearly all of a record are of one kind
        for probe, fitted_probe in (
            ("linear", make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))),
            ("knn", KNeighborsClassifier(5, metric="cosine")),
        ):
            guess = fitted_probe.fit(h, data.y).predict(h_test)
            scores[f"{probe}_balanced"] = balanced_accuracy_score(data.y_test, guess)
    return {
        **{metric: round(value, 4) for metric, value in scores.items()},
        "cpu_seconds_fit": round(fitted, 1),
        "cpu_seconds": round(seconds - started, 1),
        "gigabytes": round(gigabytes, 2),
        "rows": len(data.x),
        **more,
    }


def log_mel_statistics(x: np.ndarray) -> np.ndarray:
    """Mean and deviation over time of the logarithm of 40 mel bands of emotions, (n, 80)."""
    spectrum = torch.stft(torch.from_numpy(x[:, 0]), 512, 256, window=torch.hann_window(512), return_complex=True)
    log = (mel_filters(40, 512, EMODB_RATE) @ spectrum.abs().square() + 1e-8).log()
    return torch.cat([log.mean(2), log.std(2)], 1).numpy()


def minirocket(x: np.ndarray, x_test: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """MiniRocket's features of recordings, standardized by the train rows, without views, which take an hour here."""
    of, rows = MiniRocket(PartContext(x.shape[1:], x.shape[1])), torch.from_numpy((x - x.mean()) / x.std())
    of.fit(rows, torch.Generator().manual_seed(seed))
    h, h_test = of(rows), of(torch.from_numpy((x_test - x.mean()) / x.std()))
    center, scale = h.mean(0), h.std(0).clamp_min(1e-6)
    return ((h - center) / scale).numpy(), ((h_test - center) / scale).numpy()


def features(model: LinearContrast, x: np.ndarray) -> np.ndarray:
    """Standardized fixed features of samples."""
    method: LinearContrastMethod = model.method_  # type: ignore[assignment]
    rows, found = model.checked_rows(x), []
    with torch.no_grad():
        for start in range(0, len(rows), 512):
            images = shrunken(model.scale_rows(rows[start : start + 512]), method.shrunk)
            found.append(method.framework.encoder.standardized(images).cpu().numpy())
    return np.concatenate(found)


def cells(quick: bool = False) -> list[Cell]:
    """All cells; with `quick` of 60 tiny images."""
    if quick:
        rows = ("raw", "features", "linear-contrast", "contrastive")
        return [Cell("cifar10_small", row, 0, partial(work, "cifar10_small", row, 0, small=60)) for row in rows]
    absent = [name for name in BROUGHT if not Path(os.environ.get("VIEWSMITH_DATA", ""), name).is_dir()]
    if absent:
        print(f"left out, no folder in VIEWSMITH_DATA: {', '.join(absent)}")
    left_out = {name for folder in absent for name in BROUGHT[folder]}
    brought, of_long = {name for sets in BROUGHT.values() for name in sets}, {made.__name__ for made in LONG}
    return [
        Cell(name, row, seed, partial(work, name, row, seed))
        for row in (
            "linear-contrast",
            *OF_ACTORS,
            *OF_BANDS,
            *LARGER,
            WHOLE,
            PIXELS,
            "features",
            "raw",
            "k-mers",
            "catch22",
            "contrastive",
            *OF_SOUND,
            NO_TURNS,
        )
        for seed in SEEDS
        for name in SETS
        if name not in left_out and (name not in brought or name in OF_CHANNELS or seed == 0)
        if row not in OF_ACTORS or name.startswith("actor")
        if row not in OF_BANDS or name in OF_CHANNELS
        if name in LARGE or row not in (WHOLE, PIXELS)
        if name not in LARGE or row in ("linear-contrast", "features", WHOLE, PIXELS)
        if row == "linear-contrast" or name not in OF_CHANNELS or seed == 0
        if (seed == 0 or row not in ("raw", "k-mers", "catch22", *OF_SOUND, *OF_BANDS))
        and (name == "cifar10" or row not in LARGER)
        if row != "k-mers" or name in FAMILIES or name.startswith("peptides") or name in of_long
        if row not in OF_SOUND or name.startswith("speaker")
        if row != NO_TURNS or name in TURNED
        if ", split" not in name or (seed == 0 and row in ("linear-contrast", "features"))
        if row != "catch22" or (options(name).get("modality") == "series" and not name.startswith("actor"))
        # A training on 50,000 images takes an hour.
        if not (row == "contrastive" and (name == "cifar10" or name in brought))
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "linear_contrast.jsonl", cells)
