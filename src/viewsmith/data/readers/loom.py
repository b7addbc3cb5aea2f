"""Reader of loom files: counts of genes and cells in HDF5, with attributes of both."""

from pathlib import Path
from typing import Any

import pandas as pd
from scipy import sparse

from viewsmith.core.errors import InputError, name_list, require
from viewsmith.core.memory import check_size
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.h5ad import try_attributes
from viewsmith.data.readers.tenx import counts_of_cells
from viewsmith.data.reading import FileContents, reading

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
        obs, var = (
            _attributes(file[name], size)
            for name, size in zip(("col_attrs", "row_attrs"), stored.shape[::-1], strict=True)
        )
    cells, genes = _names(obs, _CELLS, path, "cells"), _names(var, _GENES, path, "genes")
    found = counts_of_cells(counts, cells, genes, request, str(path), obs=obs)
    return found if layer is None else FileContents(**(vars(found) | {"options": {"layer": layer}}))


def _attributes(group: Any, size: int) -> pd.DataFrame:
    """Attributes with one value for each row or column."""
    found = {}
    for name, stored in group.items():
        if stored.shape == (size,):
            values = stored[:]
            found[str(name)] = (
                [each.decode("utf-8", "replace") for each in values] if values.dtype.kind in "SO" else values
            )
    return pd.DataFrame(found, index=range(size))


def _names(table: pd.DataFrame, known: tuple[str, ...], path: Path, noun: str) -> list[str]:
    for name in known:
        if name in table:
            return list(map(str, table[name]))
    raise InputError(f"{path} has no names of {noun}, expected an attribute {' or '.join(known)}")
