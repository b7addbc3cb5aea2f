"""Images of different sizes as samples of one: their center squares, resized."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, say

SMALLEST_SIDE = 4
MOST_SIDE = 128  # pixels of a side that is chosen


def size_of(shape: Sequence[int]) -> str:
    """Height and width for a message."""
    return f"{shape[0]} x {shape[1]} pixels"


def common_side(sizes: Sequence[tuple[int, int]], source_name: object, *, fitted: bool = False) -> int | None:
    """Side of the squares as which images (height, width) of different sizes are samples: the median of their shorter
    sides, at most `MOST_SIDE`; None if all have one size. It is said; later data of a model, `fitted`, are refused."""
    found = sorted(set(sizes), key=lambda size: (min(size), max(size)))
    if len(found) == 1:
        return None
    both = f"{source_name}: images of {len(found)} sizes, {size_of(found[0])} to {size_of(found[-1])}"
    if fitted:
        raise InputError(
            f"{both}, expected the one size that the model was fitted on: fit it with image_size (--image-size), which "
            "resizes its images and later ones"
        )
    side = min(MOST_SIDE, int(np.median([min(size) for size in sizes])))
    if side < SMALLEST_SIDE:
        raise InputError(
            f"{both}, expected sides of at least {SMALLEST_SIDE} pixels: recordings, (channels, time) each, need "
            "modality='series' (--modality series)"
        )
    say(f"{both}: their center squares are resized to {side} x {side} (another side: image_size, --image-size)")
    return side


def of_one_size(X: Any, fitted: Sequence[int] | None) -> Any:
    """A list of images of different sizes as squares of one, that of the shape `fitted` if it is given; other data as
    they are."""
    images = [np.asarray(image) for image in X] if isinstance(X, list | tuple) else []
    if not images or min(image.ndim for image in images) < 2:
        return X
    sizes = {image.shape[:2] for image in images}
    if fitted is not None:
        return image_squares(images, fitted[0]) if fitted[0] == fitted[1] and sizes != {tuple(fitted[:2])} else X
    side = common_side([image.shape[:2] for image in images], "the data") if len(sizes) > 1 else None
    return X if side is None else image_squares(images, side)


def image_squares(images: Sequence[np.ndarray], side: int) -> np.ndarray:
    """Images of any sizes as samples of one: the center square of each, resized as by ``image_size`` of files.

    Parameters
    ----------
    images : sequence of ndarray, shape (H, W) or (H, W, C)
        uint8, uint16 or floats, all of one type and number of channels; H and W may differ.
    side : int
        Pixels per side of the squares, at least 4.

    Returns
    -------
    ndarray, shape (n, side, side, C)
        In the type of the images, floats as float32.

    Raises
    ------
    InputError
        No images, or images of different types or channels.

    Examples
    --------
    >>> import numpy as np
    >>> from viewsmith.data import image_squares
    >>> image_squares([np.ones((8, 9, 2), "uint16"), np.ones((16, 12, 2), "uint16")], 8).shape
    (2, 8, 8, 2)
    """
    if side < SMALLEST_SIDE:
        raise InputError(f"side is {side}, expected at least {SMALLEST_SIDE} pixels")
    given = [np.asarray(image) for image in images]
    given = [image[..., None] if image.ndim == 2 else image for image in given]
    if not given:
        raise InputError("no images were given, expected a list of arrays (H, W) or (H, W, C)")
    first, found = given[0], []
    for i, image in enumerate(given):
        if image.ndim != 3 or image.shape[2:] != first.shape[2:] or image.dtype != first.dtype or not image.size:
            raise InputError(
                f"image {i} is {image.dtype} of shape {image.shape}, and image 0 {first.dtype} of shape {first.shape}: "
                "expected images (H, W) or (H, W, C) of one type and number of channels"
            )
        found.append(square(image.astype(np.float32) if image.dtype.kind == "f" else image, side))
    return np.stack(found)


def square(image: np.ndarray, side: int) -> np.ndarray:
    """The center square of an image (H, W, C), resized, in its type."""
    from PIL import Image

    shorter = min(image.shape[:2])
    top, left = ((size - shorter) // 2 for size in image.shape[:2])
    center = image[top : top + shorter, left : left + shorter].astype(np.float32)
    planes = [
        Image.fromarray(plane).resize((side, side), Image.Resampling.BILINEAR) for plane in center.transpose(2, 0, 1)
    ]
    resized = np.stack([np.asarray(plane) for plane in planes], axis=2)
    return resized if image.dtype.kind == "f" else np.rint(resized).astype(image.dtype)
