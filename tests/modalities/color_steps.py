"""The color operations one by one, as torchvision has them: what `recolor` joins in one matrix."""

import math

import torch
from torch import Tensor

from viewsmith.modalities.images.operations import LUMA, _per_image


def _luma(x: Tensor) -> Tensor:
    return x if x.shape[1] == 1 else torch.einsum("bchw,c->bhw", x, x.new_tensor(LUMA))[:, None]


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
