"""Writing representations to files for numpy, pandas, spreadsheets and anndata."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.files import atomic_path
from viewsmith.core.messages import pluralize
from viewsmith.data.dataset import Dataset
from viewsmith.data.readers.h5ad import write_h5ad

if TYPE_CHECKING:
    import pandas as pd

# Rows of a table that are converted to text, or written as one group, at once.
TABLE_ROWS = 65_536


class RowStream:
    """Representations that are written block by block, in order.

    Parameters
    ----------
    blocks : iterable of ndarray, each (b, ...)
    n_rows : int
        Rows of all blocks together.

    Attributes
    ----------
    shape : tuple of int
        Of all of them, (n, ...).
    dtype : numpy dtype
    """

    def __init__(self, blocks: Iterable[np.ndarray], n_rows: int) -> None:
        self._blocks = iter(blocks)
        self._left = next(self._blocks)
        self.shape, self.dtype = (n_rows, *self._left.shape[1:]), self._left.dtype

    def take(self, n: int, at_once: int | None = None) -> Iterator[np.ndarray]:
        """The next n rows, as they come or so many at once."""
        while n > 0:
            wanted = n if at_once is None else min(n, at_once)
            parts = [self._some(wanted)]
            while at_once is not None and sum(map(len, parts)) < wanted:
                parts.append(self._some(wanted - sum(map(len, parts))))
            yield parts[0] if len(parts) == 1 else np.concatenate(parts)
            n -= sum(map(len, parts))

    def write_npy(self, file: Any, n: int | None = None) -> None:
        """Write the next n rows, or all, in numpy's format to an open file."""
        n = len(self) if n is None else n
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, header | {"shape": (n, *self.shape[1:])})
        for part in self.take(n):
            file.write(np.ascontiguousarray(part).data)

    def __len__(self) -> int:
        return self.shape[0]

    def _some(self, most: int) -> np.ndarray:
        while len(self._left) == 0:
            self._left = next(self._blocks)
        part, self._left = self._left[:most], self._left[most:]
        return part


def write_representations(
    path: str | Path, dataset: Dataset, H: np.ndarray | Iterable[np.ndarray], *, prefix: str = "h"
) -> None:
    """Write one representation per row of `dataset`, with its split and labels, atomically.

    Parameters
    ----------
    path : str or Path
        ``.npz``: ``H_train``, ``H_test``, ``y_train``, ``y_test`` for a given split; otherwise ``H``, ``y`` and, for a
        stratified split, ``split`` with ``train`` or ``test`` for every row; also ``names`` (``names_train``,
        ``names_test``) of image files, FASTA records and cells. ``.npy``: the array only. ``.csv``, ``.parquet``:
        columns ``h0`` .., ``split``, ``label``, ``name``. Unknown labels, splits and names are left out. ``.h5ad``,
        for rows of an ``.h5ad`` file: a copy of that file with ``obsm["X_viewsmith"]``, or
        ``obsm["X_viewsmith_PREFIX"]`` for a prefix other than ``h``.
    dataset : Dataset
        The rows of the representations.
    H : ndarray, shape (n, ...), or iterable of ndarray
        Representations in input order, all at once or in blocks that follow each other; (n, d) for a table.
    prefix : str
        Prefix of column names; in capitals the name of arrays.

    Raises
    ------
    InputError
        Unknown extension, missing folder, or a shape that does not fit.
    MissingExtra
        Parquet without pyarrow, .h5ad without anndata.
    OSError
        Raised by the disk; an existing file stays unchanged.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        given = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise InputError(f"cannot write {path}: it has {given}, expected one of {' '.join(_WRITERS)}")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder, expected the name of a file")
    n = len(dataset.x)
    if isinstance(H, np.ndarray) and len(H) != n:
        raise InputError(f"cannot write {path}: {pluralize(len(H), 'representation')} for {pluralize(n, 'row')}")
    writer(path, dataset, RowStream([H] if isinstance(H, np.ndarray) else H, n), prefix)


def write_npz(
    file: Any, members: Mapping[str, np.ndarray | tuple[RowStream, int]], *, compressed: bool = False
) -> None:
    """Write an .npz archive to an open file: arrays, and the next n rows of a stream."""
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, member in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as opened:
                if isinstance(member, tuple):
                    member[0].write_npy(opened, member[1])
                else:
                    np.lib.format.write_array(opened, np.asarray(member), allow_pickle=False)


def _write_npz(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    name = prefix.upper()
    arrays: dict[str, np.ndarray | tuple[RowStream, int]] = {}
    names = None if dataset.row_names is None else np.array(dataset.row_names, dtype=np.str_)
    if dataset.split == "given":
        n_train = len(dataset.train_index)
        arrays |= {f"{name}_train": (H, n_train), f"{name}_test": (H, len(H) - n_train)}
        if dataset.y is not None:
            arrays |= {"y_train": dataset.y[:n_train], "y_test": dataset.y[n_train:]}
        if names is not None:
            arrays |= {"names_train": names[:n_train], "names_test": names[n_train:]}
    else:
        arrays[name] = (H, len(H))
        if dataset.y is not None:
            arrays["y"] = dataset.y
        if names is not None:
            arrays["names"] = names
        if dataset.test_index is not None:
            arrays["split"] = _split_names(dataset)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write_npz(file, arrays)


def _write_npy(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        H.write_npy(file)


def _write_table(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    if path.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing parquet files")
    if len(H.shape) != 2:
        raise InputError(
            f"cannot write {path}: the representations have shape {H.shape}, a table needs (n, d); use .npz"
        )
    write = _write_parquet if path.suffix.lower() == ".parquet" else _write_csv
    with atomic_path(path) as temporary:
        write(temporary, _frames(dataset, H, prefix))


def _frames(dataset: Dataset, H: RowStream, prefix: str) -> Iterator[pd.DataFrame]:
    """The table, some rows at once."""
    import pandas as pd

    split, start = _split_names(dataset), 0
    for part in H.take(len(H), TABLE_ROWS):
        frame = pd.DataFrame(part, columns=[f"{prefix}{i}" for i in range(H.shape[1])])
        rows = slice(start, start + len(part))
        if dataset.test_index is not None:
            frame["split"] = split[rows]
        if dataset.y is not None:
            frame["label"] = dataset.y[rows]
        if dataset.row_names is not None:
            frame["name"] = dataset.row_names[rows]
        yield frame
        start = rows.stop


def _write_csv(path: Path, frames: Iterator[pd.DataFrame]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, frame in enumerate(frames):
            frame.to_csv(file, index=False, header=number == 0)


def _write_parquet(path: Path, frames: Iterator[pd.DataFrame]) -> None:
    import pyarrow
    from pyarrow import parquet

    first = pyarrow.Table.from_pandas(next(frames), preserve_index=False)
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for frame in frames:
            writer.write_table(pyarrow.Table.from_pandas(frame, first.schema, preserve_index=False))


def _write_h5ad(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    write_h5ad(
        path, dataset.source, H.shape, H.take(len(H)), "X_viewsmith" if prefix == "h" else f"X_viewsmith_{prefix}"
    )


def _split_names(dataset: Dataset) -> np.ndarray:
    names = np.full(len(dataset.x), "train")
    if dataset.test_index is not None:
        names[dataset.test_index] = "test"
    return names


_WRITERS: dict[str, Callable[[Path, Dataset, RowStream, str], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_table,
    ".parquet": _write_table,
    ".h5ad": _write_h5ad,
}
