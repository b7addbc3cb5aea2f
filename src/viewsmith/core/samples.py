"""Training rows that are stored in a compact dtype and scaled when a batch is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

#: Largest number of rows, and of values, in a block of vectors.
BLOCK, BLOCK_VALUES = 1024, 4_000_000
#: The same for images and sequences, whose activations are large.
IMAGE_BLOCK, IMAGE_VALUES = 64, 400_000


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
        Pad the last block to `size` rows and drop the results of the padding. Matrix products of equal shape round in
        the same way, so that the result of a row does not depend on the number of rows.

    Returns
    -------
    Tensor, n rows
    """
    if equal:
        parts = (rows[start : start + size] for start in range(0, len(rows), size))
        return torch.cat([function(_padded(part, size))[: len(part)] for part in parts])
    return torch.cat([function(rows[start : start + size]) for start in range(0, len(rows), size)])


def _padded(x: Tensor, size: int) -> Tensor:
    """A block padded with rows of zeros to `size` rows."""
    return x if len(x) == size else torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])])


def block_size(x: Tensor) -> int:
    """Number of rows in a block: many vectors, or fewer images or sequences."""
    values = max(1, math.prod(x.shape[1:]))
    if x.dtype == torch.uint8 or x.ndim > 2:
        return max(4, min(IMAGE_BLOCK, IMAGE_VALUES // values))
    return max(1, min(BLOCK, BLOCK_VALUES // values))


def blocks(x: Tensor, views: int = 1) -> Iterator[tuple[Tensor, int]]:
    """Yield blocks of equal size, each with its number of rows.

    The last block is padded with zeros, because matrix products of equal shape round in the same way. The size is
    divided by `views`, the number of views of each row that the caller computes.
    """
    size = max(1, block_size(x) // views)
    for start in range(0, len(x), size):
        block = x[start : start + size]
        yield _padded(block, size), len(block)
