"""What the denoisers share: features of the time step."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def time_features(t: Tensor, width: int) -> Tensor:
    """Sines, then cosines of the time steps (Vaswani et al. 2017, section 3.5), (B,) to (B, width).

    Frequencies fall geometrically from 1 to 1/10,000. An odd width ends in a column of zeros. Float64 times give
    float64 features, all others float32.
    """
    half = width // 2
    dtype = t.dtype if t.dtype == torch.float64 else torch.float32
    rates = torch.arange(half, dtype=dtype, device=t.device) * (-math.log(10_000) / max(1, half - 1))
    angles = t.to(dtype)[:, None] * rates.exp()
    return torch.cat([angles.sin(), angles.cos(), angles.new_zeros(len(t), width - 2 * half)], dim=1)
