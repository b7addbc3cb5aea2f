"""Images with the boxes that the channel of CRL-TAC finds, and heat maps of its probabilities."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.estimators.locations import Locator
from viewsmith.reports import Gallery
from viewsmith.views.learned.transforms import Crops

COLOR = (255, 96, 0)
TILE = 96  # pixels of a tile, on which the outline of a box is one pixel wide


class FindsBoxes(Locator, Protocol):
    """The interface of a model whose boxes are drawn."""

    def locate(self, X: np.ndarray, n: int = 1) -> np.ndarray: ...


def box_gallery(model: FindsBoxes, x: np.ndarray, count: int) -> Gallery:
    """Some images with boxes and heat maps, in the order of the probability of their boxes, the smallest first.

    Parameters
    ----------
    model : FindsBoxes
        Its transformations are crops.
    x : ndarray, shape (n, H, W[, C])
        Images, uint8.
    count : int
        Number of images, selected at equal distances in this order.

    Raises
    ------
    InputError
        The transformations are not crops.
    """
    family = model.method_.channel.family
    if not isinstance(family, Crops):
        raise InputError("boxes are of crops of images")
    found = model.locate(x)
    probability = np.zeros(len(x))
    probability[found["sample"]] = found["probability"]
    ranks = np.linspace(0, len(x) - 1, min(count, len(x))).round().astype(int)
    selected = np.argsort(probability, kind="stable")[ranks]
    images = _in_color(x[selected])
    boxed = images.copy()
    for image, row in zip(boxed, selected, strict=True):
        for box in found[found["sample"] == row]:
            draw_box(image, *(box[side] for side in ("top", "left", "height", "width")))
    boxes = family.boxes(torch.zeros(1, 1, *x.shape[1:3]))[0].numpy()
    heat = cover(model.distribution(x[selected]), boxes, images.shape[1:3])
    white = (255 * heat / np.maximum(heat.max(axis=(1, 2), keepdims=True), 1e-12)).round().astype(np.uint8)
    without = int((probability == 0).sum())
    caption = (
        f"{len(selected)} of {len(x)} images, hardest first: the probability of the box rises from "
        f"{probability[selected[0]]:.2f} to {probability[selected[-1]]:.2f}; no location is found in {without}. "
        "Image; box; probability that a pixel is in a view (white: the largest)"
    )
    return Gallery("Where the channel looks", caption, images, np.stack([boxed, _in_color(white)], axis=1), "pixels")


def cover(p: np.ndarray, boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Probability that a pixel is in a view, (n, H, W), from P(T|x), (n, M), and the boxes of the views, (M, 4)."""
    made = np.zeros((len(p), *shape))
    ends = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1).round().astype(int)
    for weights, (top, left, bottom, right) in zip(p.T, ends, strict=True):
        made[:, top:bottom, left:right] += weights[:, None, None]
    return made


def draw_box(image: np.ndarray, top: float, left: float, height: float, width: float) -> None:
    """Draw the outline of a box into an image, (H, W, 3), inside the box."""
    wide = -(-max(image.shape[:2]) // TILE)
    rows, columns = slice(round(top), round(top + height)), slice(round(left), round(left + width))
    inside = image[rows, columns].copy()
    image[rows, columns] = COLOR
    if min(inside.shape[:2]) > 2 * wide:
        image[rows, columns][wide:-wide, wide:-wide] = inside[wide:-wide, wide:-wide]


def _in_color(images: np.ndarray) -> np.ndarray:
    """Gray or color images (n, H, W[, 1 or 3]) as (n, H, W, 3)."""
    given = images if images.ndim == 4 else images[..., None]
    return np.repeat(given, 3, axis=3) if given.shape[3] == 1 else given.copy()
