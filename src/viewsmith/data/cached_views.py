"""Views in the blocks of a view cache on disk, read by index where they are asked for."""

from __future__ import annotations

import contextlib
import io
import math
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

    def read(self, rows: np.ndarray, number: int, made: np.ndarray) -> None:
        """Read view `number` of some rows of the block into an array (m, ...).

        Row by row from the open file, which takes a tenth of the time of mapping it into memory.
        """
        size = self.dtype.itemsize * math.prod(self.shape[2:])
        with self._opened() as file:
            for row, view in zip(rows.tolist(), made.reshape(len(rows), -1).view(np.uint8), strict=True):
                file.seek(self.position + (row * self.shape[1] + number) * size)
                file.readinto(view.data)

    def _opened(self) -> io.FileIO:
        """The file, which must be the one that was checked."""
        with contextlib.suppress(FileNotFoundError):
            file = io.FileIO(self.path)
            if stamp(file.fileno()) == self.stamp:
                return file
            file.close()
        raise InputError(f"{self.path} was changed while it was read: start again, and leave it as it is meanwhile")


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
            self.blocks_on_disk[number].read(position, self.number, rows[start:stop])
        return rows
