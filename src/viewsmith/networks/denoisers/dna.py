"""A denoiser of DNA: noised letters (B, 4, L) to predictions of the same shape; see the package."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.denoisers.parts import time_features
from viewsmith.networks.nucleotides import real_positions


class SequenceDenoiser(nn.Module):
    """Residual convolutions along the sequence with growing gaps between the positions they see.

    Time and condition together set scale and shift before every convolution. Padding, columns of zeros, stays zero in
    every layer, so that a prediction does not depend on how far a batch was padded.

    Parameters
    ----------
    condition : int
        Width c of the condition.
    width : int
        Channels.
    dilations : sequence of int
        Gap between the positions of each block's first convolution.
    """

    def __init__(self, condition: int, *, width: int = 48, dilations: tuple[int, ...] = (1, 3, 9, 27)) -> None:
        super().__init__()
        self.code = 64
        self.time = nn.Linear(self.code, 2 * width)
        self.condition = nn.Linear(condition, 2 * width)
        self.first = nn.Conv1d(4, width, 9, padding=4)
        self.modulate = nn.ModuleList(nn.Linear(2 * width, 2 * width) for _ in dilations)
        self.wide = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2 * gap, dilation=gap) for gap in dilations)
        self.point = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations)
        self.last = nn.Conv1d(width, 4, 1)
        self.share = nn.Linear(2 * width, 1)
        for layer in (self.last, self.share):
            nn.init.zeros_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, 4, L), 0 on padding, from times (B,) of a 1,000-step schedule, conditions (B, c)."""
        real = real_positions(x)[:, None].to(x.dtype)
        features = time_features(t, self.code).to(condition.dtype)
        code = F.silu(self.time(features) + self.condition(condition))
        h = self.first(x) * real
        for modulate, wide, point in zip(self.modulate, self.wide, self.point, strict=True):
            scale, shift = modulate(code)[:, :, None].chunk(2, dim=1)
            inner = torch.addcmul(shift, h, 1 + scale) * real
            h = h + point(F.silu(wide(F.silu(inner)))) * real
        return torch.addcmul(self.last(F.silu(h)) * real, self.share(code)[:, :, None], x)
