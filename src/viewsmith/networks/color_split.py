"""CIE Lab and YDbDr colors from sRGB pixels, and the views RGB, L and ab, or Y, Db and Dr, of color images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError

# sRGB to XYZ under D65 (IEC 61966-2-1); the white point has R = G = B = 1.
_TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
# Center and spread of L, a and b over photographs, from the code of MetAug's authors.
_CENTER, _SPREAD = (50.0, 6.025, -6.6895), (50.0, 92.208, 101.1675)
# R'G'B' to Y, Db, Dr (ITU-R BT.470-6, SECAM), and the middle and half of their ranges.
_TO_YDBDR = ((0.299, 0.587, 0.114), (-0.450, -0.883, 1.333), (-1.333, 1.116, 0.217))
_YDBDR_CENTER, _YDBDR_SPREAD = (0.5, 0.0, 0.0), (0.5, 1.333, 1.333)


def rgb_to_lab(x: Tensor) -> Tensor:
    """CIE 1976 L, a, b of sRGB pixels under D65.

    Parameters
    ----------
    x : Tensor, shape (B, 3, H, W)
        Values from 0 to 1; others are clipped to that range.

    Returns
    -------
    Tensor, shape (B, 3, H, W)
        L from 0 to 100; a from -86.2 to 98.3; b from -107.9 to 94.5.
    """
    x = x.clamp(0, 1)
    linear = torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    matrix = torch.tensor(_TO_XYZ, dtype=x.dtype, device=x.device)
    relative = torch.einsum("ij,bjhw->bihw", matrix / matrix.sum(1, keepdim=True), linear)
    # The derivative of the cube root is infinite at 0, where the definition is linear.
    dark = relative <= (6 / 29) ** 3
    root = torch.where(dark, 1.0, relative) ** (1 / 3)
    f = torch.where(dark, relative * (29 / 6) ** 2 / 3 + 4 / 29, root)
    fx, fy, fz = f.unbind(1)
    return torch.stack([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)], dim=1)


def rgb_to_ydbdr(x: Tensor) -> Tensor:
    """Y, Db, Dr of sRGB pixels.

    Parameters
    ----------
    x : Tensor, shape (B, 3, H, W)
        Values from 0 to 1; others are clipped to that range.

    Returns
    -------
    Tensor, shape (B, 3, H, W)
        Y from 0 to 1; Db and Dr from -1.333 to 1.333.
    """
    return torch.einsum("ij,bjhw->bihw", torch.tensor(_TO_YDBDR, dtype=x.dtype, device=x.device), x.clamp(0, 1))


class ColorSplit(nn.Module):
    """Three views of scaled color images (MetAug, appendix B.1 and table 6).

    Parameters
    ----------
    mean, std : sequence of 3 floats
        Mean and standard deviation by which pixels / 255 were scaled.
    space : {"lab", "ydbdr"}
        "lab": the views are the unchanged RGB, L, and ab; "ydbdr": Y, Db, and Dr.

    Attributes
    ----------
    channels : tuple of int
        Channels of the views: 3, 1, 2, or 1, 1, 1.

    Raises
    ------
    InputError
        `mean` or `std` does not have three values, for instance for gray images.
    """

    mean: Tensor
    std: Tensor
    center: Tensor
    spread: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], space: Literal["lab", "ydbdr"] = "lab") -> None:
        super().__init__()
        self.lab = space == "lab"
        self.channels = (3, 1, 2) if self.lab else (1, 1, 1)
        if len(mean) != 3 or len(std) != 3:
            views = "RGB, L and ab" if self.lab else "Y, Db and Dr"
            raise InputError(f"the views {views} need images of 3 channels, got {len(mean)}")
        center, spread = (_CENTER, _SPREAD) if self.lab else (_YDBDR_CENTER, _YDBDR_SPREAD)
        for name, values in (("mean", mean), ("std", std), ("center", center), ("spread", spread)):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Views (B, c, H, W) with c of `channels`, of scaled images (B, 3, H, W), with values of order 1."""
        with torch.autocast(x.device.type, enabled=False):
            wide = (x if x.dtype == torch.float64 else x.float()) * self.std + self.mean
            colors = (rgb_to_lab(wide) if self.lab else rgb_to_ydbdr(wide)) - self.center
            colors = (colors / self.spread).to(x.dtype)
        return (x, colors[:, :1], colors[:, 1:]) if self.lab else colors.split(1, dim=1)
