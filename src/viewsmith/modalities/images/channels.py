"""Channels of images: which images have colors, the range of each channel, composites in named colors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError

WHITE = 255  # of pictures

#: Percentiles of the values of a channel that are its range.
RANGE = (0.1, 99.9)

#: Colors of the channels of a composite, red, green, blue, with their names; one channel is gray.
COLORS = {
    "magenta": (1.0, 0.0, 1.0),
    "green": (0.0, 1.0, 0.0),
    "cyan": (0.0, 1.0, 1.0),
    "yellow": (1.0, 1.0, 0.0),
    "red": (1.0, 0.0, 0.0),
    "blue": (0.2, 0.3, 1.0),
}


def channel_ranges(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each channel, float32 (C,), of values (m, C): two percentiles, or smallest and
    largest value where these are equal, as in a channel that is dark nearly everywhere."""
    low, high = (np.asarray(each, np.float32) for each in np.percentile(values, RANGE, axis=0))
    least, most = (values.min(axis=0).astype(np.float32), values.max(axis=0).astype(np.float32))
    return np.where(high > low, low, least), np.where(high > low, high, most)


def is_photograph(shape: Sequence[int], dtype: object) -> bool:
    """Whether images of this shape, (H, W), (H, W, C) or (C,), are gray or have colors: 8 bits, 1 or 3 channels."""
    channels = 1 if len(shape) == 2 else shape[-1]
    return str(dtype).removeprefix("torch.") == "uint8" and channels in (1, 3)


def check_photographs(part: str, channels: int, dtype: object, todo: str) -> None:
    """Raise InputError for a part that is for photographs, and images that are none."""
    if not is_photograph((channels,), dtype):
        raise InputError(
            f"{part} for photographs of 8 bits, gray or of three colors, and the images have {channels} x {dtype}: "
            f"{todo}"
        )


def with_scale_bar(pictures: np.ndarray, micrometers: float) -> tuple[np.ndarray, str]:
    """Pictures (n, H, W) or (n, H, W, C) with a bar at the lower left, and what it stands for: a round length of at
    most a third of the width; `micrometers` is the side of a pixel."""
    height, width = pictures.shape[1:3]
    most = width * micrometers / 3
    if not 0 < most < np.inf:
        return pictures, ""
    power = 10.0 ** np.floor(np.log10(most))
    length = max(step * power for step in (1, 2, 5) if step * power <= most * (1 + 1e-9))
    pixels, thick, margin = max(1, round(length / micrometers)), max(1, height // 40), max(1, height // 20)
    drawn = pictures.copy()
    low = height - margin
    for edge, value in ((1, pictures.min()), (0, pictures.max())):  # dark around light, seen on any image
        rows = slice(max(low - thick - edge, 0), low + edge)
        drawn[:, rows, max(margin - edge, 0) : margin + pixels + edge] = value
    unit, size = next(
        (unit, size)
        for unit, size in (("m", 1e6), ("mm", 1e3), ("µm", 1), ("nm", 1e-3))
        if length >= size or unit == "nm"
    )
    return drawn, f"Bar: {length / size:g} {unit}."


def composites(images: np.ndarray) -> np.ndarray:
    """Images (n, H, W) or (n, H, W, C) as pictures, uint8 (n, H, W, 3): each channel in its range over all images; one
    in gray, others in their `COLORS`, added up."""
    values = np.asarray(images if images.ndim == 4 else images[..., None], np.float32)
    low, high = channel_ranges(np.nan_to_num(values.reshape(-1, values.shape[3])))
    unit = np.nan_to_num((values - low) / np.where(high > low, high - low, 1)).clip(0, 1)
    if unit.shape[3] == 1:
        mixed = np.repeat(unit, 3, axis=3)
    else:
        palette = np.array(list(COLORS.values()))
        mixed = (unit @ palette[np.arange(unit.shape[3]) % len(palette)]).clip(0, 1)
    return to_pixels(mixed)


def pictures(images: np.ndarray) -> np.ndarray:
    """Images (n, H, W) or (n, H, W, C) as pictures, uint8 (n, H, W, 3): photographs as they are, else `composites`."""
    if not is_photograph(images.shape[1:], images.dtype):
        return composites(images)
    given = images if images.ndim == 4 else images[..., None]
    return np.repeat(given, 3 // given.shape[3], axis=3)


def to_pixels(values: Any) -> np.ndarray:
    """Pixels of 8 bits, whatever samples are, of numbers from 0, black, to 1, white; others are clipped."""
    return np.asarray((WHITE * np.clip(values, 0, 1)).round().astype(np.uint8))
