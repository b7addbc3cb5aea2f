"""Arrays in files that are mapped into memory: what was read of them can be dropped, and processes share it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.files import atomic_path


def write_mapped(
    blocks: Iterable[np.ndarray], shape: tuple[int, ...], file: Path | None = None, dtype: Any = np.float32
) -> np.ndarray:
    """Write blocks of rows one after the other to an .npy file, and map it.

    Parameters
    ----------
    blocks : iterable of ndarray
    shape : tuple of int
        Of all rows together.
    file : Path, optional
        Default: a file in the system's folder of temporary files, that is gone with the array.
    dtype : numpy dtype
        Of the blocks.

    Returns
    -------
    ndarray
        Changes to it are not written to the file.

    Raises
    ------
    OSError
        No space left, for instance.
    """
    if file is not None:
        with atomic_path(file) as temporary, temporary.open("wb") as opened:
            _write(opened, blocks, shape, dtype)
        return read_mapped(file)
    with tempfile.TemporaryFile() as opened:
        start = _write(opened, blocks, shape, dtype)
        opened.flush()
        return np.memmap(opened, dtype, "c", start, shape)


def read_mapped(file: Path) -> np.ndarray:
    """The array in an .npy file, mapped; changes to it are not written to the file."""
    mapped: np.ndarray = np.load(file, mmap_mode="c", allow_pickle=False)
    return mapped


def _write(opened: Any, blocks: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any) -> int:
    """Write header and blocks; returns the position of the first value."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(opened, header)
    start: int = opened.tell()
    for block in blocks:
        opened.write(np.ascontiguousarray(block, dtype).data)
    return start
