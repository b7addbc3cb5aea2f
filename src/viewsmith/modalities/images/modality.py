"""Images: checks of arrays (dtype, shape, channels), and the modality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, warn
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows, RowSource, as_source
from viewsmith.modalities.base import BATCH_SIZE, GENERATOR, Modality, SampleType, Transformation
from viewsmith.modalities.checks import to_rows
from viewsmith.modalities.images.channels import (
    COLORS,
    SMALLEST_SIDE,
    composites,
    is_photograph,
    of_one_size,
    with_scale_bar,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.modalities.images.pixels import PixelLatents, Pixels

MOST_CHANNELS = 500
DEEP = ("uint16", "float32")  # types of images beside uint8
SHOWN = 6  # channels that a report shows beside the samples
BLOCK, BLOCK_VALUES = 256, 2**22  # images whose pixels are averaged or turned at once, and their values
#: A step on two views of so many photographs of 128 x 128 pixels takes about 2 GB, and on those of 256 x 256 four times
#: as much: of large images a batch has fewer, but not less than the second number. In memory the maps of the network
#: are as much as further channels.
LARGEST_STEP, LEAST_BATCH, OF_MAPS = 256 * 128 * 128 * 15, 32, 12
RAW_SIDE = 64  # most pixels of a side of images as raw features: with all of them a probe takes many minutes
EXPECTED = f"uint8, uint16 or float32 (n, H, W) or (n, H, W, C), C from 1 to {MOST_CHANNELS}"


def pixels_of_unit(x: np.ndarray, source_name: str, further: str = "") -> np.ndarray:
    """Pixels of an image of floats that are such pixels / 255; InputError for other floats."""
    if not is_of_unit(x):
        raise InputError(
            f"{source_name} is an image of {x.dtype} that are not 8-bit values / 255: leave normalization and random "
            f"transforms out of the dataset, the model scales images and makes views itself{further}"
        )
    return np.round(x * 255).astype(np.uint8)


def is_of_unit(x: np.ndarray) -> bool:
    """Whether floats are pixels of 8 bits / 255."""
    pixels = np.round(x * 255)
    return bool(np.abs(pixels - x * 255).max() < 1e-3 and pixels.min() >= 0 and pixels.max() <= 255)


def image_rows(X: Any, source_name: str = "the data") -> np.ndarray:
    """Images as an array with channels last.

    Parameters
    ----------
    X : array-like, shape (n, H, W) or (n, H, W, C)
        uint8, uint16 or floats, all of which are kept; C is 1 to 500, H and W are at least 4.
    source_name : str
        Name of the data in messages.

    Returns
    -------
    rows : ndarray, shape (n, H, W, C)
        uint8, uint16 or float32; shares memory with `X` if that is contiguous.

    Raises
    ------
    InputError
        Another dtype or shape, or values that are not finite.
    """
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise InputError(
            f"{source_name}: images with different shapes, expected equal ones, or a list of arrays "
            f"({one_line(error, 100)})"
        ) from error
    if rows.ndim and len(rows) == 0:
        raise InputError(f"{source_name}: no images, shape {rows.shape}; expected {EXPECTED}")
    check_images(rows, source_name)
    rows = rows if rows.ndim == 4 else rows[..., None]
    return _native(rows) if rows.dtype.kind == "u" else _finite(rows, source_name)


def _native(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("="))


def _is_whole(dtype: Any) -> bool:
    """Whether a dtype is uint8 or uint16, in any order of bytes."""
    return getattr(dtype, "kind", "") == "u" and dtype.itemsize <= 2


def _finite(x: np.ndarray, source_name: str) -> np.ndarray:
    """Images of floats as float32; raises InputError for missing and infinite values, with their number."""
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, dtype=np.float32)
    wrong = ~np.isfinite(x)
    if wrong.any():
        kinds = [(int(np.isnan(x).sum()), "missing value", " (NaN)"), (int(np.isinf(x).sum()), "infinite value", "")]
        found = " and ".join(pluralize(count, noun) + more for count, noun, more in kinds if count)
        rows = np.flatnonzero(wrong.reshape(len(x), -1).any(axis=1))
        raise InputError(
            f"{source_name}: {found} in {pluralize(len(rows), 'image')} of {len(x):,} (counted from 0: "
            f"{name_list(rows.tolist())}): leave these images out, X[np.isfinite(X).all(axis=(1, 2, 3))], or fill the "
            "values"
        )
    return x


def is_images(x: np.ndarray, *, named: bool = True) -> bool:
    """Whether an array is uint8, uint16 or floats (n, H, W) or (n, H, W, 1 to 500) with sides of at least 4 pixels, and
    its channels are last; unless it is `named` so, floats (n, H, W) are none, because they may be recordings."""
    image_shape = x.ndim == 3 or (x.ndim == 4 and 1 <= x.shape[3] <= MOST_CHANNELS and not _channels_first(x.shape))
    fits = _is_whole(x.dtype) or (x.dtype.kind == "f" and (named or x.ndim == 4))
    return bool(fits and image_shape and min(x.shape[1:3]) >= SMALLEST_SIDE)


def _channels_first(shape: Sequence[int]) -> bool:
    """Whether images (n, a, b, c) are squares b x c of fewer channels a."""
    return shape[1] < shape[2] == shape[3]


def check_images(x: np.ndarray, source_name: str = "the data") -> None:
    """Raise InputError for an array that is not images."""
    if not is_images(x):
        raise InputError(f"{source_name}: {x.dtype} of shape {x.shape}; images are {EXPECTED}; {image_advice(x)}")


def image_advice(x: np.ndarray) -> str:
    """What the user can do with an array that is not images, for a message."""
    if x.ndim not in (3, 4):
        return "reshape them with X.reshape(n, H, W), or (n, H, W, C)"
    advice, sides = [], x.shape[1:3]
    if x.ndim == 4 and (_channels_first(x.shape) or (x.shape[1] < SMALLEST_SIDE <= min(x.shape[2:]))):
        advice.append("put the channels last: X.transpose(0, 2, 3, 1), of a tensor X.permute(0, 2, 3, 1)")
        sides = x.shape[2:]
    elif x.ndim == 4 and x.shape[3] > MOST_CHANNELS:
        advice.append(f"keep at most {MOST_CHANNELS} channels, as the last dimension")
    if min(sides) < SMALLEST_SIDE:
        advice.append(
            f"sides must have at least {SMALLEST_SIDE} pixels: enlarge the images, or use the rows as flat vectors "
            "with modality='vectors' (--modality vectors)"
        )
    elif x.dtype.kind == "f":
        advice.append("if they are images, set modality='images' (--modality images)")
    elif not _is_whole(x.dtype):
        low, high = (float(value) for value in (x.min(), x.max()))
        smallest = "uint8" if high < 2**8 else "uint16" if high < 2**16 else "float32"
        advice.append(f"cast them, which keeps their values: X.astype(np.{smallest if low >= 0 else 'float32'})")
    return "; ".join(advice)


def _gray(x: np.ndarray) -> np.ndarray:
    return np.repeat((x @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)[..., None], 3, 3)


def _inverted(x: np.ndarray) -> np.ndarray:
    """Images of instruments with the highest value of each channel for its lowest."""
    axes = (0, 1, 2)
    return np.asarray(x.max(axes, keepdims=True) - x + x.min(axes, keepdims=True))


def _eighth_turn(x: np.ndarray) -> np.ndarray:
    """Images turned by 45 degrees, in their type."""
    import torch

    from viewsmith.modalities.images.views import turned_by_eighth

    found = np.empty_like(x)
    for block in _blocks(x):
        pixels = torch.from_numpy(x[block].astype(np.float32)).view(*x[block].shape[:3], -1).permute(0, 3, 1, 2)
        turned = turned_by_eighth(pixels).permute(0, 2, 3, 1).numpy().reshape(x[block].shape)
        found[block] = turned if x.dtype.kind == "f" else np.rint(turned).clip(0, np.iinfo(x.dtype).max)
    return found


def _deviations(x: np.ndarray) -> np.ndarray:
    """Standard deviation of each channel."""
    planes = [x[block].reshape(-1, x.shape[3] if x.ndim == 4 else 1) for block in _blocks(x)]
    mean = np.sum([plane.sum(axis=0, dtype=np.float64) for plane in planes], axis=0) / sum(map(len, planes))
    squares = np.sum([np.square(plane - mean).sum(axis=0) for plane in planes], axis=0)
    return np.asarray(np.sqrt(squares / sum(map(len, planes))))


def _blocks(x: np.ndarray) -> list[slice]:
    """Images in blocks: floats of all at once would take several times their memory."""
    size = max(1, min(BLOCK, BLOCK_VALUES // max(1, math.prod(x.shape[1:]))))
    return [slice(start, start + size) for start in range(0, len(x), size)]


def _small_pixels(x: np.ndarray, side: int = 14, scale: Any = 255) -> np.ndarray:
    """Pixels of images over `scale` reduced to at most `side` rows and columns, (n, d)."""
    import torch

    pixels = torch.from_numpy(np.ascontiguousarray(x if x.ndim == 4 else x[..., None])).permute(0, 3, 1, 2)
    found = [_averaged(pixels[block].float() / scale, side) for block in _blocks(x)]
    return torch.cat(found).flatten(1).double().numpy()


def _averaged(x: Tensor, side: int) -> Tensor:
    """Images (B, C, H, W) as means of their pixels, of at most `side` rows and columns: a short side stays as it is."""
    import torch

    size = min(x.shape[2], side), min(x.shape[3], side)
    return x if size == x.shape[2:] else torch.nn.functional.adaptive_avg_pool2d(x, size)


def _check_type(dtype: Any, row_shape: Sequence[int] | None, estimator: Any) -> None:
    """Raise InputError for images of another type than those that a model was fitted on."""
    fitted = getattr(estimator, "facts_", None)
    if row_shape is None or fitted is None:
        return
    expected = fitted.statistics.get("dtype", "uint8")
    if str(dtype) != expected:
        raise InputError(
            f"the images are {dtype}, but the model was fitted on {expected}: give images as the instrument writes "
            "them, of one depth"
        )


class Images(Modality):
    """Images, uint8, uint16 or float32 (n, H, W) or (n, H, W, 1 to 500)."""

    name = "images"
    samples = SampleType(
        {"height": None, "width": None, "channel": range(1, MOST_CHANNELS + 1)},
        dtype="uint8",
        further=DEEP,
        low=0,
        high=255,
        unit="gray, color, or that of an instrument",
    )
    help = "pixels of any depth, of one or many channels: arrays, folders of image files"
    default_views = "simclr"
    default_encoder, default_encoder_on_gpu = "cnn", "resnet18"
    default_method = "linear-contrast"
    default_features = "patches"
    # On two CPU cores a run with this number of steps takes less than ten minutes.
    steps, steps_on_gpu = 1500, 20_000
    step_seconds = (1.05e-6, 2.0e-6)
    defaults = MappingProxyType(
        GENERATOR
        | {"temperature": 0.2, "directions": True, "nu": 100.0}
        | {"generator_learning_rate": 4e-3, "noise_schedule": "linear", "strength": 0.5}
    )
    picture, is_image = "pixels", True
    crop_suffixes = ("", ".npz")
    gallery = 8
    denoisers = ("fast", "small", "published")

    def recognizes(self, X: Any) -> bool:
        if isinstance(X, list | tuple):
            return bool(X) and not isinstance(X[0], list | tuple) and np.ndim(X[0]) > 1
        return isinstance(X, np.ndarray) and is_images(X, named=False)

    def dtype_on_disk(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.dtype(dtype).newbyteorder("=") if len(shape) > 2 and _is_whole(dtype) else None

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        if x.ndim > 2:
            others = (
                "; one scene in a file, (rows, columns, bands), needs the side of its tiles, tile=16 (--tile 16), and "
                "recordings (n, channels, time) need modality='series' (--modality series)"
            ) * (x.ndim == 3)
            raise InputError(
                f"{source_name}: {x.dtype} of shape {x.shape}; expected images, {EXPECTED}, or vectors (n, d); "
                f"{image_advice(x)}{others}"
            )

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_images(x, source_name)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> AnyRows:
        source = None if hasattr(X, "tocsr") else self._on_disk(X, "the data", always=False)
        if source is not None:
            check_images(source)  # type: ignore[arg-type]  # of which it looks at shape and dtype
            _check_type(source.dtype, row_shape, estimator)
            if row_shape is not None and not self.same_shape(source.shape[1:], row_shape):
                raise InputError(f"the images have shape {source.shape[1:]}, but the model was fitted on {row_shape}")
            return source
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        if X is None or hasattr(X, "tocsr"):
            raise InputError(
                f"the data are of type {type(X).__name__}, expected an array (n, H, W, channels) for the modality "
                "'images'"
            )
        if row_shape is not None and getattr(X, "shape", None) == tuple(row_shape):
            raise InputError(f"the data have shape {X.shape}, that of one sample, expected several: give X[None]")
        X = of_one_size(X, row_shape)
        rows = image_rows(X)
        given = np.shape(X)[1:]
        shape = given if row_shape is None else tuple(row_shape)
        if not self.same_shape(rows.shape[1:], shape):
            raise InputError(f"the images have shape {given}, but the model was fitted on {shape}")
        _check_type(rows.dtype, row_shape, estimator)
        if row_shape is None and rows.dtype.kind == "f" and shape[2:] in ((1,), (3,)) and is_of_unit(rows[:BLOCK]):
            warn(
                "the data are 8-bit pixels / 255: as floats they get the views of instruments, without crops and "
                "colors; give pixels for those of photographs, (X * 255).round().astype('uint8')"
            )
        return np.ascontiguousarray(rows.reshape(-1, *shape))

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        source = self._on_disk(x, source_name, always=True)
        if source is not None:
            return source
        x = np.asarray(x)
        return _native(x) if x.dtype.kind == "u" else _finite(x, source_name)

    def _on_disk(self, x: Any, source_name: str, *, always: bool) -> RowSource | None:
        """A source of images that can stay on disk, or None."""
        if isinstance(x, RowSource) and x.complete and len(x.shape) > 2:  # floats of tiles
            return x
        dtype = self.dtype_on_disk(getattr(x, "shape", ()), getattr(x, "dtype", None))
        return None if dtype is None else as_source(x, source_name, always=always, dtype=dtype)

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two images have the same shape; gray images (H, W, 1) and (H, W) do."""
        squeezed = [tuple(shape)[:2] if tuple(shape)[2:] == (1,) else tuple(shape) for shape in (one, other)]
        return squeezed[0] == squeezed[1]

    def input_layer(self, row_shape: Sequence[int]) -> Pixels:
        from viewsmith.modalities.images.pixels import Pixels

        return Pixels(row_shape)

    def layer_for(self, row_shape: Sequence[int], statistics: Mapping[str, Any]) -> Pixels:
        from viewsmith.modalities.images.pixels import Intensities

        dtype = statistics.get("dtype", "uint8")
        if dtype == "uint8":
            return self.input_layer(row_shape)
        return Intensities(row_shape, dtype, statistics.get("channel_names", ()))

    def fit_input(self, layer: Any, raw: Tensor, scaling: str) -> tuple[str, dict[str, Any]]:
        used = layer.fit(raw, scaling)
        found = {"pixel_mean": layer.center.tolist(), "pixel_scale": layer.scale.tolist()}
        return str(used), found | ({"dtype": layer.dtype} if hasattr(layer, "dtype") else {})

    def channels(self, row_shape: Sequence[int]) -> int:
        return 1 if len(row_shape) == 2 else int(row_shape[2])

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        import torch

        return torch.zeros(1, self.channels(row_shape), *row_shape[:2])

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        import torch

        return torch.zeros(2, *row_shape, dtype=getattr(torch, getattr(layer, "dtype", "uint8"))), layer

    def in_input_format(self, views: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        # Gray images may be given with or without a channel dimension; crops are smaller than their image.
        return views.reshape(*views.shape[:4], *given[3:])

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        return sigma * layer.scale[:, None, None]

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        import torch

        plain, channels = not hasattr(layer, "dtype"), self.channels(rows.shape[1:])
        low, span = (0, 255) if plain else (layer.low.cpu().numpy(), layer.span.cpu().numpy())
        name = "pixels / 255" if plain else "pixels in the range of their channel"
        height, width = (min(size, RAW_SIDE) for size in rows.shape[1:3])
        found = np.empty((len(rows), height, width, channels), np.float32)
        for block in _blocks(rows):
            x = torch.from_numpy(rows[block].reshape(-1, *rows.shape[1:3], channels).astype(np.float32))
            found[block] = (_averaged(x.permute(0, 3, 1, 2), RAW_SIDE).permute(0, 2, 3, 1).numpy() - low) / span
        name += f", averaged to {height} x {width}" if (height, width) != rows.shape[1:3] else ""
        return {name: found.reshape(len(rows), -1)}

    def drawn(self, samples: np.ndarray) -> np.ndarray:
        return samples if is_photograph(samples.shape[1:], samples.dtype) else composites(samples)

    def with_scale(self, drawn: np.ndarray, statistics: Mapping[str, Any]) -> tuple[np.ndarray, str]:
        side = statistics.get("micrometers")
        return (drawn, "") if side is None else with_scale_bar(drawn, side)

    def channels_of(self, samples: np.ndarray, statistics: Mapping[str, Any]) -> tuple[list[str], np.ndarray] | None:
        if is_photograph(samples.shape[1:], samples.dtype) or samples.ndim < 4 or samples.shape[3] == 1:
            return None
        channels = range(min(samples.shape[3], SHOWN))
        names = list(statistics.get("channel_names", ())) or [f"channel {i}" for i in range(samples.shape[3])]
        colors = list(COLORS)
        said = [f"{names[i]} ({colors[i % len(colors)]})" for i in channels]
        return said, np.stack([composites(samples[..., i]) for i in channels], axis=1)

    def views_for(self, x: AnyRows) -> tuple[str, dict[str, Any]] | None:
        # Colors and brightness are measurements there, and hardly an instrument knows what is up. Crops lose on cells.
        tested = dict.fromkeys(("flip", "upside_down", "turn", "diagonal"), "auto")
        return None if is_photograph(x.shape[1:], x.dtype) else ("turns", tested)

    def transformations_of(self, x: AnyRows) -> Mapping[str, Transformation]:
        known = self.transformations(x.shape[1:])
        if is_photograph(x.shape[1:], x.dtype):
            return known
        return {name: known[name] for name in known if name not in ("hue-turn", "gray")} | {
            "color-inversion": _inverted
        }

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        square = row_shape[0] == row_shape[1]
        turns = {"quarter-turn": lambda x: np.rot90(x, axes=(1, 2))} if square else {}
        eighth = {"eighth-turn": _eighth_turn} if square else {}
        of_color = {"hue-turn": lambda x: x[..., [1, 2, 0]], "gray": _gray} if tuple(row_shape)[2:] == (3,) else {}
        mirrors = {"mirror": lambda x: x[:, :, ::-1], "upside-down": lambda x: x[:, ::-1]}
        return mirrors | turns | {"color-inversion": lambda x: 255 - x} | of_color | eighth

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        import torch

        if is_photograph(samples.shape[1:], samples.dtype):
            return [(_small_pixels(samples), _small_pixels(transformed))]
        deviation = _deviations(samples)
        scale = torch.from_numpy(np.where(deviation > 0, deviation, 1)).float()[:, None, None]
        return [(_small_pixels(samples, scale=scale), _small_pixels(transformed, scale=scale))]

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        return _averaged(x, RAW_SIDE).flatten(1)

    def latents(self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: nn.Module) -> PixelLatents:
        from viewsmith.modalities.images.pixels import PixelLatents

        return PixelLatents(self.channels(row_shape), statistics["pixel_mean"], statistics["pixel_scale"])

    def denoiser(self, kind: str, latents: PixelLatents, row_shape: Sequence[int], condition: int) -> nn.Module:
        from viewsmith.modalities.images.denoiser import ImageDenoiser, PublishedImageDenoiser

        if kind == "published":
            return PublishedImageDenoiser(self.channels(row_shape), condition)
        return ImageDenoiser(self.channels(row_shape), condition, width=16 if kind == "small" else 32)

    def batch_size(self, row_shape: Sequence[int]) -> int:
        values = row_shape[0] * row_shape[1] * (self.channels(row_shape) + OF_MAPS)
        return min(BATCH_SIZE, max(LEAST_BATCH, LARGEST_STEP // values))

    def check_size(self, message: str, shape: Sequence[int], smallest: int, advice: str) -> None:
        if min(shape) < smallest:
            have, least = (f"{size[0]} x {size[1]} pixels" for size in (shape, (smallest, smallest)))
            raise InputError(f"{message.format(have=have, least=least)}: {advice}")


register("modality", Images.name, help=Images.help)(Images)
