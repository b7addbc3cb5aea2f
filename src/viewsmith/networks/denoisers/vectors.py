"""Denoisers of vectors: ``denoiser(x, t, condition)``, noised codes (B, d) to a prediction of the same shape."""

from __future__ import annotations

import itertools

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.denoisers.layers import Modulation, TimeCode, zero_start

TIME_WIDTH = 64


class VectorDenoiser(nn.Module):
    """A residual MLP made for one CPU core: a training step costs about as much as one of a small encoder.

    The condition is projected once and added after the first layer and in every block but the first. The time sets
    scale and shift after each block's norm (FiLM: Perez et al. 2018), and how much of the noised codes themselves,
    entry by entry, the prediction holds. In trials, adding the condition learned as well or better, at less than half
    the work, than letting time and condition set the scales together. It predicts 0 until it is trained.

    Made for "v" predictions and a learning rate around 4e-3 at batch 256.

    Parameters
    ----------
    n_features : int
        d.
    condition : int
        Width c of the condition.
    width : int
        Width of the hidden layers.
    blocks : int
        Residual blocks of two layers each, after the first layer.
    """

    def __init__(self, n_features: int, condition: int, *, width: int = 192, blocks: int = 2) -> None:
        super().__init__()
        self.time = TimeCode(TIME_WIDTH)
        self.condition = nn.Linear(condition, width)
        self.first = nn.Linear(n_features, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(blocks))
        self.last = zero_start(nn.Linear(width, n_features))
        self.share = zero_start(nn.Linear(TIME_WIDTH, n_features))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, d) from noised codes (B, d), times (B,), 0 to 999, and conditions (B, c)."""
        time, told = self.time(t), self.condition(condition)
        h = self.first(x) + told
        for number, block in enumerate(self.blocks):
            # The first has just been told: adding it a second time never helped, and learned more slowly on some data.
            h = block(h, time, told if number else None)
        return self.last(_row_norm(h)) + self.share(time) * x


class _Block(nn.Module):
    """``h + outer(SiLU(inner((1 + scale) * norm(h) + shift + told)))``, with scale and shift from the time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulate = Modulation(TIME_WIDTH, width)
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h: Tensor, time: Tensor, told: Tensor | None) -> Tensor:
        change: Tensor = self.outer(F.silu(self.inner(self.modulate(_row_norm(h), time, told))))
        return h + change


class PublishedVectorDenoiser(nn.Module):
    """DiffAug's network for vectors (Zang et al. 2024, listing 2), made to predict "eps".

    Eight blocks d - width - d, with the outputs of earlier blocks summed into later ones; time and condition are added
    to the input of every block. Where the listing and the authors' program differ, the program is followed: the
    condition has layers of its own, and the first block has no activation and norm in front. The program's
    InstanceNorm of (B, d) is a norm of each row without scale and shift.

    Its last layer starts at random, as published: unlike the other denoisers, it does not predict 0 before training.

    Parameters
    ----------
    n_features : int
        d.
    condition : int
        Width c of the condition.
    width : int
        Width of the hidden layer of each block.
    """

    def __init__(self, n_features: int, condition: int, *, width: int = 2000) -> None:
        super().__init__()
        self.time = nn.Embedding(1000, n_features)
        widths = [condition, 200, 200, n_features]
        first, second, third = (nn.Linear(n_in, n_out) for n_in, n_out in itertools.pairwise(widths))
        self.condition = nn.Sequential(first, nn.LeakyReLU(), second, nn.LeakyReLU(), third)
        self.blocks = nn.ModuleList(_PublishedBlock(n_features, width, leading=number > 0) for number in range(8))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, d) from noised codes (B, d), times (B,), 0 to 999 in whole steps, and conditions (B, c)."""
        told = self.time(t.long()) + self.condition(condition)
        e1 = self.blocks[0](x + told)
        e2 = self.blocks[1](e1 + told) + e1
        e3 = self.blocks[2](e2 + told) + e1 + e2
        e4 = self.blocks[3](e3 + told) + e1 + e2 + e3
        d1 = self.blocks[4](e4 + told)
        d2 = self.blocks[5](d1 + told) + e3 + d1
        d3 = self.blocks[6](d2 + told) + e2 + d1 + d2
        d4: Tensor = self.blocks[7](d3 + told) + e1 + d1 + d2 + d3
        return d4


class _PublishedBlock(nn.Module):
    """LeakyReLU - norm - Linear(d, width) - LeakyReLU - norm - Linear(width, d); the first two only if `leading`."""

    def __init__(self, n_features: int, width: int, *, leading: bool) -> None:
        super().__init__()
        self.leading = leading
        self.widen, self.narrow = nn.Linear(n_features, width), nn.Linear(width, n_features)

    def forward(self, h: Tensor) -> Tensor:
        if self.leading:
            h = _row_norm(F.leaky_relu(h))
        narrowed: Tensor = self.narrow(_row_norm(F.leaky_relu(self.widen(h))))
        return narrowed


def _row_norm(h: Tensor) -> Tensor:
    """Each row at mean 0 and variance 1."""
    return F.layer_norm(h, h.shape[1:])
