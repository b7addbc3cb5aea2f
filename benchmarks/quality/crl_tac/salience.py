"""Places in samples without training: three baselines for what a channel locates.

Samples are (n, C, H, W), sequences have H = 1. A place is one of the boxes of a size on a grid. None uses labels or
known places.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

Size = tuple[int, int]


def center(x: Tensor, size: Size) -> Tensor:
    """The box in the middle of each sample, (n, 4): top, left, height, width."""
    corner = [(side - length) / 2 for side, length in zip(x.shape[2:], size, strict=True)]
    return torch.tensor([[*corner, *size]]).expand(len(x), -1)


def most_deviating(x: Tensor, train: Tensor, size: Size, stride: Size) -> Tensor:
    """The box whose values differ most from the mean patch of the training samples (squared distance), (n, 4)."""
    corners = [(side - length) // step for side, length, step in zip(x.shape[2:], size, stride, strict=True)]
    mean = torch.zeros(x.shape[1], *size)
    for row in range(size[0]):
        for column in range(size[1]):
            part = train[..., row :: stride[0], column :: stride[1]][..., : corners[0] + 1, : corners[1] + 1]
            mean[:, row, column] = part.mean(dim=(0, 2, 3))
    ones = torch.ones_like(mean)[None]
    distance = F.conv2d(x.square(), ones, stride=stride) - 2 * F.conv2d(x, mean[None], stride=stride)
    return _largest(distance[:, 0], size, stride)


def spectral_residual(x: Tensor, size: Size, stride: Size, blur: float = 2.5) -> Tensor:
    """The box with the largest saliency (Hou and Zhang 2007, Saliency detection: a spectral residual approach), (n, 4).

    The logarithm of the amplitude spectrum of the gray image, minus its mean over 3 x 3 frequencies, with the phase of
    the image: the squared inverse transform, blurred. The paper reduces images to 64 pixels, as these have.
    """
    spectrum = torch.fft.fft2(x.mean(dim=1, keepdim=True))
    log = spectrum.abs().clamp_min(1e-8).log()
    residual = log - F.avg_pool2d(F.pad(log, (1, 1, 1, 1), mode="circular"), 3, 1)
    saliency = torch.fft.ifft2(torch.polar(residual.exp(), spectrum.angle())).abs().square()
    at = torch.arange(-8, 9)
    kernel = torch.exp(-(at**2) / (2 * blur**2))
    kernel = kernel / kernel.sum()
    for shape in ((1, 1, 17, 1), (1, 1, 1, 17)):
        saliency = F.conv2d(saliency, kernel.view(shape), padding=(shape[2] // 2, shape[3] // 2))
    return _largest(F.avg_pool2d(saliency, size, stride)[:, 0], size, stride)


def _largest(values: Tensor, size: Size, stride: Size) -> Tensor:
    """The box with the largest value, (n, 4), from a value for each box of the grid, (n, rows, columns)."""
    best = values.flatten(1).argmax(dim=1)
    top, left = best // values.shape[2] * stride[0], best % values.shape[2] * stride[1]
    return torch.stack([top, left, *(torch.full_like(top, length) for length in size)], dim=1).double()
