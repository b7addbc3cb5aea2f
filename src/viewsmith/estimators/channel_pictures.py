"""What a report shows of an augmentation channel: where P(T|x) lies, and how alike embeddings of samples are."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.estimators.crl_tac import CRLTAC
from viewsmith.reports import FeatureProfile, Gallery, SortedSimilarities
from viewsmith.views.families import Crops, Masks

PAIRS = 400  # samples whose pairs are compared


def channel_pictures(model: CRLTAC, x: np.ndarray, samples: np.ndarray, galleries: list[Gallery]) -> dict[str, Any]:
    """Heat maps (images) or a profile (vectors) of P(T|x), and sorted similarities of pairs."""
    shown: dict[str, Any] = {"orders": [_sorted(model, x[:PAIRS])]}
    family = model._channel().family
    if isinstance(family, Crops):
        shown["galleries"] = [*galleries, heat_maps(model, samples)]
    elif isinstance(family, Masks):
        kept = model.distribution(x[:PAIRS]).mean(axis=0) @ family.masks.cpu().numpy()
        unit, caption = "probability", "Probability that a view keeps the feature, mean over rows"
        names = model.fitted_["feature_names"] or None
        shown["profiles"] = [FeatureProfile("Features that the channel keeps", kept, names, caption, unit)]
    return shown


def heat_maps(model: CRLTAC, samples: np.ndarray) -> Gallery:
    """Images beside P(T|x) over the corners of crops (as in figure 3 of the paper), and what the crops cover."""
    family = model._channel().family
    if not isinstance(family, Crops):
        raise InputError("heat maps are of crops of images")
    p = model.distribution(samples)
    height, width = samples.shape[1:3]
    corners, covered = np.zeros((2, len(samples), height, width), np.float64)
    first = 0
    for layer, (rows, columns) in enumerate(grid for grid in family.grids for _ in range(1 + family.flip)):
        share = p[:, first : first + rows * columns].reshape(-1, rows, columns)
        first += rows * columns
        mirrored = family.flip and layer % 2
        scaled = family.sizes[layer // (1 + family.flip)]
        for row in range(rows):
            for column in range(columns):
                # Back from the image as it is cut to the image as it was given.
                left = scaled[1] - family.crop - column * family.stride if mirrored else column * family.stride
                top, tall, wide = row * family.stride, family.crop, family.crop
                area = _scaled((top, top + tall), scaled[0], height), _scaled((left, left + wide), scaled[1], width)
                covered[:, area[0], area[1]] += share[:, row, column, None, None]
        corner = share[:, :, ::-1] if mirrored else share
        at = np.arange(height) * rows // height, np.arange(width) * columns // width
        corners += corner[:, at[0][:, None], at[1]]
    tiles = [_white(part, samples) for part in (corners, covered)]
    caption = "Image; P(T|x) by the crop's corner; probability that a pixel is in the view (white: the largest)"
    return Gallery("Where the channel looks", caption, samples, np.stack(tiles, axis=1), "images")


def _scaled(ends: tuple[int, int], size: int, given: int) -> slice:
    return slice(round(ends[0] * given / size), round(ends[1] * given / size))


def _white(part: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Non-negative values (n, H, W) as uint8 images like the samples, the largest of each white."""
    grey = (255 * part / np.maximum(part.max(axis=(1, 2), keepdims=True), 1e-12)).round().astype(np.uint8)
    return grey if samples.ndim == 3 else np.repeat(grey[..., None], samples.shape[3], axis=3)


def _sorted(model: CRLTAC, x: np.ndarray) -> SortedSimilarities:
    found = {"trained": _pairs(model.transform(x, output="projection"))}
    found["before training"] = _pairs(model.untrained(x).transform(x, output="projection"))
    caption = f"Absolute inner products of the embeddings of {len(x)} rows, all pairs"
    return SortedSimilarities("Similarity of different samples", found, caption)


def _pairs(h: np.ndarray) -> np.ndarray:
    h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
    return np.abs(h @ h.T)[np.triu_indices(len(h), 1)].clip(0, 1)
