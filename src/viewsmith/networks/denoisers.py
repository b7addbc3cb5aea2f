"""Layers of the denoisers: timestep embedding, modulation, and zero initialization."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv1d, nn.Conv2d)


def time_features(t: Tensor, width: int) -> Tensor:
    """Sines, then cosines of time steps (Vaswani et al. 2017, section 3.5), at geometric frequencies 1 to 1/10,000."""
    half = width // 2
    dtype = t.dtype if t.dtype == torch.float64 else torch.float32
    rates = torch.arange(half, dtype=dtype, device=t.device) * (-math.log(10_000) / max(1, half - 1))
    angles = t.to(dtype)[:, None] * rates.exp()
    return torch.cat([angles.sin(), angles.cos(), angles.new_zeros(len(t), width - 2 * half)], dim=1)


class TimestepEmbedding(nn.Linear):
    """A learned embedding of time steps, (B,) to (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)

    def forward(self, t: Tensor) -> Tensor:
        # Times must not be rounded to half precision; float64 weights get float64 features.
        precise = torch.promote_types(self.weight.dtype, torch.float32)
        features = time_features(t.to(precise), self.in_features).to(self.weight.dtype)
        return F.silu(super().forward(features))


class Modulation(nn.Module):
    """Scale and shift each channel, depending on time and condition (FiLM: Perez et al. 2018)."""

    def __init__(self, time_width: int, width: int) -> None:
        super().__init__()
        self.factors = nn.Linear(time_width, 2 * width)

    def forward(self, h: Tensor, time: Tensor, condition: Tensor | None = None) -> Tensor:
        """``(1 + scale) h + shift + condition``, where the time determines scale and shift."""
        scale, shift = self.factors(time).chunk(2, dim=1)
        shift = shift if condition is None else shift + condition
        per_channel = (*scale.shape, *[1] * (h.ndim - 2))
        return torch.addcmul(shift.view(per_channel), h, (1 + scale).view(per_channel))


def zero_initialized(layer: Layer) -> Layer:
    """The layer with weights and bias set to 0; a network that ends in it predicts 0 before training."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
