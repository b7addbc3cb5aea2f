"""Rules for arrays of images: dtype, shape, channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import one_line

SMALLEST_SIDE = 4


def image_rows(X: Any, what: str = "the data") -> np.ndarray:
    """Images with their channels last, one row each.

    Parameters
    ----------
    X : array-like of uint8, shape (n, H, W) or (n, H, W, C)
        Values 0 to 255; C is 1 (gray) or 3 (red, green, blue), H and W are at least 4.
    what : str
        How messages name the data.

    Returns
    -------
    rows : ndarray of uint8, shape (n, H, W, C)
        Shares memory with `X` where that is contiguous.

    Raises
    ------
    InputError
        Another dtype or shape.
    """
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise InputError(
            f"{what}: images of several shapes, expected one; resize or crop them ({one_line(error, 100)})"
        ) from error
    if rows.ndim and len(rows) == 0:
        raise InputError(f"{what}: no images, shape {rows.shape}; expected uint8 (n, H, W) or (n, H, W, 1 or 3)")
    check_images(rows, what)
    return np.ascontiguousarray(rows if rows.ndim == 4 else rows[..., None])


def same_shape(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether samples have one shape: an image with one channel of gray, (H, W, 1), and one without are the same."""
    plain = [tuple(shape)[:2] if tuple(shape)[2:] == (1,) else tuple(shape) for shape in (one, other)]
    return plain[0] == plain[1]


def is_images(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, H, W) or (n, H, W, 1 or 3) with sides of at least 4 pixels."""
    shaped = x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3))
    return x.dtype == np.uint8 and shaped and min(x.shape[1:3]) >= SMALLEST_SIDE


def check_images(x: np.ndarray, what: str = "the data") -> None:
    """Raise InputError for an array that is not images."""
    if not is_images(x):
        raise InputError(
            f"{what}: {x.dtype} of shape {x.shape}; images are uint8 (n, H, W) or (n, H, W, 1 or 3), values 0 to 255; "
            f"{image_advice(x)}"
        )


def image_advice(x: np.ndarray) -> str:
    """What to do with an array that is not images, by what it is."""
    todo = []
    if x.ndim not in (3, 4):
        return "reshape them with X.reshape(n, H, W), or (n, H, W, 3)"
    sides = x.shape[1:3]
    if x.ndim == 4 and x.shape[3] not in (1, 3):
        if x.shape[1] in (1, 3):
            todo.append("put the channels last: X.transpose(0, 2, 3, 1)")
            sides = x.shape[2:]
        elif x.shape[3] == 4:
            todo.append("leave out the alpha channel: X[..., :3]")
        else:
            todo.append("keep 1 or 3 channels, as the last dimension")
    if min(sides) < SMALLEST_SIDE:
        todo.append(
            f"the sides are at least {SMALLEST_SIDE} pixels: enlarge them, or take every row as a flat vector with "
            "domain='vectors' (--domain vectors)"
        )
    elif x.dtype.kind == "f":
        todo.append(
            "multiply values of 0 to 1 by 255 and cast: (X * 255).astype(np.uint8), or take every row as a flat vector "
            "with domain='vectors' (--domain vectors)"
        )
    elif x.dtype != np.uint8:
        todo.append("cast values of 0 to 255 with X.astype(np.uint8)")
    return "; ".join(todo)
