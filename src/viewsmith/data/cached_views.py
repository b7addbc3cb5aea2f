"""Views in the blocks of a view cache on disk, read by index where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.row_source import RowSource, stamp


@dataclass(frozen=True)
class Block:
    """The views (b, K, ...) in a file: position of their first byte, shape, type, and size and date of the file."""

    path: Path
    position: int
    shape: tuple[int, ...]
    dtype: Any
    stamp: tuple[int, int] | None

    def take(self, rows: np.ndarray, number: int) -> np.ndarray:
        """View `number` of some rows of the block, (m, ...).

        The file is mapped for this read only: pages that stay mapped would count as memory of the process, and maps of
        all blocks as open files.
        """
        if stamp(self.path) != self.stamp:
            raise InputError(f"{self.path} was changed while it was read: start again, and leave it as it is meanwhile")
        mapped = np.memmap(self.path, self.dtype, "r", self.position, self.shape)
        return np.asarray(mapped[rows, number])


class CachedView(RowSource):
    """One view of every row.

    Parameters
    ----------
    blocks : sequence of Block
        Of equal numbers of rows, except the last one.
    number : int
        Number of the view.
    name : str
    """

    def __init__(self, blocks: Sequence[Block], number: int, name: str) -> None:
        first = blocks[0]
        super().__init__((sum(b.shape[0] for b in blocks), *first.shape[2:]), name, dtype=first.dtype)
        self.blocks_on_disk, self.number, self.rows_in_block = blocks, number, first.shape[0]

    def read_range(self, start: int, stop: int) -> np.ndarray:
        return self.read_index(np.arange(start, stop))

    def read_index(self, index: np.ndarray) -> np.ndarray:
        rows = np.empty((len(index), *self.shape[1:]), self.dtype)
        block, first = np.unique(index // self.rows_in_block, return_index=True)
        for number, start, stop in zip(block, first, np.append(first, len(index))[1:], strict=True):
            position = index[start:stop] - number * self.rows_in_block
            rows[start:stop] = self.blocks_on_disk[number].take(position, self.number)
        return rows
