"""Batched color operations on images, all linear ones at once.

Images are (B, C, H, W), C 1 or 3 (red, green, blue), with values in [0, 1] unless stated otherwise; factors are (B,),
one per image. The luma is Y = .299 R + .587 G + .114 B (ITU-R BT.601).

Hue is changed by rotating the chroma about the gray axis at constant luma, not by a shift of H in HSV: this is linear,
differentiable everywhere, and rotates every color by the given angle (Haeberli 1993, "Matrix operations for image
processing"). Brightness, contrast, saturation, hue and gray are then commuting matrices: their order does not matter,
and `recolor` applies them as one 3 x 3 matrix and one offset per image.

Batched crops and blurs of images: weighted sums of pixel rows, then of columns, with separate weights per image.

Axis-parallel crops and Gaussian blurs are separable. On a CPU these two passes take about the time of `grid_sample` for
32 x 32 pixels, less for 96 x 96, and 1.4 to 2 times as much for 224 x 224; blurs take less time than grouped
convolutions. Unlike `grid_sample`, they do not use pixels outside the box.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.tensors import constant
from viewsmith.views.base import rand

LUMA = (0.299, 0.587, 0.114)


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
    """All four adjustments as one matrix and offset per image, clamped once: x' = b c (1 w^T + s (cos h P + sin h Q)) x
    + b (1 - c) m, with luma weights w, mean luma m, P = I - 1 w^T, Q a quarter turn of the chroma."""
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


def _per_image(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)


# Largest width in pixels for which columns are summed by a matrix product (measured on one CPU thread).
MAX_MATRIX_WIDTH = 64


def weigh_rows(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Compute images whose row r is a weighted sum of k rows of the sample."""
    (b, c, height, width), (n, rows, k) = x.shape, index.shape
    first = height * torch.arange(b * c, device=x.device).view(b, 1, c, 1, 1)
    flat = (first + index.view(b, n // max(b, 1), 1, rows, k)).view(-1, k)
    # embedding_bag sums the rows without copies of them, which would take more time than the sums.
    per_channel = weights[:, None].expand(n, c, rows, k).reshape(-1, k)
    sums = F.embedding_bag(flat, x.reshape(-1, width), mode="sum", per_sample_weights=per_channel)
    return sums.view(n, c, rows, width)


def weigh_columns(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """`weigh_rows` for columns: (B, C, H, W) to (B, C, H, R), with `index` and `weights` of shape (B, R, k)."""
    (b, c, height, width), size = x.shape, index.shape[1]
    if width > MAX_MATRIX_WIDTH:
        return weigh_rows(x.mT, index, weights).mT.contiguous()
    # For small images a product with a sparse matrix is faster than transposing the images twice.
    matrix = weights.new_zeros(b, size, width).scatter_add(2, index, weights)
    return torch.bmm(x.view(b, c * height, width), matrix.mT).view(b, c, height, size)


def crop(x: Tensor, boxes: Tensor, size: tuple[int, int] | None = None, flip: Tensor | None = None) -> Tensor:
    """Crop boxes from images and resize them: bilinear, without antialiasing, using only pixels inside the box."""
    height, width = size or (x.shape[2], x.shape[3])
    top, left, tall, wide = boxes.to(x.dtype).unbind(1)
    down, across = _positions(top, tall, height), _positions(left, wide, width)
    if flip is not None:
        across = torch.where(flip[:, None], across.flip(1), across)
    rows = weigh_rows(x, *_taps(down, x.shape[2]))
    return weigh_columns(rows, *_taps(across, x.shape[3]))


def blur(x: Tensor, sigma: Tensor, kernel_size: int | None = None) -> Tensor:
    """Separable Gaussian blur with reflected borders."""
    radius = (kernel_size or blur_size(min(x.shape[2:]))) // 2
    offsets = torch.arange(-radius, radius + 1, device=x.device)
    # With the smallest variance exp(-d^2 / 2 s^2) underflows to 0 for d > 0: for sigma = 0 only the center has weight.
    kernel = (-0.5 * offsets.square() / sigma.to(x.dtype).square().clamp_min(1e-6)[:, None]).exp()
    kernel = (kernel / kernel.sum(1, keepdim=True))[:, None]
    rows, columns = (_reflected(side, offsets, len(x)) for side in x.shape[2:])
    x = weigh_rows(x, rows, kernel.expand(-1, x.shape[2], -1))
    return weigh_columns(x, columns, kernel.expand(-1, x.shape[3], -1))


def blur_size(side: int) -> int:
    """Kernel size of the blur: a tenth of the side, odd, at least 3 (SimCLR: Chen et al. 2020, appendix A)."""
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
    """Boxes inside an image (Szegedy et al. 2015, section 6), area and log(width / height) uniform: the first of
    `tries` draws that fits, else the largest central box."""
    height, width = image
    area, aspect = rand((2, n, tries), like, generator).unbind(0)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    aspect = (math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * aspect).exp()
    sides = torch.stack([area / aspect, area * aspect]).sqrt().round()
    central = width / height
    fallback = (
        min(height, round(width / ratio[0])) if central < ratio[0] else height,
        min(width, round(height * ratio[1])) if central > ratio[1] else width,
    )
    limit = constant(image, sides)[:, None]
    fits = ((sides >= 1) & (sides <= limit[..., None])).all(0)
    first = fits.byte().argmax(1)[None, :, None].expand(2, -1, -1)
    largest = constant(fallback, sides)[:, None]
    chosen = torch.where(fits.any(1), sides.gather(2, first)[..., 0], largest)
    position = rand((2, n), like, generator)
    # In float32 a draw just below 1 can be rounded up to the next pixel.
    corner = torch.minimum((position * (limit - chosen + 1)).floor(), limit - chosen)
    corner = torch.where(fits.any(1), corner, ((limit - largest) / 2).floor())
    return torch.cat([corner, chosen]).T


def _positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Centers of the output pixels along a side, (N, size), in pixels of the image."""
    step = torch.arange(size, dtype=start.dtype, device=start.device) + 0.5
    inside = (step * (length / size)[:, None] - 0.5).clamp_min(0)
    return start[:, None] + torch.minimum(inside, (length - 1).clamp_min(0)[:, None])


def _taps(positions: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """The two pixels around each position and their weights, (N, size, 2) each."""
    below = positions.detach().floor().clamp(0, side - 2)
    weight = positions - below
    index = below.long()
    return torch.stack([index, index + 1], 2), torch.stack([1 - weight, weight], 2)


def _reflected(side: int, offsets: Tensor, n: int) -> Tensor:
    """Indices of the pixels at `offsets`, (k,), from each pixel of a side, reflected at the ends: (n, side, k)."""
    index = (torch.arange(side, device=offsets.device)[:, None] + offsets).abs()
    return ((side - 1) - (side - 1 - index).abs()).expand(n, -1, -1)
