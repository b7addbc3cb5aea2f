"""Channels of images: which images have colors, the range of each channel, composites in named colors; and images of
different sizes as samples of one: their center squares, resized."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, check, say
from viewsmith.core.rows import is_pil

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


def as_pixels(values: np.ndarray) -> np.ndarray:
    """Values as uint8 if all of them are whole numbers of that type, else as they are."""
    pixels = values.clip(0, WHITE).astype(np.uint8)
    return pixels if np.array_equal(pixels, values) else values


def is_photograph(shape: Sequence[int], dtype: object) -> bool:
    """Whether images of this shape, (H, W), (H, W, C) or (C,), are gray or have colors: 8 bits, 1 or 3 channels."""
    channels = 1 if len(shape) == 2 else shape[-1]
    return str(dtype).removeprefix("torch.") == "uint8" and channels in (1, 3)


#: Brightness of glass, as part of its median: of three quarters of it, and below which something is on it; and the most
#: that its channels differ.
EVEN, DARK, TINT = 0.9, 0.7, 20


@dataclass(frozen=True)
class Glass:
    """What a slide is where no tissue is on it."""

    color: float  # the most that its channels differ
    light: float  # median of its brightness

    @classmethod
    def of(cls, pixels: np.ndarray, color: float) -> "Glass | None":
        """The glass of pixels (m, 3) of 8 bits, of which those whose channels differ by `color` at most have no stain;
        None if these are dark, uneven or colored."""
        differ = np.ptp(pixels, axis=1)
        bright = pixels[differ <= color].max(axis=1)
        if not len(bright):  # all pixels are gray
            return None
        light = float(np.median(bright))
        even = np.quantile(bright, 0.25) >= EVEN * light
        plain = light > WHITE / 2 and np.median(differ[differ <= color]) <= TINT and even
        return cls(color, light) if plain else None

    def covered(self, image: np.ndarray) -> np.ndarray:
        """Which pixels of an image (H, W, 3) have color, or are dark, as stained tissue is, (H, W)."""
        return (np.ptp(image, axis=2) > self.color) | (image.max(axis=2) < DARK * self.light)


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


#: Modes of images of Pillow that are gray, and the beginnings of those of more than 8 bits.
GRAY_MODES, DEEP_MODES = ("1", "L", "LA"), ("I", "F")


def pil_pixels(image: Any, name: str, *, color: bool = False) -> np.ndarray:
    """Pixels of an image of Pillow: gray (H, W), in `color` or RGB (H, W, 3), more than 8 bits as they are; raises
    InputError for one with transparent pixels."""
    if image.mode.startswith(DEEP_MODES):
        return np.asarray(image)
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema()[0] < 255:
        raise InputError(
            f"{name} has transparency (mode {image.mode}), expected gray or RGB: paste it on a background, or leave "
            "the transparency out, image.convert('RGB')"
        )
    mode = "L" if image.mode in GRAY_MODES and not color else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))


def listed_pixels(images: Sequence[Any], fitted: Sequence[int] | None) -> list[np.ndarray]:
    """Images of a list as arrays; those of Pillow in color if one of them is, or if the shape `fitted` has colors."""
    modes = {image.mode for image in images if is_pil(image)}
    colored = any(mode not in GRAY_MODES and not mode.startswith(DEEP_MODES) for mode in modes)
    color = tuple(fitted or ())[2:] == (3,) or colored
    each = enumerate(images)
    return [pil_pixels(x, f"image {i}", color=color) if is_pil(x) else np.asarray(x) for i, x in each]


def of_one_size(X: Any, fitted: Sequence[int] | None) -> Any:
    """A list of images of different sizes as squares of one, that of the shape `fitted` if it is given; other data as
    they are."""
    images = listed_pixels(X, fitted) if isinstance(X, list | tuple) else []
    if not images or min(image.ndim for image in images) < 2:
        return X
    sizes = {image.shape[:2] for image in images}
    if fitted is not None:
        return image_squares(images, fitted[0]) if fitted[0] == fitted[1] and sizes != {tuple(fitted[:2])} else images
    side = common_side([image.shape[:2] for image in images], "the data") if len(sizes) > 1 else None
    return images if side is None else image_squares(images, side)


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
    check(side >= SMALLEST_SIDE, "side", side, f"at least {SMALLEST_SIDE} pixels")
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
