"""Scaling and latents of pixels.

Images of instruments, uint16 or float32 with any number of channels, keep their values. A channel is scaled by its own
range, from the 0.1 to the 99.9 percentile of the training images, so that networks and views see about 0 to 1, as of 8
bits; what lies beyond is not clipped.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, name_list, warn
from viewsmith.core.rows import RowSource
from viewsmith.modalities.images.channels import WHITE, channel_ranges
from viewsmith.networks.base import Latents
from viewsmith.networks.scaling import tensor_blocks


def of_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Values in a type of images; in one of whole numbers the nearest ones in its range."""
    if dtype.is_floating_point:
        return x.to(dtype)
    limits = torch.iinfo(dtype)
    return x.round().clamp(limits.min, limits.max).to(dtype)


class PixelLatents(Latents):
    """Latents of images (B, C, H, W): pixels from -1 to 1."""

    center: Tensor
    scale: Tensor

    def __init__(
        self, channels: int, center: float | Sequence[float] = 0.0, scale: float | Sequence[float] = 1.0
    ) -> None:
        super().__init__()
        for name, given in (("center", center), ("scale", scale)):
            values = torch.as_tensor(given, dtype=torch.float32).flatten()
            if len(values) not in (1, channels):
                raise InputError(f"{name} of the pixels has {len(values)} values, expected 1 or {channels}")
            self.register_buffer(name, values.expand(channels).clone().view(-1, 1, 1))

    def encode(self, x: Tensor) -> Tensor:
        """Latents (B, C, H, W) of scaled images (B, C, H, W)."""
        return (x * self.scale + self.center) * 2 - 1

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        """Scaled images (B, C, H, W) from latents (B, C, H, W), in the dtype of `x`."""
        return (((u + 1) / 2 - self.center) / self.scale).to(x.dtype)


BLOCK, BLOCK_PIXELS = 4096, 2**24  # images that are counted at once, and their pixels


def image_blocks(x: Tensor | RowSource) -> Iterator[Tensor]:
    """Images (n, H, W, ...) in order, in blocks."""
    size = max(1, min(BLOCK, BLOCK_PIXELS // (x.shape[1] * x.shape[2])))
    return (block for rows in tensor_blocks(x) for block in rows.split(size))


class Pixels(nn.Module):
    """uint8 images (n, H, W) or (n, H, W, C) to scaled images (n, C, H, W), and back to the form of `row_shape`.

    ``standard``: each channel of pixel / 255 is centered and divided by its standard deviation over the training
    images; ``global``: one mean and one standard deviation for all channels; ``none``: pixel / 255.

    Parameters
    ----------
    row_shape : (H, W) or (H, W, C)
        Shape of an image. Later images may have other H and W.
    """

    def __init__(self, row_shape: Sequence[int]) -> None:
        super().__init__()
        self.flat = len(row_shape) == 2
        self.channels = 1 if self.flat else row_shape[2]
        self.center = nn.Buffer(torch.zeros(self.channels))
        self.scale = nn.Buffer(torch.ones(self.channels))

    @torch.no_grad()
    def fit(
        self, x: Tensor | RowSource, scaling: Literal["auto", "standard", "global", "none"]
    ) -> Literal["standard", "global", "none"]:
        """Compute the statistics of uint8 images, (n, H, W) or (n, H, W, C); return the scaling that is used."""
        scaling = "standard" if scaling == "auto" else scaling
        if scaling != "none":
            # From the histogram of each channel: exact, and without a float copy of the images.
            values = torch.arange(256, dtype=torch.float64) / 255
            counts = torch.zeros(self.channels, 256, dtype=torch.int64)
            for part in image_blocks(x):
                planes = part.reshape(-1, self.channels)
                counts += torch.stack([torch.bincount(planes[:, c].int(), minlength=256) for c in range(self.channels)])
            frequency = (counts.sum(0, keepdim=True).expand_as(counts) if scaling == "global" else counts).double()
            frequency = frequency / frequency.sum(1, keepdim=True)
            mean = frequency @ values
            variance = frequency @ values.square() - mean.square()
            self.center.copy_(mean)
            self.scale.copy_(torch.where(variance > 1e-12, variance.clamp_min(0).sqrt(), 1.0))
        return scaling

    def __str__(self) -> str:
        return f"({self.unit} - {self._said(self.center)}) / {self._said(self.scale)}"

    @property
    def unit(self) -> str:
        """How the numbers of 0 to 1 that are scaled follow from pixels, in words."""
        return f"pixel / {WHITE}"

    def _said(self, numbers: Tensor) -> list[float]:
        return [round(number, 5) for number in numbers.tolist()]

    def to_unit(self, x: Tensor) -> Tensor:
        """Numbers of about 0 to 1, (n, C, H, W), of images as they are given."""
        # Gray images may have no dimension for their channel. `len` would fix the batch of an exported graph.
        return (x[:, None] if x.ndim == 3 else x.movedim(3, 1)) / 255

    def forward(self, x: Tensor) -> Tensor:
        # In place: of large images most of the time would go to new memory.
        unit = self.to_unit(x).sub_(self.center[:, None, None]).div_(self.scale[:, None, None])
        return unit.contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """uint8 images from scaled ones; values outside the range of pixels are clipped."""
        x = of_type((x * self.scale[:, None, None] + self.center[:, None, None]) * 255, torch.uint8)
        return x[:, 0] if self.flat else x.movedim(1, 3)


#: Values of which the range of a channel is found.
RANGE_VALUES = 2**24

#: Fraction of the values of a channel at its highest one, a full scale of 8 to 16 bits, from which this is said.
SATURATED = 1e-4
FULL_SCALES = tuple(2**bits - 1 for bits in (8, 10, 12, 14, 16))


class Intensities(Pixels):
    """Images of one type, (n, H, W) or (n, H, W, C), to scaled images (n, C, H, W), and back."""

    def __init__(self, row_shape: Sequence[int], dtype: str, names: Sequence[str] = ()) -> None:
        super().__init__(row_shape)
        self.dtype = dtype
        self.names = [str(name) for name in names] if len(names) == self.channels else []
        self.low = nn.Buffer(torch.zeros(self.channels))
        self.span = nn.Buffer(torch.ones(self.channels))

    @torch.no_grad()
    def fit(
        self, x: Tensor | RowSource, scaling: Literal["auto", "standard", "global", "none"]
    ) -> Literal["standard", "global", "none"]:
        """Find the ranges of the channels, and compute the statistics of values in them; return the scaling used."""
        scaling = "standard" if scaling == "auto" else scaling
        some = _some(x).reshape(-1, self.channels)
        low, high = channel_ranges(some)
        self._say_faults(some, low, high)
        self.low.copy_(torch.from_numpy(low))
        self.span.copy_(torch.from_numpy(np.where(high > low, high - low, 1)))
        if scaling != "none":
            count, total, squares = 0, *torch.zeros(2, self.channels, dtype=torch.float64)
            for part in image_blocks(x):
                # Values beyond the range, such as dust, would otherwise make the deviation.
                unit = self.to_unit(part).double().clamp_(0, 1)
                count += unit.shape[0] * unit.shape[2] * unit.shape[3]
                total, squares = total + unit.sum((0, 2, 3)), squares + unit.square().sum((0, 2, 3))
            mean, square = total / count, squares / count
            if scaling == "global":
                mean, square = (moment.mean().expand(self.channels) for moment in (mean, square))
            variance = square - mean.square()
            self.center.copy_(mean)
            self.scale.copy_(torch.where(variance > 1e-12, variance.clamp_min(0).sqrt(), 1.0))
        return scaling

    def to_unit(self, x: Tensor) -> Tensor:
        x = (x[:, None] if x.ndim == 3 else x.movedim(3, 1)).to(self.low.dtype)
        return (x - self.low[:, None, None]) / self.span[:, None, None]

    @property
    def unit(self) -> str:
        return f"(value - {self._said(self.low)}) / {self._said(self.span)}"

    def inverse(self, x: Tensor) -> Tensor:
        """Images from scaled ones, in the type and the units of the data."""
        unit = x.float() * self.scale[:, None, None] + self.center[:, None, None]
        x = unit * self.span[:, None, None] + self.low[:, None, None]
        x = of_type(x, getattr(torch, self.dtype))
        return x[:, 0] if self.flat else x.movedim(1, 3)

    def _say_faults(self, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Warn of channels that are constant, and of those with saturated values, (m, C)."""
        names = self.names or [str(channel) for channel in range(self.channels)]
        where = "channel" if self.names else "channel (counted from 0)"
        constant = [f"{names[c]} ({low[c]:g})" for c in np.flatnonzero(~(high > low))]
        if constant:
            warn(
                f"images: the same value everywhere in {where} {name_list(constant)}, which says nothing: leave it out"
            )
        top = values.max(axis=0)
        at_top = (values == top).mean(axis=0)
        full = (high > low) & np.isin(top, FULL_SCALES) & (at_top > SATURATED) & (self.dtype != "float32")
        if full.any():
            found = [f"{names[c]} ({at_top[c]:.2%} at {top[c]:g})" for c in np.flatnonzero(full)]
            warn(f"images: saturated pixels in {where} {name_list(found)}: what is brighter is not seen there")


def _some(x: Tensor | RowSource) -> np.ndarray:
    """Evenly spaced images, of about `RANGE_VALUES` values, (m, ...)."""
    count = max(1, RANGE_VALUES // max(1, int(np.prod(x.shape[1:]))))
    index = np.unique(np.linspace(0, len(x) - 1, min(count, len(x))).astype(np.int64))
    return x[index] if isinstance(x, RowSource) else x[torch.from_numpy(index).to(x.device)].cpu().numpy()
