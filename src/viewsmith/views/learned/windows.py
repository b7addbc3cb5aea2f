"""Windows of sequences: a family of transformations for augmentation channels."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.device import on_host
from viewsmith.core.errors import InputError
from viewsmith.networks.channels import PositionScores
from viewsmith.networks.inputs.nucleotides import real_positions
from viewsmith.views.learned.transforms import Family

#: Factor by which the logits of views take more memory than the views.
SCORED = 8

Detrend = Literal["none", "constant", "linear"]


def detrended(x: Tensor, how: Literal["constant", "linear"]) -> Tensor:
    """Sequences (..., L) minus their mean ("constant"), or minus the line with the least squared error ("linear")."""
    x = x - x.mean(dim=-1, keepdim=True)
    if how == "constant" or x.shape[-1] < 2:
        return x
    t = torch.linspace(-1, 1, x.shape[-1], dtype=x.dtype, device=x.device)
    t = t / t.norm()
    return x - (x * t).sum(dim=-1, keepdim=True) * t


class Windows(Family):
    """Windows of sequences (B, C, L), evenly spaced from the first base of a sequence to its last.

    Positions are relative to the length of each sequence without padding, so views do not depend on the padding.

    Parameters
    ----------
    fraction : float
        Length of a window as a fraction of its sequence; at least one base.
    count : int
        M, the number of windows. In a short sequence some are equal.
    padded : bool
        Whether columns of zeros are padding, as in DNA. If not, all sequences have one length.
    detrend : {"none", "constant", "linear"}
        Subtract from each channel of a window its mean, or its line (see `detrended`). Views and logits then do not
        depend on it. For sequences without padding.

    Raises
    ------
    InputError
        `count` is below 2, or padded sequences are to be detrended.
    """

    def __init__(
        self, *, fraction: float = 0.5, count: int = 16, padded: bool = True, detrend: Detrend = "none"
    ) -> None:
        super().__init__()
        self.fraction, self.size, self.padded = fraction, self._check_size(count, "windows"), padded
        if padded and detrend != "none":
            raise InputError(f"detrend is {detrend!r}, but DNA and other padded sequences have no trend: leave it out")
        self.detrend: Detrend = detrend
        first = torch.linspace(0, 1 - fraction, count).tolist()
        self.names = [f"{start:.0%} to {start + fraction:.0%}" for start in first]

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """A network with one logit per position."""
        return PositionScores(channels, padded=self.padded)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """First base of each window, int64 (B, M), and the length of a sequence's windows, int64 (B,)."""
        lengths = real_positions(x).sum(dim=1) if self.padded else torch.full((len(x),), x.shape[2], device=x.device)
        widths = (self.fraction * lengths).round().long().clamp_min(1)
        steps = torch.linspace(0, 1, self.size, device=x.device)
        return ((lengths - widths).clamp_min(0)[:, None] * steps).round().long(), widths

    def boxes(self, x: Tensor) -> Tensor:
        """Each window as a box of height 1, (B, M, 4): its first base is `left`, its length `width`."""
        starts, widths = self.bounds(x)
        lengths = widths[:, None].expand_as(starts)
        return torch.stack([torch.zeros_like(starts), starts, torch.ones_like(starts), lengths], dim=2).double()

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        starts, widths = self.bounds(x)
        widest = int(widths.max()) if on_host(x) else max(1, round(self.fraction * x.shape[2]))
        offsets = torch.arange(widest, device=x.device)
        positions = (starts.gather(1, t)[..., None] + offsets).clamp_max(x.shape[2] - 1)
        windows = x.movedim(1, 2)[torch.arange(len(x), device=x.device)[:, None, None], positions]
        windows = (windows * (offsets < widths[:, None])[:, None, :, None]).movedim(3, 2)
        return windows if self.detrend == "none" else detrended(windows, self.detrend)

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """The mean over each window of ``network(x)``, the logits of all positions, (B, L).

        The network gets detrended windows one by one, because each has another trend.
        """
        if self.detrend != "none":
            parts = x.split(max(1, self.rows_at_once(None, x) // SCORED))
            means = [network(self.all_views(part).flatten(0, 1)).mean(dim=1) for part in parts]
            return torch.cat(means).unflatten(0, (len(x), self.size))
        starts, widths = self.bounds(x)
        sums = F.pad(network(x).cumsum(dim=1), (1, 0))
        ends = (starts + widths[:, None]).clamp_max(x.shape[2])
        return (sums.gather(1, ends) - sums.gather(1, starts)) / widths[:, None]
