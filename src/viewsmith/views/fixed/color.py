"""Batched color operations on images: single operations, and all linear operations at once.

Images are (B, C, H, W), C 1 or 3 (red, green, blue), with values in [0, 1] unless stated otherwise; factors are (B,),
one per image. The luma is Y = .299 R + .587 G + .114 B (ITU-R BT.601).

Hue is changed by rotating the chroma about the gray axis at constant luma, not by a shift of H in HSV: this is linear,
differentiable everywhere, and rotates every color by the given angle (Haeberli 1993, "Matrix operations for image
processing"). Brightness, contrast, saturation, hue and gray are then commuting matrices: their order does not matter,
and `recolor` applies them as one 3 x 3 matrix and one offset per image.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from viewsmith.core.device import constant

LUMA = (0.299, 0.587, 0.114)


def gray(x: Tensor) -> Tensor:
    """The luma in every channel; images with one channel are returned unchanged."""
    return _luma(x).expand_as(x)


def adjust_brightness(x: Tensor, factor: Tensor) -> Tensor:
    """f x, clamped to [0, 1]; factor 0 gives black, 1 changes nothing."""
    return (_per_image(factor) * x).clamp(0, 1)


def adjust_contrast(x: Tensor, factor: Tensor) -> Tensor:
    """f x + (1 - f) m, with the image's mean luma m, clamped to [0, 1]; factor 0 gives m everywhere, 1 no change."""
    return torch.lerp(_luma(x).mean((2, 3), keepdim=True), x, _per_image(factor)).clamp(0, 1)


def adjust_saturation(x: Tensor, factor: Tensor) -> Tensor:
    """f x + (1 - f) gray(x), clamped to [0, 1]; factor 0 gives gray, 1 changes nothing."""
    return torch.lerp(_luma(x), x, _per_image(factor)).clamp(0, 1)


def adjust_hue(x: Tensor, shift: Tensor) -> Tensor:
    """Rotate the chroma by `shift` turns at constant luma, clamped to [0, 1]; 1/3 maps red to green, green to blue."""
    if x.shape[1] == 1:
        return x.clamp(0, 1)
    red, green, blue = x.unbind(1)
    angle = 2 * math.pi * _per_image(shift)
    quarter = torch.stack([blue - green, red - blue, green - red], 1) / 3**0.5
    luma = _luma(x)
    return (luma + (x - luma) * angle.cos() + (quarter - _luma(quarter)) * angle.sin()).clamp(0, 1)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Replace values at or above the image's threshold by 1 - x; a threshold above 1 changes nothing."""
    return torch.where(x >= _per_image(threshold), 1 - x, x)


def recolor(
    x: Tensor,
    brightness: Tensor,
    contrast: Tensor,
    saturation: Tensor,
    hue: Tensor,
    *,
    mean: Tensor | None = None,
    std: Tensor | None = None,
) -> Tensor:
    """All four adjustments as one matrix and one offset per image, clamped once at the end.

    Equals the four functions in any order if no intermediate value is outside [0, 1] (the functions clamp each time).

    With factors b, c, s, angle h, luma weights w, P = I - 1 w^T, and Q a rotation of the chroma by a quarter turn,
    x' = b c (1 w^T + s (cos h P + sin h Q)) x + b (1 - c) m, where m is the image's mean luma.

    Parameters
    ----------
    x : Tensor, shape (B, C, H, W)
        Scaled images, (pixel - mean) / std.
    brightness, contrast, saturation, hue : Tensor, shape (B,)
        Hue in turns. Saturation and hue have no effect on images with one channel.
    mean, std : Tensor, shape (C,) or (1,), optional
        Scaling of the images. Default: 0 and 1.

    Returns
    -------
    Tensor, shape (B, C, H, W)
        Pixels in [0, 1], not scaled. Differentiable in `x` and all factors.
    """
    channels = x.shape[1]
    mean = (x.new_zeros(1) if mean is None else mean.to(x)).expand(channels)
    std = (x.new_ones(1) if std is None else std.to(x)).expand(channels)
    weights, chroma, quarter = _axes(channels, x)
    angle = 2 * math.pi * hue
    turned = (saturation * angle.cos())[:, None, None] * chroma + (saturation * angle.sin())[:, None, None] * quarter
    matrix = (brightness * contrast)[:, None, None] * (weights + turned)
    # The conversion of scaled values to pixels is part of the matrix and the offset.
    average = (std * x.mean((2, 3)) + mean) @ weights[0]
    offset = matrix @ mean + (brightness * (1 - contrast) * average)[:, None]
    return torch.baddbmm(offset[:, :, None], matrix * std, x.flatten(2)).clamp_(0, 1).view(x.shape)


def _axes(channels: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The matrices 1 w^T, P and Q of `recolor`, (C, C) each; for one channel 1, 0 and 0."""
    if channels == 1:
        zero = like.new_zeros(1, 1)
        return zero + 1, zero, zero
    weights = constant(LUMA, like).expand(3, 3)
    chroma = torch.eye(3, dtype=like.dtype, device=like.device) - weights
    return weights, chroma, chroma @ constant([0, -1, 1, 1, 0, -1, -1, 1, 0], like).view(3, 3) / 3**0.5


def _luma(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    red, green, blue = x.split(1, dim=1)
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def _per_image(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)
