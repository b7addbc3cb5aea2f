"""Crops and blurs of images, batched: both weigh rows and then columns of pixels, each image with weights of its own.

A crop with sides parallel to the image's is separable, and so is a Gaussian. Measured on a CPU, two passes over lines
of pixels take about the time of `grid_sample` at 32 pixels a side, less at 96 and 1.4 to 2 times as much at 224; blurs
take less than grouped convolutions. Unlike with `grid_sample`, nothing from outside the box comes in.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.views.base import rand

# The width in pixels up to which columns are weighed by a matrix product (measured on one CPU thread).
WIDEST_MATRIX = 64


def weigh_rows(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Row r of each output image is the weighted sum of some rows of its sample.

    Parameters
    ----------
    x : Tensor, shape (B, C, H, W)
    index : Tensor, int64, shape (N, R, k)
        Rows of the sample, 0 to H - 1. N is B or a multiple of it: output i is made from sample i // (N / B).
    weights : Tensor, shape (N, R, k)

    Returns
    -------
    Tensor, shape (N, C, R, W)
        Differentiable in `x` and `weights`.
    """
    (b, c, height, width), (n, rows, k) = x.shape, index.shape
    first = height * torch.arange(b * c, device=x.device).view(b, 1, c, 1, 1)
    flat = (first + index.view(b, n // max(b, 1), 1, rows, k)).view(-1, k)
    # A bag reads its rows and writes their sum: no copies of the taken rows, which would cost more than the sums.
    shares = weights[:, None].expand(n, c, rows, k).reshape(-1, k)
    bags = F.embedding_bag(flat, x.reshape(-1, width), mode="sum", per_sample_weights=shares)
    return bags.view(n, c, rows, width)


def weigh_columns(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """The same for columns: (B, C, H, W) to (B, C, H, R) by `index` and `weights` of (B, R, k); see `weigh_rows`."""
    (b, c, height, width), size = x.shape, index.shape[1]
    if width > WIDEST_MATRIX:
        return weigh_rows(x.mT, index, weights).mT.contiguous()
    # On small images a product with a matrix that is mostly 0 costs less than turning the images twice.
    matrix = weights.new_zeros(b, size, width).scatter_add(2, index, weights)
    return torch.bmm(x.view(b, c * height, width), matrix.mT).view(b, c, height, size)


def crop(x: Tensor, boxes: Tensor, size: tuple[int, int] | None = None, flip: Tensor | None = None) -> Tensor:
    """Cut boxes out of images and resize them: bilinear, without antialiasing, nothing from outside the box.

    Parameters
    ----------
    x : Tensor, shape (B, C, H, W)
    boxes : Tensor, shape (N, 4)
        Top, left, height, width in pixels, whole or not, inside the image. N is B or a multiple of it: output i shows
        sample i // (N / B).
    size : (int, int), optional
        Height and width of the output; default: those of `x`.
    flip : bool Tensor, shape (N,), optional
        Which outputs to mirror left to right.

    Returns
    -------
    Tensor, shape (N, C, *size)
        Differentiable in `x` and `boxes`. The whole image as a box gives back the image, bit for bit.
    """
    height, width = size or (x.shape[2], x.shape[3])
    top, left, tall, wide = boxes.to(x.dtype).unbind(1)
    down, across = _positions(top, tall, height), _positions(left, wide, width)
    if flip is not None:
        across = torch.where(flip[:, None], across.flip(1), across)
    rows = weigh_rows(x, *_taps(down, x.shape[2]))
    return weigh_columns(rows, *_taps(across, x.shape[3]))


def blur(x: Tensor, sigma: Tensor, kernel_size: int | None = None) -> Tensor:
    """Gaussian blur, separable, borders reflected.

    Parameters
    ----------
    x : Tensor, shape (B, C, H, W)
    sigma : Tensor, shape (B,)
        Standard deviation in pixels; 0 leaves the image as it is.
    kernel_size : int, optional
        Odd; default `blur_size` of the shorter side.

    Returns
    -------
    Tensor, shape (B, C, H, W)
        Differentiable in `x` and `sigma`.
    """
    radius = (kernel_size or blur_size(min(x.shape[2:]))) // 2
    offsets = torch.arange(-radius, radius + 1, device=x.device)
    # exp(-d^2 / 2 s^2) underflows to 0 for the smallest variance: sigma = 0 then has all its weight in the middle.
    kernel = (-0.5 * offsets.square() / sigma.to(x.dtype).square().clamp_min(1e-6)[:, None]).exp()
    kernel = (kernel / kernel.sum(1, keepdim=True))[:, None]
    rows, columns = (_reflected(side, offsets, len(x)) for side in x.shape[2:])
    x = weigh_rows(x, rows, kernel.expand(-1, x.shape[2], -1))
    return weigh_columns(x, columns, kernel.expand(-1, x.shape[3], -1))


def blur_size(side: int) -> int:
    """Taps of the blur of an image: a tenth of its side made odd (SimCLR: Chen et al. 2020, appendix A), at least 3."""
    return 2 * max(1, side // 20) + 1


def random_boxes(
    n: int,
    image: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    like: Tensor,
    generator: torch.Generator | None = None,
    *,
    tries: int = 10,
) -> Tensor:
    """Boxes of random area and shape inside an image (Inception crops: Szegedy et al. 2015, section 6).

    Area uniform in `scale`, logarithm of width / height uniform in that of `ratio`, sides rounded to pixels, position
    uniform. Of ten tries the first that fits the image; if none does, the largest central box within `ratio`.

    Parameters
    ----------
    n : int
    image : (int, int)
        Height and width in pixels.
    scale : (float, float)
        Range of the share of the image's area.
    ratio : (float, float)
        Range of width / height.
    like : Tensor
        Gives device and dtype.

    Returns
    -------
    Tensor, shape (n, 4)
        Top, left, height, width: whole numbers.
    """
    height, width = image
    area, shape = rand((2, n, tries), like, generator).unbind(0)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    shape = (math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * shape).exp()
    sides = torch.stack([area / shape, area * shape]).sqrt().round()
    central = width / height
    fallback = (
        min(height, round(width / ratio[0])) if central < ratio[0] else height,
        min(width, round(height * ratio[1])) if central > ratio[1] else width,
    )
    room = sides.new_tensor(image)[:, None]
    fits = ((sides >= 1) & (sides <= room[..., None])).all(0)
    first = fits.byte().argmax(1)[None, :, None].expand(2, -1, -1)
    last = sides.new_tensor(fallback)[:, None]
    chosen = torch.where(fits.any(1), sides.gather(2, first)[..., 0], last)
    place = rand((2, n), like, generator)
    # In float32 a draw just below 1 can round up to the next pixel.
    corner = torch.minimum((place * (room - chosen + 1)).floor(), room - chosen)
    corner = torch.where(fits.any(1), corner, ((room - last) / 2).floor())
    return torch.cat([corner, chosen]).T


def _positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Where along a side the centers of the output pixels fall, (N, size), in pixels of the image."""
    step = torch.arange(size, dtype=start.dtype, device=start.device) + 0.5
    inside = (step * (length / size)[:, None] - 0.5).clamp_min(0)
    return start[:, None] + torch.minimum(inside, (length - 1).clamp_min(0)[:, None])


def _taps(positions: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """The two pixels around each position and their weights, (N, size, 2) each."""
    below = positions.detach().floor().clamp(0, side - 2)
    share = positions - below
    index = below.long()
    return torch.stack([index, index + 1], 2), torch.stack([1 - share, share], 2)


def _reflected(side: int, offsets: Tensor, n: int) -> Tensor:
    """The pixels at `offsets` (k,) from each pixel of a side, (n, side, k); beyond the ends it is mirrored."""
    index = (torch.arange(side, device=offsets.device)[:, None] + offsets).abs()
    return ((side - 1) - (side - 1 - index).abs()).expand(n, -1, -1)
