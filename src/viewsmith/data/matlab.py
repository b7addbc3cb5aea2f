"""Arrays of files of MATLAB: numbers, cell arrays of them, and the fields of structs and arrays of structs."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, require, say
from viewsmith.core.rows import check_size
from viewsmith.data.places import first_bytes
from viewsmith.data.reading import reading

Arrays = dict[str, np.ndarray]
DEEPEST = 3  # structs within structs


def arrays_of(path: Path, labels: Sequence[str]) -> tuple[Arrays, Arrays, Arrays]:
    """All arrays of a .mat file, those of numbers, and cell arrays of them; of the only struct its fields. `labels`
    are names of labels, of which a struct of several may have one for each of its rows."""
    import scipy.io
    import scipy.sparse

    if (header := path.with_suffix(".hea")).is_file() and path.name in header.read_text(errors="replace"):
        raise InputError(f"{path} belongs to the record {header.name}: give {header}")
    if b"MATLAB 7.3" in first_bytes(path, 64):
        found: dict[str, Any] = _of_hdf5(path)
    else:
        with reading(str(path), "a file of MATLAB"):
            found = scipy.io.loadmat(path)
            for name, value in found.items():
                if isinstance(value, scipy.sparse.spmatrix | scipy.sparse.sparray):
                    check_size(8 * math.prod(value.shape), f"{name} in {path}", "save fewer columns")
                    found[name] = value.toarray()
    arrays = {
        name: value for name, value in found.items() if not name.startswith("_") and isinstance(value, np.ndarray)
    }
    for _ in range(DEEPEST):
        structs = [name for name, value in arrays.items() if value.dtype.names]
        if len(structs) != 1 or any(value.size > 1 for value in arrays.values() if value.dtype.kind in "biuf"):
            break
        (name,) = structs
        struct = arrays.pop(name)
        if struct.size == 1:
            fields = {field: struct.ravel()[0][field] for field in struct.dtype.names or ()}
            arrays |= {field: value for field, value in fields.items() if isinstance(value, np.ndarray)}
        else:
            found = _fields(struct, name, [*labels])
            say(f"{path}: {name} is an array of {struct.size:,} structs, whose fields are read: {name_list([*found])}")
            arrays |= found
    cells = {name: value.ravel() for name, value in arrays.items() if _is_cell_array(value)}
    numbers = {name: value for name, value in arrays.items() if value.dtype.kind in "biuf"}
    return arrays, numbers, cells


def _is_cell_array(value: np.ndarray) -> bool:
    each = value.ravel() if value.dtype.kind == "O" else ()
    return len(each) > 0 and all(getattr(one, "ndim", 0) == 2 and one.dtype.kind in "biuf" for one in each)


def _fields(structs: np.ndarray, name: str, labels: list[str]) -> Arrays:
    """The fields of an array of structs: of a sample each, or, if they have a label for each row of a field, of these
    rows, with the number of their struct by its `name`."""
    fields = {field: [each[field] for each in structs.ravel()] for field in structs.dtype.names or ()}
    fields = {field: cells for field, cells in fields.items() if all(isinstance(cell, np.ndarray) for cell in cells)}
    rows = max(fields, key=lambda field: sum(cell.size for cell in fields[field]), default="")
    counts = [len(cell) for cell in fields.get(rows, [])]
    for field in fields.keys() - {rows}:
        if field.lower() in labels and max(counts) > 1 and [cell.size for cell in fields[field]] == counts:
            of = np.repeat(np.arange(len(counts)), counts)
            single = {key: _joined(cells) for key, cells in fields.items() if key not in (rows, field)}
            beside = {key: value[of] for key, value in single.items() if value is not None and value.ndim == 1}
            each = {rows: np.concatenate(fields[rows]), field: np.concatenate([x.ravel() for x in fields[field]])}
            return each | beside | {name: of + 1}
    joined = {field: _joined(cells) for field, cells in fields.items()}
    return {field: value for field, value in joined.items() if value is not None}


def _joined(cells: list[Any]) -> np.ndarray | None:
    """What structs have in a field, as one array: a number, a text, a row or an array each; or as a cell array of
    arrays of unequal shapes."""
    if all(cell.dtype.kind in "US" and cell.size <= 1 for cell in cells):
        return np.array([str(cell.ravel()[0]) if cell.size else "" for cell in cells])
    if not all(cell.dtype.kind in "biuf" and cell.ndim == 2 for cell in cells):
        return None
    if all(cell.shape[1] == 1 for cell in cells):
        cells = [cell.T for cell in cells]
    if len({cell.shape for cell in cells}) == 1:
        joined = np.stack(cells)
        return joined.reshape(len(cells)) if cells[0].size == 1 else joined
    found = np.empty(len(cells), object)
    found[:] = cells
    return found


def _of_hdf5(path: Path) -> Arrays:
    """Arrays of a file of MATLAB 7.3, with their axes as in MATLAB; structs as scipy gives them."""
    require("h5py", "omics", "reading files of MATLAB 7.3")
    import h5py

    def value_of(item: Any, deep: int) -> Any:
        if hasattr(item, "keys"):
            return _struct({name: item[name] for name in item}, deep) if deep else None
        kind = item.attrs.get("MATLAB_class", b"")
        if "MATLAB_empty" in item.attrs:
            return np.empty((0, 0), "U1" if kind == b"char" else float)
        if item.dtype == h5py.ref_dtype:
            references = item[()].T.ravel()
            cells = np.empty(len(references), object)
            cells[:] = [value_of(file[each], deep) for each in references]
            return cells
        if item.dtype.kind not in "biuf":
            return None
        check_size(item.size * item.dtype.itemsize, f"{item.name} in {path}", "save fewer rows")
        if kind == b"char":
            return np.array(["".join(map(chr, row)) for row in np.atleast_2d(item[()].T).tolist()])
        return item[()].T

    def _struct(fields: dict[str, Any], deep: int) -> np.ndarray:
        # Of an array of structs each field has references, of one struct with a cell array these are of the class cell.
        several = {
            field.size
            for field in fields.values()
            if getattr(field, "dtype", None) == h5py.ref_dtype and "MATLAB_class" not in field.attrs
        }
        values = {name: value_of(field, deep - 1) for name, field in fields.items()}
        found = np.empty((1, several.pop() if len(several) == 1 else 1), dtype=[(name, object) for name in values])
        for name, value in values.items():
            if found.size > 1:
                found[name][0] = value
            else:
                found[name][0, 0] = value
        return found

    with reading(str(path), "a file of MATLAB 7.3"), h5py.File(path, "r") as file:
        names = [name for name in file if not name.startswith("#")]
        values = {name: value_of(file[name], DEEPEST) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def channels_of(numbers: Arrays) -> tuple[np.ndarray, list[str]] | None:
    """The vectors of the same and largest length, of which there are several, as channels (channels, time), and their
    names without what all have; None where another array is larger."""
    longest = max((value.size for value in numbers.values()), default=0)
    vectors = {name: x for name, x in numbers.items() if x.size == longest and max(x.shape) == longest}
    if len(vectors) < 2 or not all(re.fullmatch(r"[A-Za-z]\w*", name) for name in vectors):
        return None
    parts = [name.split("_") for name in vectors]
    shared = set(parts[0]).intersection(*parts[1:])
    names = ["_".join(part for part in each if part not in shared) for each in parts]
    return np.stack([x.ravel() for x in vectors.values()]), names if all(names) else list(vectors)
