"""Images of one object at a random place among clutter, with its box; made from the data sets of the benchmarks.

mnist      a digit of 28 x 28 pixels among 8 fragments of other digits, on black, 84 x 84
fashion    an item of 28 x 28 pixels on patches of other items, 7 x 7 each, 84 x 84
cifar      an object of 32 x 32 pixels on patches of other images, 8 x 8 each, in color, 64 x 64

Fragments have 9 x 9 pixels and come from the inner part of a digit. Objects are test images if `split` is "test", and
so is the clutter. No image is used twice as an object while there are others.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.common.data import data_folder

FILES = {"mnist": "mnist", "fashion": "fashion_mnist", "cifar": "cifar10_small"}
SIDES = {"mnist": 84, "fashion": 84, "cifar": 64}
PATCHES = {"fashion": 7, "cifar": 8}
STREAMS = {"mnist": 0, "fashion": 3, "cifar": 4}  # of random numbers
FRAGMENTS, FRAGMENT, MARGIN = 8, 9, 4  # their number, side, and least distance from the edge of a digit

Split = Literal["train", "test"]


def make(name: str, n: int, seed: int, split: Split = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images (n, side, side) or (n, side, side, 3), uint8, and boxes (n, 4) of top, left, height and width."""
    source = _source(data_folder() / f"{FILES[name]}.npz", split)
    rng = np.random.default_rng([seed, STREAMS[name], split == "test"])
    rows = np.concatenate([rng.permutation(len(source)) for _ in range(-(-n // len(source)))])[:n]
    side = SIDES[name]
    images = np.zeros((n, side, side, *source.shape[3:]), np.uint8)
    boxes = np.zeros((n, 4), np.int64)
    for image, thing, box in zip(images, source[rows], boxes, strict=True):
        if name == "mnist":
            _scatter(image, source, rng)
        else:
            _tile(image, source, PATCHES[name], rng)
        height, width = thing.shape[:2]
        top, left = (int(rng.integers(0, side - length + 1)) for length in (height, width))
        image[top : top + height, left : left + width] = thing
        box[:] = top, left, height, width
    return images, boxes


@functools.lru_cache(maxsize=2)
def _source(file: Path, split: Split) -> np.ndarray:
    with np.load(file) as archive:
        found: np.ndarray = archive[f"X_{split}"]
        return found


def _scatter(image: np.ndarray, source: np.ndarray, rng: np.random.Generator) -> None:
    """Put fragments of images at random places; later ones cover earlier ones."""
    inner, side = source.shape[1] - MARGIN - FRAGMENT + 1, len(image)
    for other in source[rng.integers(0, len(source), FRAGMENTS)]:
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
