"""What recurs, and where: `Discovery` with its defaults on real images, DNA and recordings, planted motifs and nothing.

discovery         the default
farthest, center  images: the window farthest from the mean of its own image; the box in the middle, a third of the side
lost, tokencut    images: LOST (Simeoni et al. 2021) and TokenCut (Wang et al. 2022), on the same features
energy            syllables: frames whose energy is above Otsu's threshold
xqrs              records: the detector of wfdb, on the first channel
ostinato          recordings: the consensus motif of 100 pieces (Kamgar et al. 2019; stumpy.ostinato) of the width
                  that discovery chooses, and its nearest window in every piece (extra bench)

Sets: bccd (blood smears), bccd_gray; cards (photographs of playing cards on tables, one to five in each, with boxes in
VOC XML: `images` of EdjeElectronics' public tutorial on object detection, as the folder `cards`); mnist, fashion and
cifar (an object among fragments of others, clutter.py: fitted to the 1,500 training images, scored on 500 others); crp
(binding sites); families of proteins (two kinds) and RNA; promoters (with a TATA box: `Arabidopsis_tata.fa` of
solovictor/CNNPromoterData, as the folder `promoters`); ecg100 (as it is, with drift, with noise); syllables of birdsong
(birdsong_wav_events: F1 at half of the union, and of those NMI of the kinds); records 100, 106 and 108 of MIT-BIH
(beats within 150 ms); planted (a word of
15 letters with 4 changed in each of 20 sequences of 600, Pevzner and Sze 2000); half (10,000 sequences of 200, half of
them with a word of 15, 2 letters changed); and nothing: textures of five spectra, the fragments of mnist and fashion
without an object, sequences with shuffled letters that keep their pairs, recordings with random phases. Cost, with
smears mirrored and turned: many (10,000 images of 96 x 128; also 2,500 and 5,000 of them) and large (1,000 of 1,024 x
1,024); smears (as they are, reading included). Choice on the smears: parts of them (crop), one window given (windows),
and, also on cards, another longer side (sizes), every other one (half 0, half 1), 16 bits; three kinds sought (kinds;
one kind: in textures with a disc in each, so that there is one), average precision over all white cells with one part
in an image or up to three (precision).
Known places are read for the scores alone.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_discovery [minutes] [set ...]
"""

from __future__ import annotations

import csv
import itertools
import multiprocessing
import os
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.linalg import eigh
from scipy.ndimage import find_objects, uniform_filter1d
from scipy.ndimage import label as components
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score, roc_auc_score

from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.crl_tac import clutter
from benchmarks.quality.suite import command, rounded
from viewsmith import Discovery, LinearContrast
from viewsmith.data.any_size import ImageList, as_images, read_samples, reduced
from viewsmith.data.dataset import Windows
from viewsmith.data.sounds import otsu_threshold
from viewsmith.methods.discovery.events import random_phases
from viewsmith.methods.discovery.image_parts import window_means
from viewsmith.methods.discovery.images import ImageSearch
from viewsmith.workflows.discover import kinds_of

PATH = RESULTS / "study_discovery.jsonl"
DRAWS = 20
LEAST_SIMILAR, AFFINITY, SEED_PATCHES = 0.2, 1e-5, 100  # of TokenCut, and of LOST
SIDES = ("left", "top", "right", "bottom")
CORNERS = ("xmin", "ymin", "xmax", "ymax")
CONSENSUS = 100  # pieces in which ostinato looks for a motif
IMAGE_ROWS = ("discovery", "farthest", "center", "lost", "tokencut")


def folder() -> Path:
    """The folder of the data sets."""
    return Path(os.environ["VIEWSMITH_DATA"])


# ---- images ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=3)
def smears(thing: str = "WBC") -> tuple[Any, list[np.ndarray]]:
    """Blood smears, and the boxes of one thing (white cells) in each, (k, 4): left, top, right, bottom."""
    images, names, *_ = read_samples(str(folder() / "objects" / "bccd" / "images"))
    boxes: dict[str, list[list[float]]] = {name: [] for name in names or []}
    with (folder() / "objects" / "bccd" / "boxes.csv").open() as file:
        for row in csv.DictReader(file):
            if row["class"] == thing and row["file"] in boxes:
                boxes[row["file"]].append([float(row[side]) for side in SIDES])
    return images, [np.array(own).reshape(-1, 4) for own in boxes.values()]


@lru_cache(maxsize=1)
def cards() -> tuple[Any, list[np.ndarray]]:
    """Photographs of playing cards, and the boxes (k, 4) of those in each."""
    images, names, *_ = read_samples(str(folder() / "cards"))
    known = []
    for name in names or []:
        root = ElementTree.parse((folder() / "cards" / name).with_suffix(".xml")).getroot()
        corners = [[float(box.findtext(key, "")) for key in CORNERS] for box in root.iter("bndbox")]
        known.append(np.array(corners).reshape(-1, 4))
    return images, known


def overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of a box (4,) with others (k, 4)."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.clip(high - low, 0, None).prod(1)
    return both / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - both)


def places(found: list[np.ndarray], known: list[np.ndarray]) -> dict[str, float]:
    """Shares of the images with a known box whose found box has its center in one, and overlaps one by half."""
    centers, halves = [], []
    for box, own in zip(found, known, strict=True):
        if len(own):
            middle = (box[:2] + box[2:]) / 2
            centers.append(((own[:, :2] <= middle) & (middle < own[:, 2:])).all(1).any())
            halves.append(overlap(box, own).max() >= 0.5)
    return {"center": float(np.mean(centers)), "corloc": float(np.mean(halves)), "images": len(centers)}


def in_photographs(name: str, row: str, seed: int) -> dict[str, Any]:
    """Center and CorLoc of a row on smears or cards, and CPU seconds."""
    images, known = cards() if name == "cards" else smears()
    if name == "bccd_gray":
        images = [images.read(i, (96, 128)).mean(2).round().astype(np.uint8) for i in range(len(images))]
        known = [own / 5 for own in known]  # 640 x 480 to 128 x 96
    if row == "discovery":
        return scores(images, known, random_state=seed)
    images = as_images(images)
    began = time.process_time()
    shapes = np.array(images.shapes)
    if row == "center":
        boxes = [np.array([width, height, 2 * width, 2 * height]) / 3 for height, width in shapes]
    else:
        maps, valid = ImageSearch(seed=seed)._features(images, np.arange(len(known)))
        method = {"farthest": farthest, "lost": lost, "tokencut": tokencut}[row]
        mean, boxes = maps[valid].mean(0), []
        for own, cells_, shape in zip(maps, valid, shapes, strict=True):
            height, width = cells_[:, 0].sum(), cells_[0].sum()
            boxes.append(method(own[:height, :width] - mean) * np.tile((shape / (height, width))[::-1], 2))
    return places(boxes, known) | {"cpu_seconds": time.process_time() - began}


def scores(images: Any, known: list[np.ndarray], **options: Any) -> dict[str, Any]:
    """Center and CorLoc of the best place of discovery in every image, whether it is listed or not."""
    began = time.process_time()
    model = Discovery(**options).fit(images)
    result: dict[str, Any] = {"recurs": model.recurs_, "kinds": len(model.parts_)}
    if model.recurs_:
        parts = model.search_.candidates(images)
        parts = parts[parts["kind"] == 0][::-1]
        found = np.full((len(known), 4), -1.0)
        found[parts["sample"]] = np.stack([parts[side] for side in SIDES], 1)  # the best one is written last
        result |= places(list(found), known)
    return result | {"cpu_seconds": time.process_time() - began}


def composed(name: str, row: str, seed: int) -> dict[str, Any]:
    """Center and CorLoc of a row on images with one object among fragments of others."""
    train, _ = clutter.make(name, 1500, seed)
    x, boxes = clutter.make(name, 500, seed, "test")
    known = [np.array([[left, top, left + width, top + height]], float) for top, left, height, width in boxes]
    began = time.process_time()
    height, width = x.shape[1:3]
    found = np.full((len(x), 4), -1.0)
    result: dict[str, Any] = {}
    if row == "center":
        found[:] = np.array([width, height, 2 * width, 2 * height]) / 3
    elif row == "discovery":
        model = Discovery(random_state=seed).fit(train)
        parts = model.search_.candidates(x)
        found[parts["sample"]] = np.stack([parts[side] for side in SIDES], 1)
        result["recurs"] = model.recurs_
    else:
        search = ImageSearch(seed=seed)
        search._features(as_images(train), np.arange(256))
        maps, _ = search._maps(as_images(x), np.arange(len(x)))
        method = {"farthest": farthest, "lost": lost, "tokencut": tokencut}[row]
        mean = maps.reshape(-1, maps.shape[-1]).mean(0)
        found[:] = [method(m - mean) * np.tile((width / m.shape[1], height / m.shape[0]), 2) for m in maps]
    return rounded(places(list(found), known) | result | {"cpu_seconds": time.process_time() - began})


def farthest(features: np.ndarray, side: int = 7) -> np.ndarray:
    """The window (left, top, right, bottom, in cells) farthest from the mean of the image."""
    means = window_means(features[None], side)[0]
    distance = ((means - means.mean((0, 1))) ** 2).sum(2)
    top, left = np.unravel_index(distance.argmax(), distance.shape)
    return np.array([left, top, left + side, top + side], float)


def _box_of(mask: np.ndarray, place: int) -> np.ndarray:
    """The box of the connected part of a mask that contains a cell."""
    parts, _ = components(mask)
    rows_, columns = np.nonzero(parts == parts.ravel()[place])
    return np.array([columns.min(), rows_.min(), columns.max() + 1, rows_.max() + 1], float)


def lost(features: np.ndarray) -> np.ndarray:
    """LOST: the cell that is alike to the fewest, those alike to it among the rarest, and what is alike to these."""
    height, width, d = features.shape
    x = features.reshape(-1, d)
    alike = x @ x.T
    degree = (alike > 0).sum(1)
    seed = int(degree.argmin())
    rare = np.argsort(degree, kind="stable")[:SEED_PATCHES]
    similar = rare[alike[seed, rare] > 0]
    mask = (alike[:, similar].sum(1) > 0).reshape(height, width)
    mask.ravel()[seed] = True
    return _box_of(mask, seed)


def tokencut(features: np.ndarray) -> np.ndarray:
    """TokenCut: the second eigenvector of the normalized cut of cells, above its mean, around its largest value."""
    height, width, d = features.shape
    x = features.reshape(-1, d)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    weight = np.where(x @ x.T > LEAST_SIMILAR, 1.0, AFFINITY)
    degree = np.diag(weight.sum(1))
    vector = eigh(degree - weight, degree, subset_by_index=[1, 1])[1][:, 0]
    largest = int(abs(vector).argmax())
    vector = vector * np.sign(vector[largest])
    return _box_of((vector > vector.mean()).reshape(height, width), largest)


def photographs_with(name: str, half: int | None = None, bits: int = 8, **options: Any) -> dict[str, Any]:
    """Center and CorLoc of discovery with other options than the defaults, on smears or cards, or every other one of
    them, with as many bits."""
    images, known = cards() if name == "cards" else smears()
    if half is not None or bits != 8:
        rows_, factor = np.arange(len(images))[slice(half, None, 1 if half is None else 2)], 2 ** (bits - 8)
        x, known = images, [known[i] for i in rows_]

        def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
            pixels = x.read(int(rows_[i]), size)
            return pixels if bits == 8 else pixels.astype(np.uint16) * factor

        images = ImageList([x.shapes[i] for i in rows_], read, 3, dtype=f"uint{bits}")
    return scores(images, known, **options)


#: Parts of the smears, as fractions of width and height: left, top, right, bottom.
CROPS = {
    "left": (0.0, 0.0, 0.75, 1.0),
    "right": (0.25, 0.0, 1.0, 1.0),
    "top": (0.0, 0.0, 1.0, 0.75),
    "bottom": (0.0, 0.25, 1.0, 1.0),
    "middle": (0.125, 0.125, 0.875, 0.875),
    "half": (0.25, 0.25, 0.75, 0.75),
}


def in_crops(part: str) -> dict[str, Any]:
    """Center and CorLoc of discovery on a part of each smear; cells with their center outside do not count."""
    images, known = smears()
    left, top, right, bottom = np.array(CROPS[part]) * (640, 480, 640, 480)
    x = [images.read(i, None)[int(top) : int(bottom), int(left) : int(right)] for i in range(len(images))]
    low, high = np.array([left, top] * 2), np.array([right, bottom] * 2)
    middles = [(own[:, :2] + own[:, 2:]) / 2 for own in known]
    inside = [((m >= low[:2]) & (m < high[:2])).all(1) for m in middles]
    known = [np.clip(own[kept], low, high) - low for own, kept in zip(known, inside, strict=True)]
    return rounded(scores(x, known))


def precision_in_smears(max_parts: int) -> dict[str, Any]:
    """Average precision of all boxes at an overlap of .5, over all white cells, and without images that have no label.

    The area under precision by recall, each precision the largest at its recall or more.
    """
    images, known = smears()
    model = Discovery(max_parts=max_parts).fit(images)
    found = np.sort(model.search_.candidates(images), order="score")[::-1]
    taken = [np.zeros(len(own), bool) for own in known]
    right = np.zeros(len(found), bool)
    for i, part in enumerate(found):
        own = known[part["sample"]]
        alike = overlap(np.array([part[side] for side in SIDES], float), own) if len(own) else np.zeros(1)
        best = int(alike.argmax())
        if alike[best] >= 0.5 and not taken[part["sample"]][best]:
            right[i] = taken[part["sample"]][best] = True
    labeled = np.array([len(known[i]) > 0 for i in found["sample"]])
    cells_ = sum(map(len, known))

    def area(hits: np.ndarray) -> float:
        precision = np.maximum.accumulate((hits.cumsum() / np.arange(1, len(hits) + 1))[::-1])[::-1]
        return float(precision[hits].sum() / cells_)

    scores = {"ap": area(right), "ap_of_labeled": area(right[labeled]), "found": right.sum(), "cells": cells_}
    return rounded(scores | {"parts": len(found)})


def kinds_in_smears(seed: int) -> dict[str, Any]:
    """For each of three kinds, up to 12 in an image: listed parts, shares of them with the center in a label, and of
    the labels in which one has its center."""
    known = {thing: smears(thing)[1] for thing in ("WBC", "Platelets", "RBC")}
    images, _ = smears()
    began = time.process_time()
    model = Discovery(kinds=3, max_parts=12, random_state=seed).fit(images)
    result: dict[str, Any] = {"kinds": len(model.parts_), "cpu_seconds": time.process_time() - began}
    listed = model.locate(images)
    result |= {"listed": len(listed), "listed: kinds": len(set(listed["kind"]))}
    parts = model.set_params(unjudged=True).locate(images)
    middle = np.stack([parts["left"] + parts["right"], parts["top"] + parts["bottom"]], 1) / 2
    for thing, boxes in known.items():
        for kind in range(len(model.parts_)):
            inside, around = [], []
            for i, own in enumerate(boxes):
                m = middle[(parts["sample"] == i) & (parts["kind"] == kind)][:, None]
                hits = ((m >= own[:, :2]) & (m < own[:, 2:])).all(2)
                inside.append(hits.any(1))
                around.append(hits.any(0))
            result[f"{kind}: in {thing}"] = np.concatenate(inside).mean()
            result[f"{thing}: found by {kind}"] = np.concatenate(around).mean()
    for kind, part in enumerate(model.parts_):
        of_kind = parts["sample"][parts["kind"] == kind]
        result |= {f"{kind}: parts": len(of_kind), f"{kind}: images": len(set(of_kind)), f"{kind}: window": part.window}
    return rounded(result)


def many_smears(n: int, shape: tuple[int, int]) -> ImageList:
    """n images: smears in their order, then again mirrored, upside-down and both, and so on, made when read."""
    smears_, _ = smears()

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        turn, source = divmod(i, len(smears_))
        image = smears_.read(source, (480, 640))[:: 1 - 2 * (turn & 1), :: 1 - (turn & 2)]
        image = reduced(image, shape)
        return image if size is None else reduced(image, size)

    return ImageList([shape] * n, read, 3)


#: Number of images and their shape.
COSTS = {"many, 2500": (2_500, (96, 128)), "many, 5000": (5_000, (96, 128)), "many": (10_000, (96, 128))}
COSTS |= {"large": (1_000, (1024, 1024))}
SMEARS = "smears"  # as they are, from their files


def cost(kind: str) -> dict[str, Any]:
    """CPU seconds and peak memory of `fit` and `locate` in a process of its own, reading included, and images with a
    part; the many are PNG files, whose making does not count."""
    with multiprocessing.get_context("spawn").Pool(1) as pool, tempfile.TemporaryDirectory() as place:
        if kind.startswith("many"):
            made = many_smears(*COSTS[kind])
            for i in range(len(made)):
                Image.fromarray(made.read(i, None)).save(Path(place) / f"{i:05d}.png", compress_level=1)
        return pool.apply(_cost, (kind, place))


def _cost(kind: str, place: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    began = time.process_time()
    images = smears()[0] if kind == SMEARS else many_smears(*COSTS[kind])
    images = read_samples(place)[0] if kind.startswith("many") else images
    model = Discovery().fit(images)
    fitted = time.process_time()
    found = model.locate(images)
    status = Path("/proc/self/status").read_text()  # the peak of resource begins with that of the parent
    return rounded(
        {
            "recurs": model.recurs_,
            "located": len(np.unique(found["sample"])) / len(images),
            "fit_seconds": fitted - began,
            "cpu_seconds": time.process_time() - began,
            "peak_gib": int(status.split("VmHWM:")[1].split()[0]) / 2**20,
        }
    )


# ---- DNA ------------------------------------------------------------------------------------------------------------


def binding_sites() -> tuple[list[str], list[list[int]]]:
    """Sequences with binding sites, and the middles of the known sites, from 0."""
    lines = (folder() / "motifs" / "crp.fa").read_text().splitlines()
    sites = [[int(s) + 10 for s in line.split("sites=")[1].split(",")] for line in lines if line.startswith(">")]
    return [line for line in lines if not line.startswith(">")], sites


FAMILIES = {
    "protein": ("Pkinase", "SMC_N", "RRM_1", "fn3", "globin", "LuxC", "Patched", "Caudal_act"),
    "RNA": ("tRNA", "5S_rRNA"),
    "promoters": tuple(f"{name}.fa" for name in ("Arabidopsis_tata", "Mouse_tata", "Ecoli_prom", "Bacillus_prom")),
}


def in_crp(seed: int, windows: list[int] | None = None) -> dict[str, Any]:
    """Sequences whose best site, or one of the best two, is within 3 letters of a known one."""
    texts, sites = binding_sites()
    began = time.process_time()
    model = Discovery(windows=windows, random_state=seed).fit(texts)
    if not model.recurs_:
        return {"recurs": False, "sequences": len(texts), "cpu_seconds": time.process_time() - began}
    found = model.search_.candidates(texts)
    spent = time.process_time() - began
    near = [min(abs((s["start"] + s["end"]) / 2 - m) for m in sites[s["sample"]]) <= 3 for s in found]
    model.search_.max_parts = 2
    two = model.search_.candidates(texts)
    either = {s["sample"] for s in two if min(abs((s["start"] + s["end"]) / 2 - m) for m in sites[s["sample"]]) <= 3}
    return {
        "recurs": model.recurs_,
        "width": model.parts_[0].width,
        "near": sum(near),
        "near_of_two": len(either),
        "sequences": len(texts),
        "cpu_seconds": spent,
    }


def in_family(kind: str, name: str, seed: int) -> dict[str, Any]:
    """Motifs of a family of proteins (two kinds) or RNA (12 and 16 letters), the sequences in which each is listed, and
    the share of these that have it within 5 letters of one place."""
    place = folder() / ("promoters" if kind == "promoters" else f"instruments/{kind.lower()}_families")
    records = (place / (name if kind == "promoters" else "sequences.fasta")).read_text().split(">")[1:]
    samples = ["".join(record.split("\n")[1:]) for record in records]
    if kind != "promoters":
        with (place / "labels.csv").open() as file:
            of = [row["family"] for row in csv.DictReader(file)]
        samples = [text for text, own in zip(samples, of, strict=True) if own == name]
    options: dict[str, Any] = {
        "protein": {"kinds": 2, "modality": "proteins"},
        "RNA": {"windows": [12, 16], "both_strands": False},
    }.get(kind, {})
    began = time.process_time()
    model = Discovery(random_state=seed, **options).fit(samples)
    found = model.locate(samples)
    starts = [found["start"][found["kind"] == i] for i in range(len(model.parts_))]
    near = [max((np.mean(abs(own - at) <= 5) for at in np.unique(own)), default=0.0) for own in starts]
    result = {"motifs": [part.consensus for part in model.parts_], "listed": [len(own) for own in starts]}
    result |= {"at_one_place": [round(float(share), 3) for share in near], "sequences": len(samples)}
    return result | {"cpu_seconds": round(time.process_time() - began, 1)}


def planted_words(
    seed: int, n: int = 20, length: int = 600, width: int = 15, changed: int = 4
) -> tuple[np.ndarray, np.ndarray, int]:
    """Codes of n sequences with a word in each, where it starts, and its width."""
    rng = np.random.default_rng(1000 + seed)
    codes = rng.integers(0, 4, (n, length))
    word, starts = rng.integers(0, 4, width), rng.integers(0, length - width + 1, n)
    for own, start in zip(codes, starts, strict=True):
        site, at = word.copy(), rng.choice(width, changed, replace=False)
        site[at] = (site[at] + rng.integers(1, 4, changed)) % 4
        own[start : start + width] = site
    return codes, starts, width


def planted(seed: int, *size: int) -> dict[str, Any]:
    """Performance coefficient of the sites of a planted word, of known width and on one strand."""
    codes, starts, width = planted_words(seed, *size)
    n = len(codes)
    texts = np.frombuffer(b"ACGT", np.uint8)[codes]
    began = time.process_time()
    model = Discovery(windows=[width], both_strands=False, random_state=seed).fit(texts)
    best = model.parts_[0] if model.recurs_ else max(model.tried_[0], key=lambda motif: motif.evidence.gain)
    common = np.clip(width - abs(best.best_sites(codes.astype(np.uint8))[0] - starts), 0, None).sum()
    coefficient = common / (2 * width * n - common)
    spent = time.process_time() - began
    return rounded(
        {
            "coefficient": coefficient,
            "gain": best.evidence.gain,
            "p": best.evidence.p,
            "recurs": model.recurs_,
            "cpu_seconds": spent,
        }
    )


def half(seed: int, n: int = 10_000, length: int = 200, word: bytes = b"TTGACAGGTATAATC") -> dict[str, Any]:
    """Area under the curve of the score for the presence of a word, on either strand."""
    rng = np.random.default_rng(seed)
    letters = np.frombuffer(b"ACGT", np.uint8)
    x, present = rng.choice(letters, (n, length)), rng.random(n) < 0.5
    other = np.frombuffer(word.translate(bytes.maketrans(b"ACGT", b"TGCA"))[::-1], np.uint8)
    for i in np.flatnonzero(present):
        site = (np.frombuffer(word, np.uint8) if rng.random() < 0.5 else other).copy()
        site[rng.choice(len(word), 2, replace=False)] = rng.choice(letters, 2)
        start = int(rng.integers(0, length - len(word)))
        x[i, start : start + len(word)] = site
    began = time.process_time()
    model = Discovery(random_state=seed).fit(x)
    area = roc_auc_score(present, model.score_samples(x)) if model.recurs_ else 0.5
    return rounded({"auc": float(area), "recurs": model.recurs_, "cpu_seconds": time.process_time() - began})


def shuffled(text: str, rng: np.random.Generator) -> str:
    """A random text with the same pairs of letters, by a random Euler path (Altschul and Erickson 1985)."""
    while True:
        following: dict[str, list[str]] = {letter: [] for letter in dict.fromkeys(text)}
        for a, b in itertools.pairwise(text):
            following[a].append(b)
        last = {a: str(rng.choice(b)) for a, b in following.items() if b and a != text[-1]}
        if all(_leads(a, last, text[-1]) for a in last):
            break
    for a, b in following.items():
        if a in last:
            b.remove(last[a])
        rng.shuffle(b)
        if a in last:
            b.append(last[a])
    made = [text[0]]
    while len(made) < len(text):
        made.append(following[made[-1]].pop(0))
    return "".join(made)


def _leads(letter: str, last: dict[str, str], end: str) -> bool:
    """Whether the last edges lead from a letter to the end."""
    for _ in range(len(last) + 1):
        if letter == end:
            return True
        letter = last[letter]
    return False


# ---- recordings -----------------------------------------------------------------------------------------------------


def beats(kind: str, row: str, seed: int) -> dict[str, Any]:
    """Pieces that are located, and those within 50 ms of one common distance from a beat."""
    with np.load(folder() / "events" / "ecg100.npz") as content:
        x, known, rate = content["X"], content["beats"], int(content["rate"])
    rng, deviation = np.random.default_rng(seed + 1), float(x.std())
    seconds = np.arange(x.shape[1]) / rate
    slow = rng.uniform(0.1, 0.5, (len(x), 1)), rng.random((len(x), 1))
    added = {
        "ecg100": 0.0,
        "ecg100_drift": 5 * deviation * np.sin(2 * np.pi * (seconds * slow[0] + slow[1])),
        "ecg100_noise": rng.normal(0, deviation, x.shape),
    }
    x = (x + added[kind]).astype(np.float32)
    if row == "ostinato":
        ostinato(x[:4, :120].astype(np.float64), width=x.shape[1] // 24)  # compiles it
    began = time.process_time()
    if row == "ostinato":
        sample, start = np.arange(len(x)), ostinato(x.astype(np.float64), width=x.shape[1] // 24)
    else:
        found = Discovery(random_state=seed).fit(x).locate(x)
        sample, start = found["sample"], found["start"]
    spent = time.process_time() - began
    offsets = [at - own[own >= 0] for at, own in zip(start, known[sample], strict=True)]
    near = [np.mean([(abs(o - d) <= rate / 20).any() for o in offsets]) for d in range(-x.shape[1] // 4, 60)]
    return rounded({"located": len(sample) / len(x), "near": max(near, default=0.0), "cpu_seconds": spent})


def in_record(name: str, row: str, seed: int) -> dict[str, Any]:
    """Sensitivity and positive predictive value for the beats of a record of 30 minutes, within 150 ms."""
    place = folder() / "instruments" / "ecg_mitbih_wfdb"
    with (place / "labels.csv").open() as file:
        known = np.array([int(each["sample"]) for each in csv.DictReader(file) if each["record"] == name])
    began = time.process_time()
    if row == "xqrs":
        import wfdb.processing

        record = wfdb.rdrecord(str(place / name), channels=[0])
        at = np.asarray(wfdb.processing.xqrs_detect(record.p_signal[:, 0], record.fs, verbose=False))
    else:
        samples = read_samples(str(place / f"{name}.hea"), length="3s")
        found = Discovery(modality="series", max_parts=8, random_state=seed).fit(samples.rows).locate(samples.rows)
        assert isinstance(samples.windows, Windows)
        found = found[samples.windows.distinct(found)]
        at = np.sort(samples.windows.starts[found["sample"]] + (found["start"] + found["end"]) // 2)
    spent = time.process_time() - began
    nearest = known[np.abs(at[:, None] - known).argmin(1)] - at
    at = at + int(np.median(nearest[np.abs(nearest) < 100]))
    distance = np.abs(known[:, None] - at)
    one, other = linear_sum_assignment(np.where(distance <= 54, distance, 10_000))
    right = int((distance[one, other] <= 54).sum())
    return rounded({"sensitivity": right / len(known), "precision": right / len(at), "cpu_seconds": spent})


def syllables(row: str, seed: int) -> dict[str, Any]:
    """F1 of the syllables that share half of the union with a sound, and of these NMI of the kinds."""
    place = folder() / "instruments" / "birdsong_wav_events"
    with (place / "events.csv").open() as file:
        events = [(e["file"], float(e["start_s"]), float(e["end_s"]), e["syllable"]) for e in csv.DictReader(file)]
    began, kinds = time.process_time(), np.zeros(0, int)
    samples = read_samples(str(place / "wav"), "series", length="sounds")
    assert isinstance(samples.windows, Windows) and samples.windows.ends is not None
    windows = samples.windows
    files, begin, end = windows.recordings, windows.starts / (windows.rate or 1), samples.windows.ends / windows.rate
    if row == "energy":
        files, begin, end = by_energy(place / "wav", sorted({event[0] for event in events}))
    else:
        model = LinearContrast(
            modality="series", features="log-mel", features_options={"sampling_rate": windows.rate}, random_state=seed
        ).fit(samples.rows)
        kinds = kinds_of(model.transform(samples.rows), seed=seed)[0]
    spent = time.process_time() - began
    matched: list[tuple[int, int]] = []
    for name in {event[0] for event in events}:
        own, known = np.flatnonzero(files == name), [i for i, event in enumerate(events) if event[0] == name]
        first, last = (np.array([events[i][k] for i in known])[:, None] for k in (1, 2))
        shared = (np.minimum(last, end[own]) - np.maximum(first, begin[own])).clip(0)
        union = np.maximum(last, end[own]) - np.minimum(first, begin[own])
        one, other = linear_sum_assignment(-(shared >= union / 2).astype(float))
        matched += [(known[i], own[j]) for i, j in zip(one, other, strict=True) if shared[i, j] >= union[i, j] / 2]
    result = {"f1": 2 * len(matched) / (len(events) + len(files)), "sounds": len(files), "cpu_seconds": spent}
    if len(kinds):
        pairs = np.array([(int(events[i][3]), kinds[j]) for i, j in matched]).T
        result |= {"nmi": float(normalized_mutual_info_score(*pairs)), "kinds": int(kinds.max()) + 1}
    return rounded(result)


def by_energy(place: Path, names: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """File, begin and end in seconds of what has more energy than the threshold of its file, in frames of 8 ms."""
    import soundfile

    found: list[tuple[str, float, float]] = []
    for name in names:
        x, rate = soundfile.read(place / name)
        frames = np.lib.stride_tricks.sliding_window_view(np.pad(x, 128), 256)[::64] * np.hanning(256)
        level = 10 * np.log10(uniform_filter1d((frames**2).sum(1), 5) + 1e-12)
        for (span,) in find_objects(components(level > otsu_threshold(level))[0]):
            if (span.stop - span.start) * 64 >= 0.02 * rate:
                found.append((name, span.start * 64 / rate, span.stop * 64 / rate))
    files, begin, end = zip(*found, strict=True)
    return np.array(files), np.array(begin), np.array(end)


def ostinato(x: np.ndarray, width: int) -> np.ndarray:
    """First points (n,) of the windows nearest to the consensus motif of the first pieces, by stumpy."""
    import stumpy  # type: ignore[import-not-found, unused-ignore]

    _, piece, at = stumpy.ostinato(list(x[:CONSENSUS]), width)
    motif = x[piece, at : at + width]
    return np.array([int(np.argmin(stumpy.mass(motif, own))) for own in x])


# ---- nothing --------------------------------------------------------------------------------------------------------


def fragments(name: str, seed: int) -> np.ndarray:
    """300 images whose object is replaced by what another image, which has its object elsewhere, has there."""
    x, boxes = clutter.make(name, 600, seed)
    made = x.copy()
    corners, rng = boxes[:, :2], np.random.default_rng(seed)
    height, width = boxes[0, 2:]
    for i in range(300):
        apart = (abs(corners - corners[i]) >= (height, width)).any(1)
        top, left = corners[i]
        place = slice(top, top + height), slice(left, left + width)
        made[i][place] = x[rng.choice(np.flatnonzero(apart))][place]
    return made[:300]


def textures(seed: int) -> np.ndarray:
    """100 images of noise with one of five spectra."""
    exponent = (0.0, -0.5, -1.0, -1.5, -2.0)[seed % 5]
    frequency = np.hypot(np.fft.fftfreq(96)[:, None], np.fft.fftfreq(128)[None])
    frequency[0, 0] = 1
    noise = np.fft.fft2(np.random.default_rng(seed).normal(size=(100, 3, 96, 128))) * frequency**exponent
    x = np.fft.ifft2(noise).real
    x = x / x.std((2, 3), keepdims=True) * 40 + 128
    return np.clip(x, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)


def one_kind(seed: int) -> dict[str, Any]:
    """How many of three kinds are found in textures with one violet disc in each, so that there is one."""
    x, rng = textures(seed), np.random.default_rng(seed)
    row, column = np.mgrid[: x.shape[1], : x.shape[2]]
    for image in x:
        top, left = rng.integers(14, x.shape[1] - 14), rng.integers(14, x.shape[2] - 14)
        disc = np.hypot(row - top, column - left) < 13
        image[disc] = np.clip(rng.normal((80, 50, 170), 15, (disc.sum(), 3)), 0, 255)
    began = time.process_time()
    model = Discovery(kinds=3, max_parts=3, random_state=seed).fit(x)
    spent = time.process_time() - began
    return rounded({"recurs": model.recurs_, "kinds": len(model.parts_), "cpu_seconds": spent})


def nothing(kind: str, seed: int) -> dict[str, Any]:
    """Whether something recurs where nothing was planted."""
    rng, options = np.random.default_rng(seed), {}
    if kind.startswith("textures"):
        samples: Any = textures(seed)
        options = {"max_parts": 12} if kind.endswith("several") else {}
    elif kind == "fragments":
        samples = fragments(("mnist", "fashion")[seed % 2], seed)
    elif kind == "shuffled":
        samples = [shuffled(text, rng) for text in binding_sites()[0]]
    else:
        with np.load(folder() / "events" / "ecg100.npz") as content:
            samples = random_phases(content["X"][:, None], rng)[:, 0]
    began = time.process_time()
    recurs = Discovery(random_state=seed, **options).fit(samples).recurs_
    return {"recurs": recurs, "cpu_seconds": round(time.process_time() - began, 2)}


def cells(quick: bool = False) -> list[Cell]:
    """All cells."""

    def work(function: Callable[..., dict[str, Any]], *arguments: Any) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            torch.set_num_threads(1)
            return function(*arguments)

        return run

    if quick:
        return [Cell("planted", "discovery", 0, work(planted, 0, 8, 60, 10, 1))]
    sets = ("bccd", "bccd_gray", "cards")
    found = [Cell(name, row, 0, work(in_photographs, name, row, 0)) for name in sets for row in IMAGE_ROWS]
    found += [
        Cell(name, "discovery", seed, work(in_photographs, name, "discovery", seed))
        for name in ("bccd", "cards")
        for seed in range(1, 5)
    ]
    found += [Cell(f"crop, {part}", "discovery", 0, work(in_crops, part)) for part in CROPS]
    found += [Cell("crp", "discovery", seed, work(in_crp, seed)) for seed in range(5)]
    found += [Cell("crp, windows 18", "discovery", seed, work(in_crp, seed, [18])) for seed in range(5)]
    found += [
        Cell(kind, row, 0, work(beats, kind, row, 0))
        for row in ("discovery", "ostinato")
        for kind in ("ecg100", "ecg100_drift", "ecg100_noise")
    ]
    found += [
        Cell(name, row, seed, work(composed, name, row, seed))
        for seed in range(DRAWS)
        for name in clutter.FILES
        for row in IMAGE_ROWS
        if seed == 0 or (row == "discovery" and (seed < 3 or name == "cifar"))
    ]
    found += [Cell("syllables", row, 0, work(syllables, row, 0)) for row in ("discovery", "energy")]
    found += [
        Cell(f"record {name}", row, 0, work(in_record, name, row, 0))
        for row in ("discovery", "xqrs")
        for name in ("100", "106", "108")
    ]
    found.append(Cell("half", "discovery", 0, work(half, 0)))
    for kind, names in FAMILIES.items():
        found += [Cell(f"{kind}, {name}", "discovery", 0, work(in_family, kind, name, 0)) for name in names]
    for kind in ("textures", "textures, several", "fragments", "shuffled", "phases"):
        found += [Cell(kind, "discovery", seed, work(nothing, kind, seed)) for seed in range(DRAWS)]
    found += [Cell("planted", "discovery", seed, work(planted, seed)) for seed in range(2 * DRAWS)]
    found += [Cell("one kind", "discovery", seed, work(one_kind, seed)) for seed in range(DRAWS)]
    found += [Cell(kind, "discovery", 0, work(cost, kind)) for kind in (SMEARS, *COSTS)]
    given: dict[str, dict[str, Any]] = {f"windows {side}": {"windows": [side]} for side in (2, 3, 4, 5, 7, 9, 11)}
    given |= {f"sizes {size}": {"image_size": size} for size in (64, 96, 160, 192)}
    given |= {f"half {half}": {"half": half} for half in (0, 1)} | {"16 bits": {"bits": 16}}
    found += [Cell("kinds", "discovery", seed, work(kinds_in_smears, seed)) for seed in range(3)]
    found += [Cell(f"precision, {n} parts", "discovery", 0, work(precision_in_smears, n)) for n in (1, 3)]
    for what, options in given.items():
        found.append(Cell(what, "discovery", 0, work(partial(photographs_with, "smears", **options))))
        if not what.startswith("windows"):
            found.append(Cell(f"cards, {what}", "discovery", 0, work(partial(photographs_with, "cards", **options))))
    return found


def table() -> str:
    """Means over seeds of every set and row."""
    lines = ["| set | row | seeds | scores |", "|---|---|---|---|"]
    found = [row for row in rows(PATH) if "error" not in row]
    for name, method in dict.fromkeys((row["dataset"], row["method"]) for row in found):
        own = [row for row in found if (row["dataset"], row["method"]) == (name, method)]
        keys = (
            "center",
            "corloc",
            "near",
            "near_of_two",
            "located",
            "sensitivity",
            "precision",
            "f1",
            "nmi",
            "coefficient",
            "gain",
            "auc",
            "recurs",
            "kinds",
            "cpu_seconds",
            "peak_gib",
        )
        means = {key: np.mean([float(row[key]) for row in own if key in row]) for key in keys if key in own[0]}
        lines.append(f"| {name} | {method} | {len(own)} | {', '.join(f'{k} {v:.3f}' for k, v in means.items())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
