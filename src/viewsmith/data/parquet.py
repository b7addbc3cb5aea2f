"""Rows of a parquet file that stay there, read a part at a time."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.rows import RowSource
from viewsmith.data.reading import reading

# Rows that are decoded at once have about this number of values.
BATCH_VALUES = 1_000_000


class ParquetRows(RowSource):
    """Rows of a parquet file. In order they are read once; for others, the file is read again from their row
    group on."""

    by_index = False

    def __init__(self, path: Path, columns: list[str], encode: Callable[[Any], np.ndarray], width: int) -> None:
        self._file = open_parquet(path)
        groups = self._file.metadata
        sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        super().__init__((groups.num_rows, width), str(path), path)
        self._starts = np.cumsum([0, *sizes])
        self._columns, self._encode = columns, encode
        self._frames: Iterator[Any] = iter(())
        # Decoded rows, from a position on; at first from the end, so that the first read begins anew.
        self._left, self._position = np.empty((0, width), np.float32), len(self)
        self._lock = threading.Lock()

    def read_range(self, start: int, stop: int) -> np.ndarray:
        with self._lock, reading(self.name, "a parquet file"):
            group = int(np.searchsorted(self._starts, start, side="right")) - 1
            if start < self._position or self._position + len(self._left) < self._starts[group]:
                self._begin(group)
            parts: list[np.ndarray] = []
            while start < stop:
                ready = self._position + len(self._left)
                if start >= ready:
                    self._left, self._position = self._encode(next(self._frames)), ready
                    continue
                part = self._left[start - self._position : stop - self._position]
                parts.append(part)
                start += len(part)
            return np.concatenate(parts) if parts else self._left[:0]

    def _begin(self, group: int) -> None:
        """Go to the start of a row group."""
        batches = self._file.iter_batches(
            batch_size=max(1, BATCH_VALUES // len(self._columns)),
            row_groups=list(range(group, len(self._starts) - 1)),
            columns=self._columns,
            use_threads=False,
        )
        self._frames = (batch.to_pandas() for batch in batches)
        self._left, self._position = self._left[:0], int(self._starts[group])


def open_parquet(path: Path) -> Any:
    """The file, of which a part at a time is read."""
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False)


def read_columns(path: Path, columns: list[str]) -> Any:
    """Some columns of all rows, as a DataFrame."""
    return open_parquet(path).read(columns=columns, use_threads=False).to_pandas()
