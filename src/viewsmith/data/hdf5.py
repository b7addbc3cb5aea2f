"""Arrays in HDF5 files."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.rows import AnyRows, RowSource, check_size
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import reading
from viewsmith.modalities.base import dtype_on_disk

START = b"\x89HDF\r\n\x1a\n"
_OF_OTHERS = ("encoding-type", "keras_version", "model_weights")  # in files of anndata and of weights of keras


def _arrays(file: Any) -> dict[str, Any]:
    """The stored arrays of numbers and texts by name, in which _ stands for the slash of a group; links to other files
    are not followed, and arrays whose values are in other files are left out."""
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "dtype") and item.ndim and item.dtype.kind in "biufSO" and not item.external:
            found[name.replace("/", "_")] = item

    file.visititems(visit)
    return found


def has_arrays(path: Path) -> bool:
    """Whether an HDF5 file has arrays of samples rather than counts of cells or weights."""
    if path.suffix.lower() not in (".h5", ".hdf5") or not path.is_file():
        return False
    with path.open("rb") as start:
        if start.read(len(START)) != START:
            return False
    try:
        import h5py

        with h5py.File(path, "r") as file:
            cells = any(hasattr(item, "keys") and "barcodes" in item for item in file.values())
            other = cells or any(name in file.attrs or name in file for name in _OF_OTHERS)
            return not other and any(item.ndim > 1 and item.dtype.kind in "biuf" for item in _arrays(file).values())
    except (ImportError, OSError, RuntimeError, ValueError, KeyError):
        return False


class Hdf5Rows(RowSource):
    """Rows of an array that is stored in pieces, which are read and unpacked as they are needed."""

    by_index = False

    def __init__(self, path: Path, key: str, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(shape, f"{key} in {path}", path, dtype)
        self.path, self.key = path, key
        self._file: Any = None

    def read_range(self, start: int, stop: int) -> np.ndarray:
        import h5py

        with reading(self.name, "an array"):
            if self._file is None:  # for as long as the rows are used: what is unpacked is kept
                self._file = h5py.File(self.path, "r")
            rows: np.ndarray = self._file[self.key][start:stop]
        return rows


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an HDF5 file, read where they are asked for."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self.file, self.stored = path, file, _arrays(file)
        self.files = list(self.stored)

    def __getitem__(self, name: str) -> np.ndarray:
        item = self.stored[name]
        size = math.prod(item.shape) * item.dtype.itemsize
        check_size(size, f"{name} in {self.path}", "save fewer rows")
        return np.asarray(item.asstr("utf-8", "replace")[:], str) if item.dtype.kind in "SO" else np.asarray(item[:])

    def __iter__(self) -> Any:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def beside(self, names: Sequence[str]) -> dict[str, Any]:
        """Single values by some of these names: attributes of the file and of its arrays, and arrays without axes."""
        owners = [self.file, *self.stored.values()]
        found = {key: each.attrs[key] for each in owners for key in each.attrs if key.lower() in names}
        single = {key: self.file[key] for key in self.file if key.lower() in names and key not in self.stored}
        return found | {key: item[()] for key, item in single.items() if hasattr(item, "dtype")}

    def rows(self, name: str, request: DataOptions) -> AnyRows:
        """Rows of an array that may stay on disk: mapped if it is stored in one piece."""
        item = self.stored[name]
        dtype = dtype_on_disk(item.shape, item.dtype)
        if item.dtype.kind not in "biuf" or not request.maps(item.shape, dtype or np.float32):
            return self[name]
        start = item.id.get_offset()
        if start is None and dtype is None:
            return self[name]
        if start is not None:
            return np.memmap(self.path, item.dtype, "c", start, item.shape)
        return Hdf5Rows(self.path, item.name, item.shape, dtype)
