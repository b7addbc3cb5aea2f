"""Networks of an augmentation channel, which map samples to the logits of their transformations.

The last layer of each is 0 at initialization: the channel is uniform.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.modalities.dna.networks import real_positions
from viewsmith.modalities.spectra.features import normalized
from viewsmith.networks.base import zero_initialized


class CropScores(nn.Module):
    """Images (B, C, H, W) to the logits of the crops of a grid, (B, rows, columns).

    Three convolutions without padding (Koyama et al. 2021, section 5.3, which gives only the number of layers), with a
    stride of 4, that of the paper's crops. The last has the size with which a logit sees a crop: 20 x 20 pixels, those
    of the paper's crops, or the largest 20 + 4k that a larger crop contains. If crops have such a size and a stride
    that is a multiple of 4, a logit depends on its crop only: if an object moves, its logits move with it, and an empty
    image has equal logits. Logits of other crops are interpolated between those at the nearest centers. For a finer
    grid (small crops) the image is enlarged to have a logit for each crop.
    """

    def __init__(self, channels: int = 1, *, crop: int = 20, stride: int = 4) -> None:
        super().__init__()
        self.crop, self.stride = crop, stride
        last = max(3, (crop - 8) // 4) if stride >= 4 else 3
        self.seen = 8 + 4 * last  # side of what a logit sees
        self.conv1 = nn.Conv2d(channels, 16, 6, 2)
        self.conv2 = nn.Conv2d(16, 32, 4, 2)
        self.conv3 = zero_initialized(nn.Conv2d(32, 1, last))

    def forward(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        enlarged = self.crop < self.seen or self.stride < 4
        if enlarged:
            size = [max(side, 20 + 4 * (count - 1)) for side, count in zip(x.shape[2:], grid, strict=True)]
            x = x if size == list(x.shape[2:]) else F.interpolate(x, size, mode="bilinear")
        scores = self.conv3(F.relu(self.conv2(F.relu(self.conv1(x)))))[:, 0]
        if tuple(scores.shape[1:]) == grid:
            return scores
        if enlarged:
            return F.interpolate(scores[:, None], grid, mode="bilinear", align_corners=True)[:, 0]
        sides = zip(scores.shape[1:], grid, strict=True)
        rows, columns = (self._at_crops(length, count, scores) for length, count in sides)
        return rows @ scores @ columns.T

    def _at_crops(self, length: int, count: int, like: Tensor) -> Tensor:
        """Weights with which `length` logits, 4 pixels apart, give those at the centers of crops: (count, length)."""
        at = torch.arange(count, device=like.device) * (self.stride / 4) + (self.crop - self.seen) / 8
        at = at.clamp_max(length - 1)
        weights = 1 - (at[:, None] - torch.arange(length, device=like.device)).abs()
        return weights.clamp_min(0).to(like.dtype)


class MaskScores(nn.Module):
    """Vectors (B, d) to the logits of M transformations, (B, M)."""

    def __init__(self, n_features: int, n_transforms: int, *, hidden: int = 128) -> None:
        super().__init__()
        self.inner = nn.Linear(n_features, hidden)
        self.outer = zero_initialized(nn.Linear(hidden, n_transforms))

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.relu(self.inner(x)))


class SpectrumScores(MaskScores):
    """Spectra (B, 1, T) to the logits of M transformations, (B, M), by means in parts of the axis of the spectrum
    without level and amplitude."""

    PARTS = 64

    def __init__(self, n_transforms: int) -> None:
        super().__init__(self.PARTS, n_transforms)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.adaptive_avg_pool1d(normalized(x), self.PARTS).flatten(1))


class PositionScores(nn.Module):
    """Sequences (B, C, L) to one logit per position, (B, L), by two convolutions."""

    def __init__(self, channels: int = 4, *, padded: bool = True, width: int = 32) -> None:
        super().__init__()
        self.padded = padded
        self.conv1 = nn.Conv1d(channels, width, 11, padding=5)
        self.conv2 = zero_initialized(nn.Conv1d(width, 1, 5, padding=2))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.conv1(x))
        return self.conv2(h * real_positions(x)[:, None] if self.padded else h)[:, 0]


class ImageScores(nn.Module):
    """Images (B, C, H, W) of any size to the logits of any M transformations, (B, M).

    Two convolutions, means over a grid of `GRID` x `GRID` cells (transformations may depend on the position), and a
    linear layer.
    """

    GRID = 4

    def __init__(self, channels: int, n_transforms: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 5, 2, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 3, 2, padding=1)
        self.outer = zero_initialized(nn.Linear(32 * self.GRID**2, n_transforms))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.outer(F.adaptive_avg_pool2d(h, self.GRID).flatten(1))


class SequenceScores(nn.Module):
    """Sequences (B, C, L) to the logits of any M transformations, (B, M).

    Two convolutions that ignore padding, means over `PARTS` equal parts of each sequence without its padding, and a
    linear layer.
    """

    PARTS = 8

    def __init__(self, n_transforms: int, channels: int = 4, *, width: int = 32) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, width, 11, padding=5)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.outer = zero_initialized(nn.Linear(width * self.PARTS, n_transforms))

    def forward(self, x: Tensor) -> Tensor:
        real = real_positions(x)
        h = F.relu(self.conv2(F.relu(self.conv1(x)) * real[:, None]))
        steps = torch.linspace(0, 1, self.PARTS + 1, device=x.device)
        ends = (real.sum(dim=1)[:, None] * steps).round().long()[:, None].expand(-1, h.shape[1], -1)
        sums = F.pad(h.cumsum(dim=2), (1, 0)).gather(2, ends)
        means = sums.diff(dim=2) / ends.diff(dim=2).clamp_min(1)
        return self.outer(means.flatten(1))
