"""Readers of counts of single cells: folders and .h5 files of 10x, a Matrix Market file with files of names, loom."""

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, require, say, warn
from viewsmith.core.rows import check_size
from viewsmith.data.label_tables import check_named, column_of, table_of_names
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.h5ad import column_order, rows_of_sparse, try_attributes
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.data.unread import refuse
from viewsmith.modalities.vectors.counts import genes_in_rows, names_of_genes

# The kinds of features that are read, peaks where there are no genes; others are antibodies, guides and so on.
GENES, PEAKS = "Gene Expression", "Peaks"
_MATRIX, _BARCODES, _FEATURES = ("matrix.mtx",), ("barcodes.tsv",), ("features.tsv", "genes.tsv", "peaks.bed")
of_counts = partial(reader, modality="vectors", options=("labels",))


@of_counts(
    "10x",
    in_folders=(".mtx", ".mtx.gz"),
    help="a folder of counts of cells: matrix.mtx, barcodes.tsv and features.tsv or peaks.bed, plain or gzip",
    noun="a 10x folder",
    example="filtered_feature_bc_matrix/ --labels labels.csv --label cell_type",
)
def read_tenx(path: Path, request: DataOptions) -> FileContents:
    """Cells, float32 (n, genes), of the one 10x folder at or below a path; labels of a table of barcodes."""
    found = sorted({file.parent for ending in ("", ".gz") for file in path.rglob(f"matrix.mtx{ending}")})
    if not found:
        matrix = next(file for ending in ("*.mtx", "*.mtx.gz") for file in sorted(path.rglob(ending)))
        raise InputError(f"{path} is no 10x folder, whose matrix is matrix.mtx: give its matrix alone, {matrix}")
    if len(found) != 1:
        folders = name_list([str(folder.relative_to(path)) for folder in found])
        raise InputError(f"{path} has the 10x folders {folders}, expected one: give one of them")
    folder = found[0]
    files = [_file(folder, names) for names in (_MATRIX, _BARCODES, _FEATURES)]
    with reading(str(folder), "a 10x folder"):
        from scipy.io import mmread

        counts = sparse.csr_array(sparse.coo_array(mmread(files[0])).T)
        cells = [fields[0] for fields in _fields(lines_of(files[1]), "\t")]
        features = _fields(lines_of(files[2]), "\t")
    if files[2].name.startswith("peaks.bed"):
        names, kinds = list(map(_best, features)), [PEAKS] * len(features)
    else:
        names = [each[min(1, len(each) - 1)] for each in features]
        kinds = [each[2] if len(each) > 2 else GENES for each in features]
    if counts.shape != (len(cells), len(names)) and counts.shape == (len(names), len(cells)):
        warn(f"{folder}: genes are columns and cells rows, by the lines of {files[2].name}")
        counts = sparse.csr_array(counts.T)
    if counts.shape != (len(cells), len(names)):
        raise InputError(
            f"{folder} has a matrix of {counts.shape[1]:,} genes and {counts.shape[0]:,} cells, but {files[2].name} "
            f"has {pluralize(len(names), 'line')} and {files[1].name} {len(cells):,}: the files are of different data"
        )
    return counts_of_cells(counts, cells, names, request, str(path), (path, folder, folder.parent), kinds=kinds)


@of_counts(
    "10x-h5",
    ".h5",
    help="counts of cells in an HDF5 file of 10x (Cell Ranger 2 and later), also of a folder of Visium",
    noun="a 10x file",
    extra="omics",
    recognizes=lambda path: _of_visium(path) is not None,
    example="filtered_feature_bc_matrix.h5 --labels labels.csv --label cell_type",
)
def read_tenx_file(path: Path, request: DataOptions) -> FileContents:
    """Cells, float32 (n, genes), of an HDF5 file; labels of a table of barcodes."""
    if (found := _of_visium(path)) is not None:
        say(f"{path}: the samples are the spots of {found.name}, without pictures of the tissue")
        return read_tenx(found, request) if found.is_dir() else read_tenx_file(found, request)
    require("h5py", "omics", "reading .h5 files")
    import h5py

    try_attributes(path)
    with reading(str(path), "a 10x file"), h5py.File(path, "r") as file:
        groups = [group for group in file.values() if hasattr(group, "keys") and {"barcodes", "indptr"} <= set(group)]
        if not groups:
            refuse(path, path.suffix)
            raise InputError(f"{path} is an HDF5 file without counts of 10x, and without an array of samples, X")
        if len(groups) > 1:
            raise InputError(f"{path} has counts of the genomes {name_list(list(file))}, expected one: save one alone")
        group = groups[0]
        shape = tuple(int(size) for size in group["shape"][:])
        stored = sparse.csc_array((group["data"][:], group["indices"][:], group["indptr"][:]), shape)
        stored.check_format(full_check=True)
        features = group.get("features", group)
        names = _texts(features["name"] if "name" in features else features["gene_names"])
        kinds = _texts(features["feature_type"]) if "feature_type" in features else [GENES] * len(names)
        cells = _texts(group["barcodes"])
    return counts_of_cells(sparse.csr_array(stored.T), cells, names, request, str(path), (path.parent,), kinds=kinds)


def _of_visium(path: Path) -> Path | None:
    """The counts of a folder of Visium, which has pictures of the tissue beside them; None for other ones."""
    if not (path / "spatial").is_dir() or path.suffix:
        return None
    found = [*sorted(path.glob("*filtered_feature_bc_matrix.h5")), *path.glob("filtered_feature_bc_matrix")]
    return next(iter(found), None)


def _file(folder: Path, names: tuple[str, ...]) -> Path:
    found = [folder / f"{name}{ending}" for name in names for ending in ("", ".gz")]
    for file in found:
        if file.is_file():
            return file
    raise InputError(f"{folder} is a 10x folder without {names[0]} or {names[0]}.gz: copy it from its source again")


def lines_of(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as text:
        return text.read().splitlines()


def _fields(lines: list[str], separator: str) -> list[list[str]]:
    """Fields of lines of names, without the quotes and the numbers of rows that R and pandas write."""
    fields = [line.replace('"', "").split(separator) for line in lines]
    numbers, others = [each[0] for each in fields if len(each) > 1], {each[1] for each in fields if len(each) > 1}
    numbered = any(numbers == [str(start + i) for i in range(len(fields))] for start in (0, 1))
    return [each[1:] for each in fields] if numbered and len(others) > len(fields) / 2 else fields


def _texts(stored: Any) -> list[str]:
    return [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in stored[:]]


def _unique(names: list[str]) -> list[str]:
    """Names of genes; of equal ones the later have -1, -2 and so on, as anndata makes them."""
    taken, seen, found = set(names), dict[str, int](), []
    for name in names:
        new = name
        while name in seen and (new := f"{name}-{seen[name]}") in taken:
            seen[name] += 1
        seen[name] = seen.get(name, 0) + 1
        taken.add(new)
        found.append(new)
    return found


def counts_of_cells(
    counts: Any,
    cells: list[str],
    names: list[str],
    request: DataOptions,
    source_name: str,
    places: tuple[Path, ...] = (),
    *,
    kinds: list[str] | None = None,
    obs: Any = None,
) -> FileContents:
    """What is read of sparse counts (cells, genes), of genes among several kinds of features; labels of `obs`, a table
    of the cells, or of one with their names in one of several places."""
    replace(request, label=None).check_no_table_options(source_name)
    kept = PEAKS if kinds and GENES not in kinds and PEAKS in kinds else GENES
    chosen = np.array([kind == kept for kind in kinds or [kept] * len(names)])
    if not chosen.any():
        raise InputError(
            f"{source_name} has no features of the kinds {GENES!r} and {PEAKS!r}, only "
            f"{name_list(sorted(set(kinds or ())))}"
        )
    if not chosen.all():
        others = name_list(sorted(set(kinds or ()) - {kept}))
        warn(f"{source_name}: {pluralize(int((~chosen).sum()), 'feature')} of other kinds are left out: {others}")
        counts, names = counts[:, np.flatnonzero(chosen)], np.array(names, object)[chosen].tolist()
    names = _unique(names)
    order = column_order(names, request.schema, source_name)
    if order is not None:
        counts, names = counts[:, order], [names[i] for i in order]
    x = rows_of_sparse(counts, request, source_name, "keep fewer genes or cells, or save it as .h5ad")
    check_named(request)
    label, groups = request.or_fitted("label"), request.or_fitted("groups")
    table: Any = obs
    if request.labels is not None or (table is None and (label is not None or groups is not None)):
        found = (table_of_names(cells, request, place) for place in dict.fromkeys(places))
        table = next((each for each in found if each is not None), None)
    y, of_groups = (column_of(table, option, request, source_name) for option in ("label", "groups"))
    described: dict[str, Any] = {"columns": names, "one_hot": {}, "drop": [], "label": label}
    more: dict[str, Any] = {"row_names": cells, "groups": of_groups, "cells": True, "modality": "vectors"}
    return FileContents(x, y, names=names, table=described, **more)


_LARGEST = 2**26  # bytes of a file of names
_NAMES = (".tsv", ".csv", ".txt", ".bed")


@of_counts(
    "mtx",
    *(".mtx", ".mtx.gz"),
    help="one count matrix, with files of names beside it; whether genes are rows is told by the names",
    noun="an .mtx matrix",
    example="counts.mtx --labels cells.csv --label cell_type",
)
def read_mtx(path: Path, request: DataOptions) -> FileContents:
    """Cells, float32 (n, genes). Names of genes are sought in files beside the matrix with as many lines as it has rows
    or columns; which of both the genes are is told by them, and said."""
    with reading(str(path), "a Matrix Market file"):
        from scipy.io import mmread

        counts = sparse.csr_array(mmread(path))
    rows, columns = (_names(path, size) for size in counts.shape)
    by_rows, by_columns = (names_of_genes(names) or _says_genes(file) for names, file in (rows, columns))
    if genes_in_rows(rows[0], columns[0]) or (by_rows and not by_columns):
        transposed = True
    elif genes_in_rows(columns[0], rows[0]) or by_columns:
        transposed = False
    else:
        raise InputError(
            f"{path} is a matrix of {counts.shape[0]:,} x {counts.shape[1]:,} whose genes cannot be told from its "
            "cells: put a file with the names of the genes beside it, genes.txt, a name in each line"
        )
    genes, cells = (rows, columns) if transposed else (columns, rows)
    warn(
        f"{path}: genes are {'rows' if transposed else 'columns'} and cells {'columns' if transposed else 'rows'}, by "
        f"the names in {one_line((genes[1] or cells[1] or path).name, 60)}"
    )
    names = cells[0] or [str(number) for number in range(counts.shape[1 if transposed else 0])]
    of_genes = genes[0] or [str(number) for number in range(counts.shape[0 if transposed else 1])]
    cells_first: Any = sparse.csr_array(counts.T) if transposed else counts
    return counts_of_cells(cells_first, names, of_genes, request, str(path), (path.parent,))


def _names(path: Path, size: int) -> tuple[list[str], Path | None]:
    """The names of as many rows or columns, and their file, one with the name of the matrix first."""
    stem = path.name.split(".")[0]
    files = [file for file in sorted(path.parent.iterdir()) if file.name.removesuffix(".gz").lower().endswith(_NAMES)]
    for file in sorted(files, key=lambda file: not file.name.startswith(stem)):
        if not file.is_file() or file.stat().st_size > _LARGEST:
            continue
        try:
            lines = [line for line in lines_of(file) if line.strip()]
        except (OSError, UnicodeDecodeError):
            continue
        if len(lines) in (size, size + 1):
            names = lines[len(lines) - size :]
            return [_best(each) for each in _fields(names, "\t" if names and "\t" in names[0] else ",")], file
    return [], None


def _says_genes(file: Path | None) -> bool:
    """Whether the name of a file says that its lines are genes."""
    return file is not None and any(word in file.name.lower() for word in ("gene", "feature", "var", "peak"))


def _best(fields: list[str]) -> str:
    """The name in a line: of three fields the second as in files of 10x, or all as a peak; otherwise the first."""
    if len(fields) >= 3 and fields[1].isdigit() and fields[2].isdigit():
        return f"{fields[0]}:{fields[1]}-{fields[2]}"
    return (fields[1] if len(fields) >= 3 and fields[2] == "Gene Expression" else fields[0]).strip()


_CELLS, _GENES = ("CellID", "obs_names", "cell_id", "barcode"), ("Gene", "var_names", "gene", "Accession")


@reader(
    "loom",
    ".loom",
    help="counts of genes and cells, with attributes of the cells as labels",
    noun="a loom file",
    modality="vectors",
    options=("labels", "layer"),
    extra="omics",
    example="cells.loom --label ClusterName",
)
def read_loom(path: Path, request: DataOptions) -> FileContents:
    """Cells, float32 (n, genes), of ``matrix`` or a layer; labels of ``col_attrs``, or of a table of cells."""
    require("h5py", "omics", "reading .loom files")
    import h5py

    try_attributes(path)
    layer = request.or_fitted("layer")
    with reading(str(path), "a loom file"), h5py.File(path, "r") as file:
        layers = [str(name) for name in file.get("layers", {})]
        if layer is not None and layer not in layers:
            raise InputError(f"{path} has no layer {layer!r}; its layers are {name_list(layers) or 'none'}")
        stored = file["matrix" if layer is None else f"layers/{layer}"]
        check_size(4 * stored.size, f"{path}, {stored.shape[1]:,} x {stored.shape[0]:,} values,", "save it as .h5ad")
        counts = sparse.csr_array(stored[:].T)
        obs, var = _attributes(file["col_attrs"], stored.shape[1]), _attributes(file["row_attrs"], stored.shape[0])
    cells, genes = _named(obs, _CELLS, path, "cells"), _named(var, _GENES, path, "genes")
    found = counts_of_cells(counts, cells, genes, request, str(path), obs=obs)
    return found if layer is None else FileContents(**(vars(found) | {"options": {"layer": layer}}))


def _attributes(group: Any, size: int) -> pd.DataFrame:
    """Attributes with one value for each row or column."""
    found = {}
    for name, stored in group.items():
        if stored.shape == (size,):
            values = stored[:]
            text = values.dtype.kind in "SO"
            found[str(name)] = [each.decode("utf-8", "replace") for each in values] if text else values
    return pd.DataFrame(found, index=range(size))


def _named(table: pd.DataFrame, known: tuple[str, ...], path: Path, noun: str) -> list[str]:
    for name in known:
        if name in table:
            return list(map(str, table[name]))
    raise InputError(f"{path} has no names of {noun}, expected an attribute {' or '.join(known)}")
