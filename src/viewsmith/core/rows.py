"""Rows read block by block or by index, on disk or sparse, and the memory they may take; without torch, for what reads
and checks data."""

import contextlib
import ctypes
import math
import mmap
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from viewsmith.core.errors import InputError

T = TypeVar("T")

# Rows that take more bytes than this as float32 are not read into memory as a whole.
STREAM_ABOVE = 2**30

# Rows of a memory map that are read by index before its pages are let go: 16 MB of 64 kB each.
AT_ONCE = 256


def is_pil(image: Any) -> bool:
    """Whether an object is an image of Pillow, which is not imported for this."""
    return hasattr(image, "getbands") and hasattr(image, "convert")


class RowSource:
    """n rows, float32 (n, d) or uint8 images, read on demand: ``source[a:b]`` and ``source[index]`` are arrays."""

    by_index: bool = True  # reading at an index takes little more time than a range
    complete: bool = False  # all values were found finite
    small: bool = False  # on disk only because processes share them: trained on as rows in memory
    modality: str | None = None  # what the rows are, where their shape does not say it

    def __init__(
        self,
        shape: tuple[int, ...],
        name: str = "the data",
        file: str | os.PathLike[str] | None = None,
        dtype: Any = np.float32,
    ) -> None:
        self.shape, self.name, self.file, self.dtype = tuple(map(int, shape)), name, file, np.dtype(dtype)
        self._stamp = None if file is None else stamp(file)

    def read_range(self, start: int, stop: int) -> np.ndarray:
        """Rows start .. stop - 1, dense."""
        raise NotImplementedError

    def read_index(self, index: np.ndarray) -> np.ndarray:
        """Rows at an index of int64, increasing and without repetition, dense; by default range by range."""
        runs = np.split(index, np.flatnonzero(np.diff(index) > 1) + 1)
        return np.concatenate([self.read_range(int(run[0]), int(run[-1]) + 1) for run in runs])

    def read_sparse(self, start: int, stop: int) -> Any:
        """What `sparse` returns."""
        return None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        self._check_unchanged()
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                raise IndexError(f"{self.name}: rows are read in steps of 1, not {step}")
            return self._converted(self.read_range(start, max(start, stop)))
        given = np.asarray(key)
        if given.dtype == bool:
            given = np.flatnonzero(given)
        if given.ndim == 0:
            return self[given.reshape(1)][0]
        if len(given) == 0:
            return np.empty((0, *self.shape[1:]), self.dtype)
        index, position = np.unique(given, return_inverse=True)
        if index[0] < 0 or index[-1] >= len(self):
            raise IndexError(f"{self.name} has {len(self)} rows, and rows {index[0]} to {index[-1]} were asked for")
        together = index[-1] - index[0] + 1 == len(index)
        rows = self.read_range(int(index[0]), int(index[-1]) + 1) if together else self.read_index(index)
        rows = self._converted(rows)
        return rows if len(given) == len(index) and (position[1:] > position[:-1]).all() else rows[position]

    def read_together(self, indices: Sequence[np.ndarray]) -> list[np.ndarray]:
        """``source[index]`` for each index, of which all rows are read at once, in their order in the file."""
        index, position = np.unique(np.concatenate(indices), return_inverse=True)
        rows = self[index]
        return [rows[part] for part in np.split(position, np.cumsum([len(part) for part in indices[:-1]]))]

    def sparse(self, start: int, stop: int) -> Any:
        """Rows start .. stop - 1 as a scipy CSR matrix of float32, a new one; None if they are not stored so."""
        self._check_unchanged()
        return self.read_sparse(start, min(stop, len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, for what needs them in memory; checked against the memory of the machine."""
        check_size(self.dtype.itemsize * math.prod(self.shape), self.name, "give fewer rows or columns")
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def _check_unchanged(self) -> None:
        if self.file is not None and stamp(self.file) != self._stamp:
            raise InputError(f"{self.file} was changed while it was read: start again, and leave it as it is meanwhile")

    def _converted(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, dtype=self.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def block_rows(self) -> int:
        """Rows of a block: few of small data, of which the blocks would otherwise take more memory than all rows."""
        values = BLOCK_VALUES // 8 if self.small else BLOCK_VALUES
        return max(1, values // math.prod(self.shape[1:]))

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows in order, in blocks of about `BLOCK_VALUES` values; the next one is read meanwhile."""
        size = self.block_rows
        return read_ahead(self[start : start + size] for start in range(0, len(self), size))

    def stored_blocks(self) -> Iterator[Any]:
        """All rows in order: sparse matrices, of more rows than `blocks` have, where they are stored so, else these."""
        first = self.sparse(0, self.block_rows)
        if first is None:
            return self.blocks()
        size = self.block_rows * max(1, min(MORE_ROWS, STORED_VALUES // max(1, first.nnz)))
        return read_ahead(self.sparse(start, start + size) for start in range(0, len(self), size))

    def select(self, index: np.ndarray) -> "RowSource":
        """The rows at an increasing index, read where they are asked for."""
        return SelectedRows(self, index)


class ArrayRows(RowSource):
    """Rows of an array, of a memory map above all: what was read does not stay in memory."""

    def __init__(self, array: np.ndarray, name: str = "the data", dtype: Any = np.float32) -> None:
        self.array = array.reshape(len(array), -1) if dtype == np.float32 else array
        super().__init__(self.array.shape, name, getattr(array, "filename", None), dtype)
        self._map = memory_map_of(array)

    def read_range(self, start: int, stop: int) -> np.ndarray:
        return self._copied(slice(start, stop))

    def read_index(self, index: np.ndarray) -> np.ndarray:
        # A few at a time, because the system maps a neighborhood of each row, which is let go after each.
        parts = [self._copied(index[start : start + AT_ONCE]) for start in range(0, len(index), AT_ONCE)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _copied(self, key: slice | np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # infinite, which is an error in a later check
            rows = np.array(self.array[key], dtype=self.dtype, order="C")
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            # Pages that were read count as memory of the process until they are let go.
            self._map.madvise(mmap.MADV_DONTNEED)
        return rows


class SparseRows(RowSource):
    """Rows of a sparse matrix in memory, made dense block by block."""

    def __init__(self, matrix: Any, name: str = "the sparse matrix") -> None:
        super().__init__(matrix.shape, name)
        self.matrix = matrix

    def read_range(self, start: int, stop: int) -> np.ndarray:
        return self.read_sparse(start, stop).toarray(order="C")

    def read_index(self, index: np.ndarray) -> np.ndarray:
        return self._chosen(index).toarray(order="C")

    def read_sparse(self, start: int, stop: int) -> Any:
        return self._chosen(slice(start, stop))

    def _chosen(self, key: slice | np.ndarray) -> Any:
        with np.errstate(over="ignore"):
            return self.matrix[key].astype(np.float32)


class JoinedRows(RowSource):
    """The rows of several sources of one width, one after the other."""

    def __init__(self, parts: Sequence[RowSource], name: str = "the data") -> None:
        shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
        super().__init__(shape, name, dtype=parts[0].dtype)
        self.parts, self.by_index = parts, all(part.by_index for part in parts)
        self._starts = np.cumsum([0, *(len(part) for part in parts)])

    def read_range(self, start: int, stop: int) -> np.ndarray:
        parts = zip(self.parts, self._starts[:-1], strict=True)
        return np.concatenate([part[max(start - first, 0) : max(stop - first, 0)] for part, first in parts])

    def read_index(self, index: np.ndarray) -> np.ndarray:
        cuts = np.searchsorted(index, self._starts)
        parts = zip(self.parts, self._starts, cuts, cuts[1:], strict=False)
        return np.concatenate([part[index[first:last] - start] for part, start, first, last in parts])


class SelectedRows(RowSource):
    """Some rows of a source, at an increasing index."""

    def __init__(self, source: RowSource, index: np.ndarray) -> None:
        super().__init__((len(index), *source.shape[1:]), source.name, dtype=source.dtype)
        self.source, self.index = source, index
        self.by_index, self.complete, self.small = source.by_index, source.complete, source.small

    def read_range(self, start: int, stop: int) -> np.ndarray:
        return self.source[self.index[start:stop]]

    def read_index(self, index: np.ndarray) -> np.ndarray:
        return self.source[self.index[index]]

    def read_sparse(self, start: int, stop: int) -> Any:
        index = self.index[start:stop]
        if 2 * len(self.index) < len(self.source):  # most would be read for nothing
            return None
        parts = []
        for run in np.split(index, np.flatnonzero(np.diff(index) > BLOCK) + 1):
            if (rows := self.source.sparse(int(run[0]), int(run[-1]) + 1)) is None:
                return None
            parts.append(rows[run - run[0]])
        return parts[0] if len(parts) == 1 else import_module("scipy.sparse").vstack(parts, format="csr")


#: Rows in memory or on disk.
AnyRows = np.ndarray | RowSource


def row_blocks(x: np.ndarray | RowSource) -> Iterable[np.ndarray]:
    """Rows in order: an array as a whole, a source block by block."""
    return x.blocks() if isinstance(x, RowSource) else [x]


def too_large_for_memory(x: Any) -> bool:
    """Whether rows are on disk, and not only so that several processes share them."""
    return isinstance(x, RowSource) and not x.small


def is_large(shape: Sequence[int], dtype: Any = np.float32) -> bool:
    """Whether rows of this shape, (n, ...), take more than `STREAM_ABOVE` bytes."""
    return np.dtype(dtype).itemsize * math.prod(shape) > STREAM_ABOVE


def as_source(x: Any, name: str = "the data", *, always: bool = False, dtype: Any = np.float32) -> RowSource | None:
    """A source of the rows of a memory map or a sparse matrix; None for anything else."""
    if isinstance(x, RowSource):
        return x
    sparse, mapped = hasattr(x, "tocsr"), isinstance(x, np.ndarray) and memory_map_of(x) is not None
    if not (sparse or mapped) or len(x.shape) < 2 or 0 in x.shape or x.dtype.kind not in "biuf":
        return None
    if not (always or is_large(x.shape, dtype)):
        return None
    return SparseRows(x.tocsr(), name) if sparse else ArrayRows(x, name, dtype)


def read_ahead(items: Iterable[T], ahead: int = 1) -> Iterator[T]:
    """The items, of which the next `ahead` are made by a thread while the caller works on one."""
    todo = iter(items)
    end = object()
    with ThreadPoolExecutor(1) as reader:
        waiting = deque(reader.submit(next, todo, end) for _ in range(ahead))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(reader.submit(next, todo, end))
            yield item  # type: ignore[misc]


def stamp(file: str | os.PathLike[str] | int) -> tuple[int, int] | None:
    """Size and date of a file, by its path or number; None if it is not there."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def memory_map_of(array: np.ndarray) -> mmap.mmap | None:
    """The memory map that an array is a view of; None if it is in memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


#: Largest number of rows, and of values, in a block of vectors.
BLOCK, BLOCK_VALUES = 1024, 4_000_000

#: Most rows of a sparse block, as a multiple of those of a dense one, and most values that it stores: what is
#: summed over all columns for each block takes as long for few rows.
MORE_ROWS, STORED_VALUES = 16, 2_000_000


def check_size(n_bytes: int, source_name: str, advice: str) -> None:
    """Check that an array fits into `memory_limit` before it is allocated."""
    limit = memory_limit()
    if limit is not None and n_bytes > limit:
        raise InputError(
            f"{source_name} would take {n_bytes / 2**30:,.1f} GiB, more than half of this machine's memory "
            f"({limit / 2**30:,.1f} GiB); {advice}"
        )


def memory_limit() -> int | None:
    """Bytes for the rows of a data set: half of the memory, because training makes a copy; None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def resident_bytes() -> int | None:
    """Bytes of memory that this process uses (resident set size); None on systems other than Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


#: Bytes from which memory is returned when it is freed: while a training is prepared, and during it (glibc's maximum).
PREPARATION, TRAINING = 2**22, 2**25


def return_blocks(size: int) -> None:
    """Return memory of `size` bytes or more to the system as soon as it is freed, if the C library can (glibc).

    By default glibc soon keeps blocks of up to 32 MiB in its heap, where small ones that stay cut it into pieces.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):
        for option, value in ((-3, size), (-1, 2 * size)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            ctypes.CDLL(None).mallopt(option, value)


def return_freed_memory() -> None:
    """Return freed memory to the operating system, if the C library can (glibc). No value changes."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
