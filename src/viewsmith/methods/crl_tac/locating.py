"""Locations that the channel of CRL-TAC finds in samples, as structured arrays, and crops at these locations."""

from __future__ import annotations

import numbers
from typing import Any, Protocol

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.core.rows import Rows
from viewsmith.methods.crl_tac.locations import crop_boxes, largest_effective, locate_boxes, locate_features
from viewsmith.methods.crl_tac.training import CRLTACMethod
from viewsmith.methods.crl_tac.transforms import Crops, Masks, Windows
from viewsmith.modalities import Modality

BLOCK = 256  # samples whose P(T|x) is in memory at a time

BOX = np.dtype([("sample", "i8"), *((side, "f8") for side in ("top", "left", "height", "width", "probability"))])

WINDOW = np.dtype([("sample", "i8"), ("start", "i8"), ("end", "i8"), ("probability", "f8")])

FEATURE = np.dtype([("sample", "i8"), ("feature", "i8"), ("probability", "f8")])


class Locator(Protocol):
    """The interface of a model that finds locations."""

    @property
    def method_(self) -> CRLTACMethod: ...
    @property
    def modality_(self) -> Modality: ...
    def distribution(self, X: Any) -> np.ndarray: ...
    def checked_rows(self, X: Any) -> np.ndarray: ...
    def samples(self, X: Any) -> Rows: ...


def locate(model: Locator, X: Any, n: int) -> np.ndarray:
    """Find locations; see `CRLTAC.locate`."""
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        raise InputError(f"n is {n!r}, expected a whole number of at least 1")
    family = model.method_.channel.family
    limit = largest_effective(family.size, float(model.method_.chosen))
    if isinstance(family, Masks):
        p = torch.from_numpy(model.distribution(X))
        features, probability, found = locate_features(p, family.masks.cpu(), int(n), limit)
        return _entries(FEATURE, 0, found, features, probability)
    rows = model.checked_rows(X)
    blocks = [_locations(model, rows, start, int(n), limit) for start in range(0, len(rows), BLOCK)]
    return np.concatenate(blocks)


@torch.no_grad()
def _locations(model: Locator, rows: np.ndarray, start: int, n: int, limit: float) -> np.ndarray:
    """Locations in a block of rows."""
    block = rows[start : start + BLOCK]
    boxes = model.method_.channel.family.boxes(model.samples(block)[:].cpu())
    if boxes is None:
        raise InputError(
            "the transformations of the model have no location in a sample, so that nothing can be located: "
            "distribution(X) has their probabilities"
        )
    located, probability, found = locate_boxes(torch.from_numpy(model.distribution(block)), boxes, n, limit)
    if isinstance(model.method_.channel.family, Windows):
        first, length = located[..., 1], located[..., 3]
        return _entries(WINDOW, start, found, first.round(), (first + length).round(), probability)
    return _entries(BOX, start, found, *located.unbind(2), probability)


def _entries(dtype: np.dtype, start: int, found: torch.Tensor, *columns: torch.Tensor) -> np.ndarray:
    """Columns (B, n) as a structured array of the entries with `found` (B, n), sample by sample."""
    made = np.empty(int(found.sum()), dtype)
    sample = start + torch.arange(len(found))[:, None].expand(found.shape)
    for name, column in zip(dtype.names or (), (sample, *columns), strict=True):
        made[name] = column[found].numpy()
    return made


def cut(model: Locator, X: Any, found: np.ndarray) -> np.ndarray:
    """Cut crops out of images, (k, side, side[, C]), or windows out of sequences, with zeros after their end."""
    if found.dtype == FEATURE:
        raise InputError("features of vectors cannot be cut out: views(X) has samples with only some of the features")
    rows = model.checked_rows(X)
    if found.dtype == WINDOW:
        lengths = found["end"] - found["start"]
        windows = np.zeros((len(found), *rows.shape[1:-1], int(lengths.max(initial=1))), rows.dtype)
        for crop, length, window in zip(windows, lengths, found, strict=True):
            crop[..., :length] = rows[window["sample"], ..., window["start"] : window["end"]]
        return windows
    family = model.method_.channel.family
    side = family.crop if isinstance(family, Crops) else int(found["height"].round().max(initial=1))
    boxes = np.stack([found[name] for name in ("top", "left", "height", "width")], axis=1)
    crops = np.empty((len(found), side, side, *rows.shape[3:]), rows.dtype)
    for start in range(0, len(found), BLOCK):
        part = slice(start, start + BLOCK)
        images = rows[found["sample"][part]]
        in_color = torch.from_numpy(images if images.ndim == 4 else images[..., None])
        crops[part] = crop_boxes(in_color, torch.from_numpy(boxes[part]), side).numpy().reshape(crops[part].shape)
    return crops
