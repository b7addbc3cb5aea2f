"""Images: checks of arrays (dtype, shape, channels), and the modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, one_line
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows, as_source
from viewsmith.modalities.base import GENERATOR, Modality, SampleType, Transformation
from viewsmith.modalities.checks import to_rows

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.modalities.images.pixels import PixelLatents, Pixels


SMALLEST_SIDE = 4


def pixels_of_unit(x: np.ndarray) -> np.ndarray | None:
    """Pixels of an image of floats that are such pixels / 255; None for other floats."""
    pixels = np.round(x * 255)
    if not (np.abs(pixels - x * 255).max() < 1e-3 and pixels.min() >= 0 and pixels.max() <= 255):
        return None
    return pixels.astype(np.uint8)


def image_rows(X: Any, source_name: str = "the data") -> np.ndarray:
    """Images as an array with channels last.

    Parameters
    ----------
    X : array-like of uint8, shape (n, H, W) or (n, H, W, C)
        Values 0 to 255; C is 1 (gray) or 3 (red, green, blue), H and W are at least 4.
    source_name : str
        Name of the data in messages.

    Returns
    -------
    rows : ndarray of uint8, shape (n, H, W, C)
        Shares memory with `X` if that is contiguous.

    Raises
    ------
    InputError
        Another dtype or shape.
    """
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise InputError(
            f"{source_name}: images with different shapes, expected equal shapes; resize or crop them "
            f"({one_line(error, 100)})"
        ) from error
    if rows.ndim and len(rows) == 0:
        raise InputError(f"{source_name}: no images, shape {rows.shape}; expected uint8 (n, H, W) or (n, H, W, 1 or 3)")
    check_images(rows, source_name)
    return np.ascontiguousarray(rows if rows.ndim == 4 else rows[..., None])


def is_images(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, H, W) or (n, H, W, 1 or 3) with sides of at least 4 pixels."""
    image_shape = x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3))
    return x.dtype == np.uint8 and image_shape and min(x.shape[1:3]) >= SMALLEST_SIDE


def check_images(x: np.ndarray, source_name: str = "the data") -> None:
    """Raise InputError for an array that is not images."""
    if not is_images(x):
        raise InputError(
            f"{source_name}: {x.dtype} of shape {x.shape}; images are uint8 (n, H, W) or (n, H, W, 1 or 3), values 0 "
            f"to 255; {image_advice(x)}"
        )


def image_advice(x: np.ndarray) -> str:
    """What the user can do with an array that is not images, for a message."""
    advice = []
    if x.ndim not in (3, 4):
        return "reshape them with X.reshape(n, H, W), or (n, H, W, 3)"
    sides = x.shape[1:3]
    if x.ndim == 4 and x.shape[3] not in (1, 3):
        if x.shape[1] in (1, 3):
            advice.append("put the channels last: X.transpose(0, 2, 3, 1)")
            sides = x.shape[2:]
        elif x.shape[3] == 4:
            advice.append("leave out the alpha channel: X[..., :3]")
        else:
            advice.append("keep 1 or 3 channels, as the last dimension")
    if min(sides) < SMALLEST_SIDE:
        advice.append(
            f"sides must have at least {SMALLEST_SIDE} pixels: enlarge the images, or use the rows as flat vectors "
            "with modality='vectors' (--modality vectors)"
        )
    elif x.dtype.kind == "f" and x.size and not (np.nanmin(x) >= 0 and np.nanmax(x) <= 1):
        low, high = np.nanmin(x), np.nanmax(x)
        advice.append(
            f"scale values of {low:.4g} to {high:.4g} to 0 to 255: ((X - X.min()) / np.ptp(X) * 255)"
            ".astype(np.uint8), or use the rows as flat vectors with modality='vectors' (--modality vectors)"
        )
    elif x.dtype.kind == "f":
        advice.append(
            "multiply values of 0 to 1 by 255 and cast: (X * 255).astype(np.uint8), or use the rows as flat vectors "
            "with modality='vectors' (--modality vectors)"
        )
    elif x.dtype != np.uint8:
        low, high = (float(value) for value in (x.min(), x.max()))
        if low >= 0 and high <= 255:
            advice.append("cast values of 0 to 255 with X.astype(np.uint8)")
        else:  # a cast would wrap
            least = "X" if low == 0 else f"(X {'-' if low > 0 else '+'} {abs(low):g})"
            advice.append(
                f"scale the values, {low:g} to {high:g}, to 0 to 255, which keeps their order: "
                f"({least} / {(high - low) / 255:.6g}).astype(np.uint8)"
            )
    return "; ".join(advice)


def _gray(x: np.ndarray) -> np.ndarray:
    return np.repeat((x @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)[..., None], 3, 3)


def _small_pixels(x: np.ndarray, side: int = 14) -> np.ndarray:
    """Pixels of images reduced to at most `side` rows and columns, (n, d)."""
    import torch

    pixels = torch.from_numpy(np.ascontiguousarray(x if x.ndim == 4 else x[..., None])).permute(0, 3, 1, 2) / 255
    size = (min(side, x.shape[1]), min(side, x.shape[2]))
    return torch.nn.functional.adaptive_avg_pool2d(pixels, size).flatten(1).double().numpy()


class Images(Modality):
    """Images, uint8 (n, H, W) or (n, H, W, 1 or 3)."""

    name = "images"
    samples = SampleType({"height": None, "width": None, "channel": (1, 3)}, "uint8", 0, 255, unit="gray or color")
    help = "uint8 pixels, gray or color: arrays, folders of image files"
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
        return isinstance(X, np.ndarray) and is_images(X)

    def dtype_on_disk(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.dtype(dtype) if len(shape) > 2 and self.samples.is_type(dtype) else None

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        if x.ndim > 2:
            series = "; recordings (n, channels, time) need modality='series' (--modality series)" * (x.ndim == 3)
            raise InputError(
                f"{source_name}: {x.dtype} of shape {x.shape}; expected images as uint8 (n, H, W) or (n, H, W, 1 or "
                f"3), values 0 to 255, or vectors (n, d); {image_advice(x)}{series}"
            )

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_images(x, source_name)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> AnyRows:
        source = None if hasattr(X, "tocsr") else as_source(X, dtype=np.uint8)
        if source is not None:
            check_images(source)  # type: ignore[arg-type]  # of which it looks at shape and dtype
            if row_shape is not None and not self.same_shape(source.shape[1:], row_shape):
                raise InputError(f"the images have shape {source.shape[1:]}, but the model was fitted on {row_shape}")
            return source
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        if X is None or hasattr(X, "tocsr"):
            raise InputError(
                f"the data are of type {type(X).__name__}, expected an array, uint8 (n, H, W, channels), for the "
                "modality 'images'"
            )
        rows = image_rows(X)
        given = np.shape(X)[1:]
        shape = given if row_shape is None else tuple(row_shape)
        if not self.same_shape(rows.shape[1:], shape):
            raise InputError(f"the images have shape {given}, but the model was fitted on {shape}")
        return np.ascontiguousarray(rows.reshape(-1, *shape))

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        source = as_source(x, source_name, always=True, dtype=np.uint8)
        return super().from_file(x, names, impute, source_name) if source is None else source

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two images have the same shape; gray images (H, W, 1) and (H, W) do."""
        squeezed = [tuple(shape)[:2] if tuple(shape)[2:] == (1,) else tuple(shape) for shape in (one, other)]
        return squeezed[0] == squeezed[1]

    def input_layer(self, row_shape: Sequence[int]) -> Pixels:
        from viewsmith.modalities.images.pixels import Pixels

        return Pixels(row_shape)

    def fit_input(self, layer: Any, raw: Tensor, scaling: str) -> tuple[str, dict[str, Any]]:
        used = layer.fit(raw, scaling)
        return str(used), {"pixel_mean": layer.center.tolist(), "pixel_scale": layer.scale.tolist()}

    def channels(self, row_shape: Sequence[int]) -> int:
        return 1 if len(row_shape) == 2 else int(row_shape[2])

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        import torch

        return torch.zeros(1, self.channels(row_shape), *row_shape[:2])

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        import torch

        return torch.zeros(2, *row_shape, dtype=torch.uint8), layer

    def in_input_format(self, views: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        # Gray images may be given with or without a channel dimension; crops are smaller than their image.
        return views.reshape(*views.shape[:4], *given[3:])

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        return sigma * layer.scale[:, None, None]

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        return {"pixels / 255": rows.reshape(len(rows), -1).astype(np.float32) / 255}

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        turns = {"quarter-turn": lambda x: np.rot90(x, axes=(1, 2))} if row_shape[0] == row_shape[1] else {}
        of_color = {"hue-turn": lambda x: x[..., [1, 2, 0]], "gray": _gray} if tuple(row_shape)[2:] == (3,) else {}
        mirrors = {"mirror": lambda x: x[:, :, ::-1], "upside-down": lambda x: x[:, ::-1]}
        return mirrors | turns | {"color-inversion": lambda x: 255 - x} | of_color

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(_small_pixels(samples), _small_pixels(transformed))]

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        return x.flatten(1)

    def latents(self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: nn.Module) -> PixelLatents:
        from viewsmith.modalities.images.pixels import PixelLatents

        return PixelLatents(self.channels(row_shape), statistics["pixel_mean"], statistics["pixel_scale"])

    def denoiser(self, kind: str, latents: PixelLatents, row_shape: Sequence[int], condition: int) -> nn.Module:
        from viewsmith.modalities.images.denoiser import ImageDenoiser, PublishedImageDenoiser

        if kind == "published":
            return PublishedImageDenoiser(self.channels(row_shape), condition)
        return ImageDenoiser(self.channels(row_shape), condition, width=16 if kind == "small" else 32)

    def check_size(self, message: str, shape: Sequence[int], smallest: int, advice: str) -> None:
        if min(shape) < smallest:
            have, least = (f"{size[0]} x {size[1]} pixels" for size in (shape, (smallest, smallest)))
            raise InputError(f"{message.format(have=have, least=least)}: {advice}")


register("modality", Images.name, help=Images.help)(Images)
