"""Single-cell data: AnnData objects and their files, .h5ad and .zarr, whose rows are read block by block.

Some damage to a file crashes HDF5 or keeps it in an endless loop, so a file is first read in another process.
"""

import contextlib
import dataclasses
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, pluralize, require, suggest, warn
from viewsmith.core.files import atomic_path, target_of
from viewsmith.core.rows import AnyRows, RowSource, SparseRows, check_size, memory_limit
from viewsmith.data.layouts import transposing
from viewsmith.data.options import DataOptions
from viewsmith.data.places import file_of
from viewsmith.data.readers.tables import group_column, label_column
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.modalities import frames
from viewsmith.modalities.checks import check_numbers, match_columns
from viewsmith.modalities.tables import is_mudata
from viewsmith.modalities.vectors.counts import genes_in_rows

# Damage that Python notices ends without an error here: the reader will meet it again and say what it is.
_READ_ATTRIBUTES = """
import sys
try:
    import h5py
    def read(name, thing):
        for key in thing.attrs:
            try:
                thing.attrs[key]
            except Exception:
                pass
    with h5py.File(sys.argv[1]) as file:
        read("/", file)
        file.visititems(read)
except Exception:
    pass
"""


def try_attributes(path: Path, seconds: float = 60.0) -> None:
    """Read all attributes of an HDF5 file in another process, which may crash in our place."""
    # Attributes of variable length that are damaged crash HDF5 2.0.0 or do not let it return. In 100,000 damaged files
    # (`benchmarks/survival/fuzz.py`) nothing else did.
    command = [sys.executable, "-P", "-c", _READ_ATTRIBUTES, str(path)]
    try:
        code = subprocess.run(command, capture_output=True, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        found = f"HDF5 does not finish reading its attributes ({seconds:g} s)"
    except OSError:  # no process can be started here
        return
    else:
        if code == 0:
            return
        found = "HDF5 crashes on its attributes"
    raise InputError(f"cannot read {path} as an .h5ad file: it is damaged ({found}); copy it again from its source")


_KIND = "an .h5ad file"

# Values of a block of columns, in the dtype of the file; small compared with the array.
_BLOCK = 4_000_000
_CHUNKS = 2**26  # bytes of decompressed chunks that are kept for each matrix
_FEWER = "keep fewer genes (the most variable) or fewer cells"


class MatrixRows(RowSource):
    """Rows of a matrix in a file of anndata, dense or in compressed rows (CSR), as float32."""

    def __init__(self, path: Path, key: str, shape: tuple[int, int], order: np.ndarray | None, name: str) -> None:
        super().__init__((shape[0], shape[1] if order is None else len(order)), name, path)
        self.path, self.key, self.width, self.order = path, key, shape[1], order
        self._stored: Any = None
        self._starts: Any = None

    def read_range(self, start: int, stop: int) -> np.ndarray:
        with reading(self.name, _kind(self.path)), np.errstate(over="ignore"):
            self._open()
            if self._starts is None:
                rows = self._stored[start:stop]
                return (rows if self.order is None else rows[:, self.order]).astype(np.float32)
            return self._sparse(start, stop).toarray()

    def read_sparse(self, start: int, stop: int) -> Any:
        with reading(self.name, _kind(self.path)), np.errstate(over="ignore"):
            self._open()
            return None if self._starts is None else self._sparse(start, stop)

    def _open(self) -> None:
        """Open the file, for as long as the rows are used: opening it again would forget what was decompressed."""
        if self._stored is None:
            stored = _open(self.path)[self.key]
            self._starts = _starts(stored) if hasattr(stored, "keys") else None
            self._stored = stored

    def _sparse(self, start: int, stop: int) -> Any:
        stored = _slice(self._stored, self._starts[start : stop + 1], self.width)
        rows = sparse.csr_array(stored, (stop - start, self.width))
        return rows if self.order is None else rows[:, self.order]

    def in_memory(self) -> np.ndarray:
        """All rows; apart from them only one block is in memory."""
        x = np.empty(self.shape, dtype=np.float32)
        for start in range(0, len(self), self.block_rows):
            x[start : start + self.block_rows] = self[start : start + self.block_rows]
        return x


def _starts(stored: Any) -> np.ndarray:
    """Where each row (CSR) or column (CSC) of a stored sparse matrix starts; scipy crashes where they decrease."""
    starts: np.ndarray = stored["indptr"][:]
    if starts[:1] != 0 or (np.diff(starts) < 0).any():
        raise ValueError("the starts of rows or columns do not increase")
    return starts


def _slice(stored: Any, starts: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values as float32, numbers below `width` and starts of some rows (CSR) or columns (CSC)."""
    first, last = int(starts[0]), int(starts[-1])
    numbers = stored["indices"][first:last]
    if last > first and (numbers.min() < 0 or numbers.max() >= width):
        raise ValueError(f"a number of a row or column is not from 0 to {width - 1}")
    return stored["data"][first:last].astype(np.float32), numbers, starts - first


def _open(path: Path) -> Any:
    """The file, of HDF5 or a zarr folder."""
    if path.suffix.lower() == ".zarr":
        import zarr

        return zarr.open_group(path, mode="r")
    import h5py

    return h5py.File(path, "r", rdcc_nbytes=_CHUNKS)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file, closed in the end."""
    file = _open(path)
    try:
        yield file
    finally:
        if hasattr(file, "close"):
            file.close()


def check_own(file: Any, path: Path) -> None:
    """Raise InputError for an HDF5 file with parts in other files, which nobody sees to be read."""
    if not hasattr(file, "visititems_links"):  # zarr
        return
    import h5py

    elsewhere: dict[str, str] = {}

    def follow(name: str, item: Any) -> None:
        if isinstance(item, h5py.ExternalLink):
            elsewhere[name] = item.filename
        elif isinstance(item, h5py.Dataset) and item.external:
            elsewhere[name] = item.external[0][0]
        elif isinstance(item, h5py.Dataset) and item.is_virtual:
            others = [source.file_name for source in item.virtual_sources() if source.file_name != "."]
            elsewhere.update(dict.fromkeys([name], others[0]) if others else {})

    file.visititems_links(follow)
    file.visititems(follow)
    for name, other in elsewhere.items():
        raise InputError(
            f"{path}: {one_line(name, 60)} is in another file ({one_line(Path(other).name, 60)}), not followed; "
            "expected all in one file: anndata.read_h5ad(FILE).write_h5ad(COPY) makes a copy of what you trust"
        )


def _kind(path: Path) -> str:
    return f"an {path.suffix.lower()} file"


of_cells = partial(reader, modality="vectors", options=("layer", "neighbors", "use_rep"), extra="omics")


@of_cells(
    "h5ad",
    *(".h5ad", ".zarr/"),
    help="cells of anndata: X, a layer or a representation, labels of obs",
    noun="an .h5ad file",
    example="cells.h5ad --label cell_type --layer counts",
)
def read_h5ad(path: Path, request: DataOptions) -> FileContents:
    """``X``, a layer or a representation as float32 (n, d), ``var_names``, labels of ``obs``, a graph of ``obsp``."""
    return _cells(path, request, "")


@of_cells(
    "h5mu",
    ".h5mu",
    help="cells of one modality of a MuData file; of several FILE::MODALITY",
    noun="an .h5mu file",
    example="cite.h5mu::rna --label cell_type",
)
def read_h5mu(path: Path, request: DataOptions) -> FileContents:
    """As of an .h5ad file, of the modality that is named, or the only one; labels also of ``obs`` of all modalities."""
    file, given = file_of(path)
    require("anndata", "omics", "reading .h5mu files")
    try_attributes(file)
    with reading(str(file), "an .h5mu file"), opened(file) as content:
        known = [str(name) for name in content["mod"]]
    if given and given not in known:
        raise InputError(
            f"{file} has no modality {one_line(given, 60)!r}; {suggest(given, known, 'its modalities are')}"
        )
    if not given and len(known) != 1:
        first = "rna" if "rna" in known else known[0]
        raise InputError(f"{file} has the modalities {name_list(known)}, expected one: give {file}::{first}")
    return _cells(file, request, f"mod/{given or known[0]}/", f"{file}::{given or known[0]}")


def _cells(path: Path, request: DataOptions, prefix: str, source_name: str | None = None) -> FileContents:
    """What is read of an AnnData, in a file or in a group of one."""
    source_name = source_name or str(path)
    dataclasses.replace(request, label=None).check_no_table_options(source_name)
    kind = _kind(path)
    require("anndata", "omics", f"reading {kind}")
    if path.is_file():
        try_attributes(path)
    from anndata.io import read_elem

    layer, use_rep = request.or_fitted("layer"), request.or_fitted("use_rep")
    with reading(source_name, kind), opened(path) as whole:
        check_own(whole, path)
        file = whole[prefix] if prefix else whole
        values, where = _values(file, layer, use_rep, source_name)
        obs, var = read_elem(file["obs"]), read_elem(file["var"])
        of_genes = use_rep in (None, "X")
        _check_frames(obs, var, values.shape if of_genes else (values.shape[0], len(var)), f"{where} in {source_name}")
        if prefix and "obs" in whole and hasattr(shared := read_elem(whole["obs"]), "columns"):
            obs = obs.join(shared[[name for name in shared.columns if name not in obs.columns]])
        names = [str(name) for name in var.index] if of_genes else None
        cells = [str(name) for name in obs.index]
        if of_genes and request.schema is None and genes_in_rows(cells, names or []):
            said = f"{source_name}: rows (obs) are genes and columns cells, by their names, expected cells in rows"
            raise InputError(f"{said}: {transposing(source_name)}")
        if of_genes and request.schema is None:
            _warn_kinds(var, source_name)
        order = None if names is None else column_order(names, request.schema, source_name)
        label = label_column(obs, request, (), f"{source_name}: obs")
        groups = group_column(obs, request, f"{source_name}: obs")
        neighbors = None if request.neighbors is None else _neighbors(file, request.neighbors, source_name)
        name = f"{where} in {source_name}"
        if getattr(values, "format", None) == "csc":
            x: AnyRows = _by_columns(values, order, name)
        else:
            key = (f"layers/{layer}" if layer is not None else "X") if of_genes else f"obsm/{use_rep}"
            x = MatrixRows(path, prefix + key, values.shape, order, name)
            if not request.maps(x.shape):
                check_size(4 * len(x) * x.shape[1], _size(name, *x.shape), _FEWER)
                x = x.in_memory()
    features = names if names is None or order is None else [names[i] for i in order]
    y = None if label is None else frames.labels(obs[label])
    table: dict[str, Any] = {"columns": features, "one_hot": {}, "drop": [], "label": label}
    options = {name: value for name, value in (("layer", layer), ("use_rep", use_rep)) if value is not None}
    more: dict[str, Any] = {"row_names": cells, "neighbors": neighbors, "groups": groups, "cells": of_genes}
    more["modality"] = "vectors"
    return FileContents(x, y, names=features, table=table, options=options, **more)


def write_h5ad(path: Path, source: str, shape: tuple[int, ...], blocks: Iterable[np.ndarray], key: str) -> None:
    """Write a copy of the .h5ad file `source` with the rows of `blocks`, shape (n, k) together, as ``obsm[key]``."""
    if Path(source).suffix.lower() != ".h5ad" or not Path(source).is_file():
        raise InputError(
            f"cannot write {path}: an .h5ad file is written as a copy of the .h5ad file of the rows, but the rows are "
            f"from {source}; use .npz, .csv or .parquet"
        )
    if len(shape) != 2:
        raise InputError(f"cannot write {path}: the representations have shape {shape}, obsm needs (n, k); use .npz")
    require("anndata", "omics", f"writing {_KIND}")
    import h5py
    from anndata.io import read_elem, write_elem

    with atomic_path(target_of(path)) as temporary:
        # copyfile does not copy permissions: the copy of a read-only file must be writable.
        shutil.copyfile(source, temporary)
        with h5py.File(temporary, "r+") as file:
            rows = len(read_elem(file["obs"]))
            if rows != shape[0]:
                raise InputError(
                    f"cannot write {path}: {pluralize(shape[0], 'representation')} for {pluralize(rows, 'row')} "
                    f"of {source}"
                )
            if not isinstance(link := file.get("obsm", getlink=True), h5py.HardLink | None):
                raise InputError(
                    f"cannot write {path}: obsm of {source} is a link to {one_line(link.path, 60)}"
                    f"{f' in {link.filename}' if isinstance(link, h5py.ExternalLink) else ''}, and links are not "
                    "written through; use .npz, or save the data again with anndata"
                )
            if "obsm" not in file:
                write_elem(file, "obsm", {})
            if key in file["obsm"]:
                del file["obsm"][key]
            written = file["obsm"].create_dataset(key, shape, np.float32)
            written.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})  # as anndata writes arrays
            start = 0
            for block in blocks:
                written[start : start + len(block)] = block
                start += len(block)


def _values(file: Any, layer: str | None, use_rep: str | None, source_name: str) -> tuple[Any, str]:
    """The matrix in the file, which is read when sliced, and its name in messages."""
    from anndata.io import sparse_dataset

    missing = [key for key in ("obs", "var") if key not in file]
    if missing:
        raise InputError(f"{source_name} has no {' and no '.join(missing)}; expected {_KIND} written by anndata")
    layers = file.get("layers", {})
    values, where = _chosen(layer, use_rep, layers, file.get("obsm", {}), source_name)
    if values is None:
        # anndata 0.12.0 writes an X of None as an empty one.
        if "X" not in file or file["X"].attrs.get("encoding-type") == "null":
            known = name_list(list(layers))
            hint = f"; give one of its layers with layer (--layer): {known}" if known else " and no layers"
            raise InputError(f"{source_name} has no X{hint}")
        values = file["X"]
    if hasattr(values, "keys"):
        if values.attrs.get("encoding-type") == "dataframe":
            raise InputError(
                f"{where} in {source_name} is a table with named columns, expected a matrix: store its values"
            )
        values = sparse_dataset(values)
    check_numbers(values, f"{where} in {source_name}")
    return values, where


def _neighbors(file: Any, key: str, source_name: str) -> Any:
    """The sparse matrix in ``obsp`` under a key."""
    from anndata.io import read_elem

    found = read_elem(_find(file.get("obsp", {}), key, "obsp key", "neighbors", source_name, _RUN_NEIGHBORS))
    if not sparse.issparse(found):
        raise InputError(
            f"obsp {one_line(key, 60)} in {source_name} is not sparse; expected the graph of scanpy.pp.neighbors"
        )
    if found.format in ("csr", "csc"):
        found.check_format(full_check=True)
    return found


def _check_frames(obs: Any, var: Any, shape: tuple[int, ...], source_name: str) -> None:
    if not (hasattr(obs, "columns") and hasattr(var, "columns")):
        raise InputError(f"{source_name}: obs or var is not a data frame; open and save it with anndata 0.7 or later")
    if shape != (len(obs), len(var)):
        raise InputError(
            f"{source_name} has shape {shape}, expected ({len(obs)}, {len(var)}), the lengths of obs and var"
        )
    if 0 in shape:
        raise InputError(
            f"{source_name} has {pluralize(shape[0], 'row')} and {pluralize(shape[1], 'feature')}; it is empty"
        )


#: What to do about genes that a later file lacks, if it has most, or next to none.
MEASURED = (
    "; if 0 stands for what was not measured: anndata.concat([TRAINED[:0], NEW], join='outer', fill_value=0), of the "
    "AnnData of both files"
)
OTHER_NAMES = "; are they names of another kind, symbols and Ensembl's?"


def _warn_kinds(var: Any, source_name: str) -> None:
    """Warn of proteins or peaks among the genes, as scanpy reads them from files of 10x."""
    kinds = var["feature_types"].map(str) if "feature_types" in var else ()
    if "Gene Expression" in (found := {*kinds}) and len(found) > 1:
        others = name_list(sorted(found - {"Gene Expression"}))
        warn(
            f"{source_name}: features of other kinds ({others}) are scaled and learned with the genes; to leave them "
            "out: adata = adata[:, adata.var['feature_types'] == 'Gene Expression']"
        )


def column_order(names: list[str], schema: dict[str, Any] | None, source_name: str) -> np.ndarray | None:
    """Indices of the columns that a run was fitted on, in its order; None for all columns in the order of the file."""
    check_unique(names, f"{source_name} has equal var_names", "rename them with var_names_make_unique()")
    if schema is None or schema["columns"] is None:
        return None
    if schema["one_hot"]:
        raise InputError(
            f"{source_name} has no text columns, but the run was fitted on one-hot encoded columns: "
            f"{name_list(list(schema['one_hot']))}; give a table"
        )
    fitted: list[str] = schema["columns"]
    position = {name: i for i, name in enumerate(names)}
    shared = len(position.keys() & set(fitted)) / len(fitted)
    way = MEASURED if shared > 0.5 else OTHER_NAMES if shared < 0.01 else ""
    match_columns(names, fitted, {*fitted, *schema["drop"]}, source_name, noun="feature", model="run", advice=way)
    return None if names == fitted else np.array([position[name] for name in fitted])


def _by_columns(values: Any, order: np.ndarray | None, source_name: str) -> np.ndarray:
    """A matrix by columns (CSC) as float32 (n, d); in addition to the result, only one block is in memory."""
    n, d = values.shape[0], values.shape[1] if order is None else len(order)
    check_size(4 * n * d, _size(source_name, n, d), "save it by rows: adata.X = adata.X.tocsr()")
    x, columns = np.zeros((n, d), dtype=np.float32), np.arange(d) if order is None else order
    step, starts = max(1, _BLOCK // n), _starts(values.group)
    for start in range(0, values.shape[1], step):
        target = np.flatnonzero((columns >= start) & (columns < start + step))
        if len(target):
            with np.errstate(over="ignore"):
                stored = _slice(values.group, starts[start : start + step + 1], n)
            block = sparse.csc_array(stored, (n, len(stored[2]) - 1))
            x[:, target] = block[:, columns[target] - start].toarray()
    return x


def rows_of_sparse(matrix: Any, request: DataOptions, source_name: str, advice: str) -> AnyRows:
    """Rows of a sparse matrix in memory as float32: dense; sparse if `stream` says so, or if dense ones do not fit."""
    limit = memory_limit() or math.inf
    if not request.shared and (request.stream or 4 * math.prod(matrix.shape) > limit):
        rows = matrix.tocsr().astype(np.float32)
        rows.sum_duplicates()
        return SparseRows(rows, source_name)
    check_size(4 * matrix.shape[0] * matrix.shape[1], _size(source_name, *matrix.shape), advice)
    dense: np.ndarray = matrix.astype(np.float32).toarray()
    return dense


def _size(source_name: str, n: int, d: int) -> str:
    return f"{source_name}, {n:,} x {d:,} values,"


WHAT = "the AnnData"
_RUN_NEIGHBORS = "run scanpy.pp.neighbors first"


def matrix_of(
    cells: Any, layer: str | None, use_rep: str | None, fitted: Sequence[str] | None = None
) -> tuple[Any, list[str] | None]:
    """The matrix of an AnnData that a model reads."""
    if is_mudata(cells):
        known = [str(name) for name in cells.mod]
        one = f"X.mod[{(known or ['rna'])[0]!r}]"
        raise InputError(
            f"the data are a MuData with the modalities {name_list(known)}, expected one of them, an AnnData: give "
            f"{one}; as a file: {one}.write_h5ad('cells.h5ad')"
        )
    chosen, _ = _chosen(layer, use_rep, cells.layers, cells.obsm, WHAT)
    if use_rep not in (None, "X"):
        return _in_memory(chosen), None
    matrix = cells.X if chosen is None else chosen
    if matrix is None:
        layers = name_list([name for name in cells.layers if name is not None]) or "none"
        raise InputError(f"{WHAT} has no X: give a layer (its layers: {layers}) or use_rep (a key of obsm)")
    names = [str(name) for name in cells.var_names]
    if fitted is None and genes_in_rows([str(name) for name in cells.obs_names], names):
        raise InputError(f"{WHAT} has genes in its rows (obs) and cells in its columns, by their names: give adata.T")
    if fitted is None:
        _warn_kinds(cells.var, WHAT)
    schema = None if fitted is None else {"columns": list(fitted), "one_hot": {}, "drop": []}
    order = column_order(names, schema, WHAT)
    matrix = _in_memory(matrix)
    return (matrix, names) if order is None else (matrix[:, order], list(fitted or []))


def neighbors_of(cells: Any, key: str) -> Any:
    """The neighbor graph of an AnnData, sparse (n, n)."""
    entry = cells.uns.get(key)
    named = entry.get("connectivities_key") if isinstance(entry, Mapping) else None
    found = named if named in list(cells.obsp) else key
    return _find(cells.obsp, found, "obsp key", "neighbors_key", WHAT, _RUN_NEIGHBORS)


def _chosen(
    layer: str | None, use_rep: str | None, layers: Mapping[str, Any], obsm: Mapping[str, Any], source_name: str
) -> tuple[Any, str]:
    """The layer or the representation that was asked for, None for X; and its name in messages."""
    if layer is not None and use_rep is not None:
        raise InputError(
            f"layer is {one_line(layer, 60)!r} and use_rep {one_line(use_rep, 60)!r}: leave one of them out"
        )
    if use_rep not in (None, "X"):
        return _find(obsm, use_rep, "obsm key", "use_rep", source_name), f"obsm {one_line(use_rep, 60)}"
    if layer is not None:
        return _find(layers, layer, "layer", "layer", source_name), f"layer {one_line(layer, 60)}"
    return None, "X"


def _find(
    there: Mapping[str, Any], key: Any, noun: str, option: str, source_name: str, remedy: str | None = None
) -> Any:
    """An entry of a mapping of an AnnData, by the key that an option gives."""
    known = [str(name) for name in there if name is not None]  # None: X, from anndata 0.13 on
    if key not in known:
        nothing = f"it has none; {remedy or f'leave {option} out'}"
        hint = suggest(str(key), known, f"its {noun}s are") if known else nothing
        raise InputError(f"{source_name} has no {noun} {one_line(key, 60)!r}, given as {option}; {hint}")
    return there[key]


def _in_memory(matrix: Any) -> Any:
    """Rows of a backed AnnData as an array or a sparse matrix; others unchanged."""
    if hasattr(matrix, "to_memory"):
        return matrix.to_memory()
    return matrix if hasattr(matrix, "tocsr") else np.asarray(matrix)
