"""Writing representations to files for numpy, pandas, spreadsheets and anndata."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.files import atomic_path
from viewsmith.core.messages import pluralize
from viewsmith.data.dataset import Dataset
from viewsmith.data.h5ad import write_h5ad


def write_representations(path: str | Path, dataset: Dataset, H: np.ndarray, *, prefix: str = "h") -> None:
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
    H : ndarray, shape (n, ...)
        Representations in input order; (n, d) for a table.
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
    if len(H) != len(dataset.x):
        raise InputError(
            f"cannot write {path}: {pluralize(len(H), 'representation')} for {pluralize(len(dataset.x), 'row')}"
        )
    writer(path, dataset, H, prefix)


def _write_npz(path: Path, dataset: Dataset, H: np.ndarray, prefix: str) -> None:
    name = prefix.upper()
    arrays: dict[str, np.ndarray] = {}
    names = None if dataset.row_names is None else np.array(dataset.row_names, dtype=np.str_)
    if dataset.split == "given":
        n_train = len(dataset.train_index)
        arrays |= {f"{name}_train": H[:n_train], f"{name}_test": H[n_train:]}
        if dataset.y is not None:
            arrays |= {"y_train": dataset.y[:n_train], "y_test": dataset.y[n_train:]}
        if names is not None:
            arrays |= {"names_train": names[:n_train], "names_test": names[n_train:]}
    else:
        arrays[name] = H
        if dataset.y is not None:
            arrays["y"] = dataset.y
        if names is not None:
            arrays["names"] = names
        if dataset.test_index is not None:
            arrays["split"] = _split_names(dataset)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for allow_pickle


def _write_npy(path: Path, dataset: Dataset, H: np.ndarray, prefix: str) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, H, allow_pickle=False)


def _write_table(path: Path, dataset: Dataset, H: np.ndarray, prefix: str) -> None:
    parquet = path.suffix.lower() == ".parquet"
    if parquet and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing parquet files")
    if H.ndim != 2:
        raise InputError(
            f"cannot write {path}: the representations have shape {H.shape}, a table needs (n, d); use .npz"
        )
    import pandas as pd

    frame = pd.DataFrame(H, columns=[f"{prefix}{i}" for i in range(H.shape[1])])
    if dataset.test_index is not None:
        frame["split"] = _split_names(dataset)
    if dataset.y is not None:
        frame["label"] = dataset.y
    if dataset.row_names is not None:
        frame["name"] = dataset.row_names
    with atomic_path(path) as temporary:
        if parquet:
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        else:
            frame.to_csv(temporary, index=False)


def _write_h5ad(path: Path, dataset: Dataset, H: np.ndarray, prefix: str) -> None:
    write_h5ad(path, dataset.source, H, "X_viewsmith" if prefix == "h" else f"X_viewsmith_{prefix}")


def _split_names(dataset: Dataset) -> np.ndarray:
    names = np.full(len(dataset.x), "train")
    if dataset.test_index is not None:
        names[dataset.test_index] = "test"
    return names


_WRITERS: dict[str, Callable[[Path, Dataset, np.ndarray, str], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_table,
    ".parquet": _write_table,
    ".h5ad": _write_h5ad,
}
