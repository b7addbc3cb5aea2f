"""Images of one object at a random place among clutter, with its box; made from the data sets of the benchmarks.

mnist           a digit of 28 x 28 pixels among 8 fragments of other digits, on black, 84 x 84
mnist 16        16 fragments
mnist scaled    8 fragments; the digit is resized by a random factor of 0.7 to 1.4
fashion         an item of 28 x 28 pixels on patches of other items, 7 x 7 each, 84 x 84
fashion 12      the patches have 12 x 12 pixels
fashion two     two items, which do not overlap, on patches of 7 x 7 pixels
cifar           an object of 32 x 32 pixels on patches of other images, 8 x 8 each, in color, 64 x 64

Fragments have 9 x 9 pixels and come from the inner part of a digit. Objects are test images if `split` is "test", and
so is the clutter. No image is used twice as an object while there are others.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.common.data import data_folder

NAMES = ("mnist", "mnist 16", "mnist scaled", "fashion", "cifar", "fashion 12", "fashion two")
FILES = {"mnist": "mnist", "fashion": "fashion_mnist", "cifar": "cifar10_small"}
SIDES = {"mnist": 84, "fashion": 84, "cifar": 64}
FRAGMENT, MARGIN = 9, 4  # side of a fragment, and its least distance from the edge of its digit
PATCHES = {"fashion": 7, "cifar": 8, "fashion 12": 12, "fashion two": 7}
FACTORS = 0.7, 1.4

Split = Literal["train", "test"]


def make(name: str, n: int, seed: int, split: Split = "train") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the images of a regime.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    n : int
        Number of images.
    seed : int
        Determines objects, places and clutter.
    split : {"train", "test"}
        Part of the data set that objects and clutter come from.

    Returns
    -------
    images : ndarray, uint8 (n, 84, 84) or (n, 64, 64, 3)
    labels : ndarray, (n,)
        Class of the object; with two items, (n, 2).
    boxes : ndarray, int64 (n, 4)
        Top, left, height and width of the object, in pixels; of two items, (n, 2, 4).
    """
    kind = name.split()[0]
    source, classes = _source(data_folder() / f"{FILES[kind]}.npz", split)
    rng = np.random.default_rng([seed, NAMES.index(name), split == "test"])
    count = 2 if name == "fashion two" else 1
    rows = np.concatenate([rng.permutation(len(source)) for _ in range(-(-n * count // len(source)))])[: n * count]
    side = SIDES[kind]
    images = np.zeros((n, side, side, *source.shape[3:]), np.uint8)
    boxes = np.zeros((n, count, 4), np.int64)
    for image, things, places in zip(images, source[rows.reshape(n, count)], boxes, strict=True):
        if kind == "mnist":
            _scatter(image, source, 16 if name.endswith("16") else 8, rng)
        else:
            _tile(image, source, PATCHES[name], rng)
        for number, thing in enumerate(things):
            if name == "mnist scaled":
                thing = resized(thing, round(len(thing) * rng.uniform(*FACTORS)))
            places[number] = _free_place(thing.shape[:2], side, places[:number], rng)
            top, left, height, width = places[number]
            image[top : top + height, left : left + width] = thing
    if count == 1:
        boxes = boxes[:, 0]
    else:
        rows = rows.reshape(n, count)
    return images, classes[rows], boxes


@functools.lru_cache(maxsize=2)
def _source(file: Path, split: Split) -> tuple[np.ndarray, np.ndarray]:
    with np.load(file) as archive:
        return archive[f"X_{split}"], archive[f"y_{split}"]


def _free_place(shape: tuple[int, ...], side: int, taken: np.ndarray, rng: np.random.Generator) -> tuple[int, ...]:
    """A random box of this shape in an image that overlaps none of the boxes (k, 4)."""
    height, width = shape
    while True:
        top, left = (int(rng.integers(0, side - length + 1)) for length in shape)
        first, last = np.maximum(taken[:, :2], (top, left)), taken[:, :2] + taken[:, 2:]
        if not (np.minimum(last, (top + height, left + width)) > first).all(axis=1).any():
            return top, left, height, width


def _scatter(image: np.ndarray, source: np.ndarray, count: int, rng: np.random.Generator) -> None:
    """Put fragments of images at random places; later ones cover earlier ones."""
    inner, side = source.shape[1] - MARGIN - FRAGMENT + 1, len(image)
    for other in source[rng.integers(0, len(source), count)]:
        y, x = rng.integers(MARGIN, inner, 2)
        top, left = rng.integers(0, side - FRAGMENT + 1, 2)
        image[top : top + FRAGMENT, left : left + FRAGMENT] = other[y : y + FRAGMENT, x : x + FRAGMENT]


def _tile(image: np.ndarray, source: np.ndarray, patch: int, rng: np.random.Generator) -> None:
    """Cover an image with patches, each from a random place of a random image; the side is a multiple of a patch's."""
    cells = [(top, left) for top in range(0, len(image), patch) for left in range(0, len(image), patch)]
    others = rng.integers(0, len(source), len(cells))
    for (top, left), other in zip(cells, others, strict=True):
        y, x = rng.integers(0, source.shape[1] - patch + 1, 2)
        image[top : top + patch, left : left + patch] = source[other, y : y + patch, x : x + patch]


def resized(image: np.ndarray, side: int) -> np.ndarray:
    pixels = torch.from_numpy(image)[None, None].float()
    made = F.interpolate(pixels, (side, side), mode="bilinear", antialias=True)
    return made[0, 0].round().clamp(0, 255).to(torch.uint8).numpy()
