"""Images as networks take them, and back: part of the model, like the scaling of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn


def pixel_by_pixel(x: Tensor) -> Tensor:
    """The same images (B, C, H, W), laid out in memory with the channels of a pixel side by side.

    Convolutions then take less time, on a CPU as on tensor cores.
    """
    # A copy even of one channel: torch calls that laid out both ways, and would go on in the slower one.
    return x.clone(memory_format=torch.channels_last)


class Pixels(nn.Module):
    """Scaled images (n, C, H, W) from uint8 images (n, H, W) or (n, H, W, C), and back to `row_shape`'s form.

    ``standard``: every channel of pixel / 255 centered and divided by its standard deviation over the training images;
    ``global``: one mean and one standard deviation for all channels; ``none``: pixel / 255 alone.

    Parameters
    ----------
    row_shape : (H, W) or (H, W, C)
        Shape of one image; H and W may be another image's later.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, row_shape: Sequence[int]) -> None:
        super().__init__()
        self.flat = len(row_shape) == 2
        self.channels = 1 if self.flat else row_shape[2]
        self.register_buffer("center", torch.zeros(self.channels))
        self.register_buffer("scale", torch.ones(self.channels))

    @torch.no_grad()
    def fit(
        self, x: Tensor, scaling: Literal["auto", "standard", "global", "none"]
    ) -> Literal["standard", "global", "none"]:
        """Take the statistics of uint8 training images; returns the scaling used."""
        scaling = "standard" if scaling == "auto" else scaling
        if scaling != "none":
            # Of the 256 counts of each channel: exact, and without a float copy of the images.
            planes = x.reshape(-1, self.channels)
            values = torch.arange(256, dtype=torch.float64) / 255
            counts = torch.stack([torch.bincount(planes[:, c].int(), minlength=256) for c in range(self.channels)])
            share = (counts.sum(0, keepdim=True).expand_as(counts) if scaling == "global" else counts).double()
            share = share / share.sum(1, keepdim=True)
            mean = share @ values
            variance = share @ values.square() - mean.square()
            self.center.copy_(mean)
            self.scale.copy_(torch.where(variance > 1e-12, variance.clamp_min(0).sqrt(), 1.0))
        return scaling

    def forward(self, x: Tensor) -> Tensor:
        # Gray images come with and without their one channel.
        x = x.reshape(len(x), 1, *x.shape[1:3]) if self.channels == 1 else x.movedim(3, 1)
        return ((x / 255 - self.center[:, None, None]) / self.scale[:, None, None]).contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """uint8 images from scaled ones, values outside the range of pixels at its ends."""
        x = (x * self.scale[:, None, None] + self.center[:, None, None]) * 255
        x = x.round().clamp(0, 255).to(torch.uint8)
        return x[:, 0] if self.flat else x.movedim(1, 3)
