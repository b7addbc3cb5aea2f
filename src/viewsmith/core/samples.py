"""Rows as tensors: stored in a compact dtype or on disk, scaled when a batch is read; functions of rows in blocks."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.distributed import check_time
from viewsmith.core.rows import BLOCK, BLOCK_VALUES, RowSource, read_ahead

#: The same for images and sequences, whose activations are large.
IMAGE_BLOCK, IMAGE_VALUES = 64, 400_000

#: Batches on disk that are read before they are needed, and most of their bytes: with one, training waits on a machine
#: with other work.
BATCHES_AHEAD, BYTES_AHEAD = 4, 2**27

#: Largest number of batches that are read together, and of their values. Rows of several batches are read in the order
#: of the file, which is faster, and the thread that reads them interrupts the training once for all of them.
TOGETHER, TOGETHER_VALUES = 8, 2**20

#: Values of a sample of rows on disk.
SOME_VALUES = 2**26


class Samples:
    """Unscaled rows, scaled on access: a pixel takes one byte instead of four, a nucleotide one instead of sixteen, and
    rows on disk none."""

    def __init__(
        self, rows: Tensor | RowSource, scale: Callable[[Tensor], Tensor], device: torch.device | str | None = None
    ) -> None:
        self.rows, self.scale = rows, scale
        stored = torch.device("cpu") if isinstance(rows, RowSource) else rows.device
        self.device = stored if device is None else torch.device(device)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        return self._scaled(take_rows(self.rows, index))

    def to(self, device: torch.device | str) -> "Samples":
        """The same samples on `device`. The parameters of `scale` must be on that device, too."""
        rows = self.rows if isinstance(self.rows, RowSource) else self.rows.to(device)
        return Samples(rows, self.scale, device)

    def ahead(self, indices: Iterable[Tensor] | Iterable[slice], number: int = BATCHES_AHEAD) -> Iterator[Tensor]:
        """``samples[index]`` for each index in turn; rows on disk are read about so many batches ahead."""
        if not isinstance(self.rows, RowSource):
            return (self[index] for index in indices)
        todo: list[Any] = list(indices)
        together = self._together(todo)
        groups = (self._read(todo[start : start + together]) for start in range(0, len(todo), together))
        first = todo[0] if todo else slice(0)
        size = len(range(*first.indices(len(self)))) if isinstance(first, slice) else len(first)
        of_batch = size * math.prod(self.rows.shape[1:]) * self.rows.dtype.itemsize
        number = max(1, min(number, BYTES_AHEAD // max(1, of_batch)))
        read = read_ahead(groups, -(-number // together))
        return (self._scaled(rows) for group in read for rows in group)

    def _together(self, indices: Sequence[Tensor] | Sequence[slice]) -> int:
        """Number of batches that are read together: one of slices, which are as large as a reader wants them."""
        if not indices or isinstance(indices[0], slice):
            return 1
        values = len(indices[0]) * math.prod(self.rows.shape[1:])
        return max(1, min(TOGETHER, TOGETHER_VALUES // max(1, values)))

    def _read(self, indices: Sequence[Tensor] | Sequence[slice]) -> list[Tensor]:
        """Unscaled rows at each index, read from the source."""
        if len(indices) == 1:
            return [take_rows(self.rows, indices[0])]
        assert isinstance(self.rows, RowSource)
        read = self.rows.read_together([index.cpu().numpy() for index in indices if isinstance(index, Tensor)])
        return [torch.from_numpy(rows) for rows in read]

    @torch.no_grad()
    def _scaled(self, rows: Tensor) -> Tensor:
        return self.scale(rows.to(self.device))


Rows = Tensor | Samples


def take_rows(rows: Tensor | RowSource, index: Tensor | slice) -> Tensor:
    """Unscaled rows at an index, or in a slice: on the device of the tensor, or read from the source."""
    if not isinstance(rows, RowSource):
        return rows[index]
    return shared_tensor(rows[index if isinstance(index, slice) else index.cpu().numpy()])


def shared_tensor(rows: np.ndarray) -> Tensor:
    """A tensor with the memory of an array, also of a read-only one, which torch warns about: it is not written to."""
    if rows.flags.writeable:
        return torch.from_numpy(rows)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(rows)


def mapped(rows: Rows, function: Callable[[Tensor], Tensor]) -> Rows:
    """Rows of which a function is taken when they are read, in blocks, as they may be much larger than its values."""
    if isinstance(rows, Tensor):
        return apply_in_blocks(function, rows, IMAGE_BLOCK)

    def scale(block: Tensor) -> Tensor:
        return torch.cat([function(rows.scale(part)) for part in block.split(IMAGE_BLOCK)])

    return Samples(rows.rows, scale, rows.device)


def batches(rows: Rows, indices: Iterable[Tensor] | Iterable[slice]) -> Iterator[Tensor]:
    """``rows[index]`` for each index in turn; rows on disk are read a few batches ahead."""
    return rows.ahead(indices) if isinstance(rows, Samples) else (rows[index] for index in indices)


def some_rows(rows: Rows) -> Tensor:
    """Scaled rows in memory: a tensor as it is; of rows on disk random ones, with `SOME_VALUES` values or all."""
    if isinstance(rows, Tensor):
        return rows
    n = min(len(rows), max(1, SOME_VALUES // rows[:1].numel()))
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:n].sort().values
    return rows[chosen]


def evenly_spaced(n: int, most: int, device: torch.device | str = "cpu") -> Tensor:
    """At most `most` evenly spaced indices of n rows, int64, on a device."""
    return torch.linspace(0, n - 1, min(n, most), device=device, dtype=torch.float64).long()


def apply_in_blocks(
    function: Callable[[Tensor], Tensor], rows: Rows, size: int = 1024, *, equal: bool = False
) -> Tensor:
    """Apply a function to scaled rows, `size` rows at a time, and concatenate the results."""
    found = []
    for start in range(0, len(rows), size):
        check_time()  # for the preparation of a training
        part = rows[start : start + size]
        found.append(function(_padded(part, size))[: len(part)] if equal else function(part))
    return torch.cat(found)


def _padded(x: Tensor, size: int) -> Tensor:
    """A block padded with rows of zeros to `size` rows."""
    return x if len(x) == size else torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])])


def block_size(x: Tensor | RowSource) -> int:
    """Number of rows in a block: many vectors, or fewer images or sequences."""
    values = max(1, math.prod(x.shape[1:]))
    if x.dtype.itemsize == 1 or len(x.shape) > 2:
        return max(4, min(IMAGE_BLOCK, IMAGE_VALUES // values))
    return max(1, min(BLOCK, BLOCK_VALUES // values))


def blocks(x: Tensor | RowSource, views: int = 1) -> Iterator[tuple[Tensor, int]]:
    """Yield blocks of equal size (for that, matrix products round alike: the last is padded with zeros), each with its
    number of rows, for `views` views of each row."""
    size = max(1, block_size(x) // views)
    at_once = size * max(1, x.block_rows // size) if isinstance(x, RowSource) else size
    parts: Iterable[Tensor] = (take_rows(x, slice(start, start + at_once)) for start in range(0, len(x), at_once))
    for part in read_ahead(parts) if isinstance(x, RowSource) else parts:
        for block in part.split(size):
            yield _padded(block, size), len(block)
