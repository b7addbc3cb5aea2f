"""Denoisers of vectors: noised codes (B, d) to predictions of the same shape; see the package."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.denoisers.parts import time_features


class VectorDenoiser(nn.Module):
    """Residual layers of one width, made for one CPU core.

    The condition is added before every block; the time sets scale and shift after each block's norm, and how much of
    the noised codes themselves the prediction holds.

    Parameters
    ----------
    n_features : int
        d.
    condition : int
        Width c of the condition.
    width : int
        Width of the layers.
    blocks : int
        Number of residual blocks, two layers each.
    """

    def __init__(self, n_features: int, condition: int, *, width: int = 192, blocks: int = 3) -> None:
        super().__init__()
        self.width, self.code = width, 64
        self.time = nn.Linear(self.code, self.code)
        self.condition = nn.Linear(condition, width)
        self.first = nn.Linear(n_features, width)
        self.modulate = nn.ModuleList(nn.Linear(self.code, 2 * width) for _ in range(blocks))
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.last = nn.Linear(width, n_features)
        self.share = nn.Linear(self.code, n_features)
        for layer in (self.last, self.share):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, d), from times (B,) of a 1,000-step schedule and conditions (B, c)."""
        code = F.silu(self.time(time_features(t, self.code).to(condition.dtype)))
        told = self.condition(condition)
        h = self.first(x) + told
        for modulate, inner, outer in zip(self.modulate, self.inner, self.outer, strict=True):
            scale, shift = modulate(code).chunk(2, dim=1)
            z = torch.addcmul(shift, F.layer_norm(h, (self.width,)), 1 + scale) + told
            h = h + outer(F.silu(inner(z)))
        return torch.addcmul(self.last(F.layer_norm(h, (self.width,))), self.share(code), x)


class PublishedVectorDenoiser(nn.Module):
    """DiffAug's network for vectors (Zang et al. 2024, listing 2), as in the authors' program.

    Eight blocks d - width - d with what was skipped added up across the middle; time and condition are added to the
    input of every block. The row-wise norm is what the published InstanceNorm does to (B, d). Its last layer starts at
    random, as published.

    Parameters
    ----------
    n_features : int
        d.
    condition : int
        Width c of the condition.
    width : int
    """

    def __init__(self, n_features: int, condition: int, *, width: int = 2000) -> None:
        super().__init__()
        self.time = nn.Embedding(1000, n_features)
        widths = [condition, 200, 200, n_features]
        layers = [nn.Linear(n_in, n_out) for n_in, n_out in itertools.pairwise(widths)]
        self.condition = nn.Sequential(layers[0], nn.LeakyReLU(), layers[1], nn.LeakyReLU(), layers[2])
        self.blocks = nn.ModuleList(_Block(n_features, width, leading=number > 0) for number in range(8))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, d), from times (B,), 0 to 999, and conditions (B, c)."""
        added = self.time(t.long()).to(condition.dtype) + self.condition(condition)
        e1 = self.blocks[0](x + added)
        e2 = self.blocks[1](e1 + added) + e1
        e3 = self.blocks[2](e2 + added) + e1 + e2
        e4 = self.blocks[3](e3 + added) + e1 + e2 + e3
        d1 = self.blocks[4](e4 + added)
        d2 = self.blocks[5](d1 + added) + e3 + d1
        d3 = self.blocks[6](d2 + added) + e2 + d1 + d2
        prediction: Tensor = self.blocks[7](d3 + added) + e1 + d1 + d2 + d3
        return prediction


class _Block(nn.Module):
    """LeakyReLU - norm - Linear(d, width) - LeakyReLU - norm - Linear(width, d), the first without the first two."""

    def __init__(self, n_features: int, width: int, *, leading: bool) -> None:
        super().__init__()
        self.leading = leading
        self.widen, self.narrow = nn.Linear(n_features, width), nn.Linear(width, n_features)

    def forward(self, h: Tensor) -> Tensor:
        if self.leading:
            h = _normed(h)
        narrowed: Tensor = self.narrow(_normed(self.widen(h)))
        return narrowed


def _normed(h: Tensor) -> Tensor:
    return F.layer_norm(F.leaky_relu(h), h.shape[1:])
