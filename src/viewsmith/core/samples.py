"""Training rows in the few bytes they were given in, scaled when they are taken."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Samples:
    """Rows that are scaled on the way out: ``samples[index]`` is a scaled batch.

    A pixel takes one byte here and four as a scaled value, a base one instead of sixteen. Vectors need no such thing:
    they are kept as scaled tensors, and whatever takes `Rows` takes both.

    Parameters
    ----------
    rows : Tensor, shape (n, ...)
        Images or letters, uint8.
    scale : callable
        From rows to scaled samples, on the device of the rows.
    """

    def __init__(self, rows: Tensor, scale: Callable[[Tensor], Tensor]) -> None:
        self.rows, self.scale = rows, scale

    def __len__(self) -> int:
        return len(self.rows)

    @torch.no_grad()
    def __getitem__(self, index: Tensor | slice) -> Tensor:
        return self.scale(self.rows[index])

    @property
    def device(self) -> torch.device:
        return self.rows.device

    def to(self, device: torch.device) -> Samples:
        """The same samples with their rows on a device; the scale has to be there, too."""
        return Samples(self.rows.to(device), self.scale)


Rows = Tensor | Samples


def in_blocks(function: Callable[[Tensor], Tensor], rows: Rows, size: int = 1024) -> Tensor:
    """What a function makes of scaled rows, a block at a time."""
    return torch.cat([function(rows[start : start + size]) for start in range(0, len(rows), size)])
