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


def apply_in_blocks(
    function: Callable[[Tensor], Tensor], rows: Rows, size: int = 1024, *, equal: bool = False
) -> Tensor:
    """Apply a function to scaled rows, `size` rows at a time, and concatenate the results.

    Parameters
    ----------
    function : callable
        Maps a scaled block, (b, ...), to a tensor with b rows.
    rows : Tensor or Samples, n rows
    size : int
        Rows of one block.
    equal : bool
        Fill up the last block, whose other results are dropped: matrix products of one shape round alike, so that the
        result of a row does not depend on the number of rows.

    Returns
    -------
    Tensor, n rows
    """
    if equal:
        parts = (rows[start : start + size] for start in range(0, len(rows), size))
        return torch.cat([function(_filled(part, size))[: len(part)] for part in parts])
    return torch.cat([function(rows[start : start + size]) for start in range(0, len(rows), size)])


def _filled(x: Tensor, size: int) -> Tensor:
    """A block with rows of zeros added up to `size`."""
    return x if len(x) == size else torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])])


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
        yield _filled(block, size), len(block)
