"""Single-cell files, .h5ad: rows are read block by block into a float32 array, without a dense copy of the file."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.files import atomic_path
from viewsmith.core.memory import check_size
from viewsmith.core.messages import duplicates, name_list, one_line, pluralize, suggest_names
from viewsmith.data.reading import Found, Request, reading
from viewsmith.domains.checks import check_numbers

if TYPE_CHECKING:
    import pandas as pd

_KIND = "an .h5ad file"
# Values of a block, in the dtype of the file; small compared with the array.
_BLOCK = 4_000_000


def read_h5ad(path: Path, request: Request) -> Found:
    """``X`` or a layer as float32 (n, d), features named by ``var_names``, labels of ``obs``, a graph of ``obsp``."""
    dataclasses.replace(request, label=None).check_no_table_options(str(path))
    _check_anndata(f"reading {_KIND}")
    import h5py
    from anndata.io import read_elem

    from viewsmith.domains import frames

    layer = request.or_fitted("layer")
    with reading(str(path), _KIND), h5py.File(path, "r") as file:
        values, where = _values(file, layer, str(path))
        obs, var = read_elem(file["obs"]), read_elem(file["var"])
        _check_frames(obs, var, values.shape, f"{where} in {path}")
        names = [str(name) for name in var.index]
        order = _order(names, request.schema, str(path))
        label = _label(obs, request, str(path))
        neighbors = None if request.neighbors is None else _neighbors(file, request.neighbors, str(path))
        x = _dense(values, order, f"{where} in {path}")
    features = names if order is None else [names[i] for i in order]
    y = None if label is None else frames.labels(obs[label], str(path))
    table: dict[str, Any] = {"columns": features, "one_hot": {}, "drop": [], "label": label}
    cells = [str(name) for name in obs.index]
    options = {} if layer is None else {"layer": layer}
    return Found(x, y, names=features, table=table, options=options, row_names=cells, neighbors=neighbors)


def write_h5ad(path: Path, source: str, H: np.ndarray, key: str) -> None:
    """Write a copy of the .h5ad file `source` with `H`, shape (n, k), as ``obsm[key]``."""
    if Path(source).suffix.lower() != ".h5ad" or not Path(source).is_file():
        raise InputError(
            f"cannot write {path}: an .h5ad file is written as a copy of the .h5ad file of the rows, but the rows are "
            f"from {source}; use .npz, .csv or .parquet"
        )
    if H.ndim != 2:
        raise InputError(f"cannot write {path}: the representations have shape {H.shape}, obsm needs (n, k); use .npz")
    _check_anndata(f"writing {_KIND}")
    import h5py
    from anndata.io import read_elem, write_elem

    with atomic_path(path) as temporary:
        # copyfile does not copy permissions: the copy of a read-only file must be writable.
        shutil.copyfile(source, temporary)
        with h5py.File(temporary, "r+") as file:
            rows = len(read_elem(file["obs"]))
            if rows != len(H):
                raise InputError(
                    f"cannot write {path}: {pluralize(len(H), 'representation')} for {pluralize(rows, 'row')} "
                    f"of {source}"
                )
            if "obsm" not in file:
                write_elem(file, "obsm", {})
            write_elem(file["obsm"], key, H)


def _check_anndata(purpose: str) -> None:
    if importlib.util.find_spec("anndata") is None:
        raise MissingExtra("anndata", "omics", purpose)


def _values(file: Any, layer: str | None, what: str) -> tuple[Any, str]:
    """The matrix in the file, which is read when sliced, and its name in messages."""
    import h5py
    from anndata.io import sparse_dataset

    missing = [key for key in ("obs", "var") if key not in file]
    if missing:
        raise InputError(f"{what} has no {' and no '.join(missing)}; expected {_KIND} written by anndata")
    layers = list(file["layers"]) if "layers" in file else []
    if layer is None:
        if "X" not in file:
            hint = f"; give one of its layers with layer (--layer): {name_list(layers)}" if layers else " and no layers"
            raise InputError(f"{what} has no X{hint}")
        values, where = file["X"], "X"
    else:
        if layer not in layers:
            hint = suggest_names(layer, layers, "its layers are") if layers else "it has none; leave layer out"
            raise InputError(f"{what} has no layer {one_line(layer, 60)!r}; {hint}")
        values, where = file["layers"][layer], f"layer {one_line(layer, 60)}"
    if isinstance(values, h5py.Group):
        values = sparse_dataset(values)
    check_numbers(values, f"{where} in {what}")
    return values, where


def _neighbors(file: Any, key: str, what: str) -> Any:
    """The sparse matrix in ``obsp`` under a key."""
    from anndata.io import read_elem
    from scipy import sparse

    known = list(file["obsp"]) if "obsp" in file else []
    if key not in known:
        hint = suggest_names(key, known, "its keys are") if known else "it has none; run scanpy.pp.neighbors first"
        raise InputError(f"{what} has no obsp {one_line(key, 60)!r}, given as neighbors; {hint}")
    found = read_elem(file["obsp"][key])
    if not sparse.issparse(found):
        raise InputError(f"obsp {one_line(key, 60)} in {what} is not sparse; expected the graph of scanpy.pp.neighbors")
    return found


def _check_frames(obs: Any, var: Any, shape: tuple[int, ...], what: str) -> None:
    if not (hasattr(obs, "columns") and hasattr(var, "columns")):
        raise InputError(f"{what}: obs or var is not a data frame; open and save it with anndata 0.7 or later")
    if shape != (len(obs), len(var)):
        raise InputError(f"{what} has shape {shape}, expected ({len(obs)}, {len(var)}), the lengths of obs and var")
    if 0 in shape:
        raise InputError(f"{what} has {pluralize(shape[0], 'row')} and {pluralize(shape[1], 'feature')}; it is empty")


def _order(names: list[str], schema: dict[str, Any] | None, what: str) -> np.ndarray | None:
    """Indices of the columns that a run was fitted on, in its order; None for all columns in the order of the file."""
    twice = duplicates(names)
    if twice:
        raise InputError(f"{what} has equal var_names: {name_list(twice)}; rename them with var_names_make_unique()")
    if schema is None or schema["columns"] is None:
        return None
    if schema["one_hot"]:
        raise InputError(
            f"{what} has no text columns, but the run was fitted on one-hot encoded columns: "
            f"{name_list(list(schema['one_hot']))}; give a table"
        )
    fitted: list[str] = schema["columns"]
    position = {name: i for i, name in enumerate(names)}
    missing = [name for name in fitted if name not in position]
    if missing:
        raise InputError(
            f"{what} lacks {pluralize(len(missing), 'feature')} that the run was fitted on: {name_list(missing)}; "
            f"it has {name_list(names)}"
        )
    known = {*fitted, *schema["drop"]}
    extra = [name for name in names if name not in known]
    if extra:
        warnings.warn(
            f"{what}: {pluralize(len(extra), 'feature')} that the run does not know, ignored: {name_list(extra)}",
            UserWarning,
            stacklevel=5,
        )
    return None if names == fitted else np.array([position[name] for name in fitted])


def _label(obs: pd.DataFrame, request: Request, what: str) -> str | None:
    columns = [str(column) for column in obs.columns]
    if request.label is not None and request.label not in columns:
        known = suggest_names(request.label, columns, "its columns are") if columns else "it has no columns"
        raise InputError(f"{what}: obs has no column {one_line(request.label, 60)!r}, given as label; {known}")
    label = request.label or (request.schema or {}).get("label")
    return label if label in columns else None


def _dense(values: Any, order: np.ndarray | None, what: str) -> np.ndarray:
    """The matrix as float32 with columns in `order`; in addition to the result, only one block is in memory."""
    n, d = values.shape[0], values.shape[1] if order is None else len(order)
    check_size(4 * n * d, f"{what}, {n:,} x {d:,} values,", "keep fewer genes (the most variable) or fewer cells")
    x = np.empty((n, d), dtype=np.float32)
    # Values beyond the range of float32 become infinite, which is an error in a later check.
    with np.errstate(over="ignore"):
        if getattr(values, "format", None) == "csc":
            columns = np.arange(d) if order is None else order
            for part in _blocks(values.shape[1], n):
                target = np.flatnonzero((columns >= part.start) & (columns < part.stop))
                if len(target):
                    block = values[:, part].astype(np.float32)
                    x[:, target] = block[:, columns[target] - part.start].toarray()
            return x
        for part in _blocks(n, values.shape[1]):
            block = values[part]
            block = block if order is None else block[:, order]
            x[part] = block.astype(np.float32).toarray() if hasattr(block, "toarray") else block
    return x


def _blocks(length: int, width: int) -> Iterator[slice]:
    step = max(1, _BLOCK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
