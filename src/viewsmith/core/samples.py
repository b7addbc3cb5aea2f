"""Training rows stored in their own compact dtype and scaled when a batch is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

BLOCK = 1024
BLOCK_VALUES = 4_000_000
IMAGE_BLOCK = 64
IMAGE_VALUES = 400_000


class Samples:
    """Unscaled rows that are scaled on access: ``samples[index]`` is a scaled batch.

    This saves memory: a pixel takes one byte unscaled and four scaled, a nucleotide one byte instead of sixteen.
    Vectors are stored as scaled tensors; functions that take `Rows` accept both.

    Parameters
    ----------
    rows : Tensor, shape (n, ...)
        uint8 images or nucleotides (as ASCII codes).
    scale : callable
        Maps rows to scaled samples, on the device of the rows.
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
        """The same samples with their rows on `device`. The parameters of `scale` must be on that device, too."""
        return Samples(self.rows.to(device), self.scale)


Rows = Tensor | Samples


def apply_in_blocks(function: Callable[[Tensor], Tensor], rows: Rows, size: int = 1024) -> Tensor:
    """Apply a function to scaled rows, `size` rows at a time, and concatenate the results.

    Parameters
    ----------
    function : callable
        Maps a scaled block, (b, ...), to a tensor with b rows.
    rows : Tensor or Samples, n rows
    size : int
        Rows of one block.

    Returns
    -------
    Tensor, n rows
    """
    return torch.cat([function(rows[start : start + size]) for start in range(0, len(rows), size)])


def block_size(x: Tensor) -> int:
    """Rows to handle at once: many vectors, fewer images or sequences, whose activations are large."""
    values = max(1, math.prod(x.shape[1:]))
    if x.dtype == torch.uint8 or x.ndim > 2:
        return max(4, min(IMAGE_BLOCK, IMAGE_VALUES // values))
    return max(1, min(BLOCK, BLOCK_VALUES // values))


def blocks(x: Tensor, views: int = 1) -> Iterator[tuple[Tensor, int]]:
    """Blocks of one size with their counts of rows, the last filled up: matrix products then round alike.

    The more `views` of each row are looked at, the smaller they are.
    """
    size = max(1, block_size(x) // views)
    for start in range(0, len(x), size):
        block = x[start : start + size]
        count = len(block)
        if count < size:
            block = torch.cat([block, block.new_zeros(size - count, *block.shape[1:])])
        yield block, count
