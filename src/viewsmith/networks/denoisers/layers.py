"""What the denoisers share: what they know of the time step, and ends that start at zero."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv1d, nn.Conv2d)


def time_features(t: Tensor, width: int) -> Tensor:
    """Sinusoidal features of the time steps, sines, then cosines: (B,) to (B, width).

    As positions in Vaswani et al. 2017, section 3.5. Frequencies fall geometrically from 1 to 1/10,000. An odd width
    ends in a column of zeros. Float64 times give
    float64 features, all others float32.
    """
    half = width // 2
    dtype = t.dtype if t.dtype == torch.float64 else torch.float32
    rates = torch.arange(half, dtype=dtype, device=t.device) * (-math.log(10_000) / max(1, half - 1))
    angles = t.to(dtype)[:, None] * rates.exp()
    return torch.cat([angles.sin(), angles.cos(), angles.new_zeros(len(t), width - 2 * half)], dim=1)


class TimeCode(nn.Linear):
    """A learned code of the time steps, (B,) to (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)

    def forward(self, t: Tensor) -> Tensor:
        # Times must not be rounded in half precision, and weights of float64 get features of float64.
        precise = torch.promote_types(self.weight.dtype, torch.float32)
        features = time_features(t.to(precise), self.in_features).to(self.weight.dtype)
        return F.silu(super().forward(features))


class Modulation(nn.Module):
    """Scale and shift from the time's code, and what the condition says, on each channel (FiLM: Perez et al. 2018)."""

    def __init__(self, time_width: int, width: int) -> None:
        super().__init__()
        self.factors = nn.Linear(time_width, 2 * width)

    def forward(self, h: Tensor, time: Tensor, told: Tensor | None = None) -> Tensor:
        """``(1 + scale) h + shift + told``, (B, width, ...), of `time` (B, time_width) and `told` (B, width)."""
        scale, shift = self.factors(time).chunk(2, dim=1)
        shift = shift if told is None else shift + told
        per_channel = (*scale.shape, *[1] * (h.ndim - 2))
        return torch.addcmul(shift.view(per_channel), h, (1 + scale).view(per_channel))


def zero_start(layer: Layer) -> Layer:
    """The layer with weights and bias at zero: what it ends predicts 0 until it has learned."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
