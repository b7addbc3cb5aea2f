"""Readers of arrays of MATLAB (.mat) and of ARFF files, by scipy."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, say
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.tables import table_rows
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, samples_of

RATES = ("fs", "srate", "samplingrate", "sampling_rate", "sfreq")


@reader(
    "mat",
    ".mat",
    help="arrays of MATLAB: X with y, or the largest one; with --modality series or --length recordings",
    noun="a .mat file",
    options=OPTIONS[:-1],
    example="emg.mat --length 2s --rate 1000",
)
def read_mat(path: Path, request: DataOptions) -> FileContents:
    """``X``, or the largest array of numbers, with ``y``; a cell array of recordings (channels, time)."""
    request.check_no_table_options(str(path), "labels are the array y")
    import scipy.io

    with path.open("rb") as file:
        if b"MATLAB 7.3" in file.read(64):
            raise InputError(f"{path} is a file of MATLAB 7.3 (HDF5): save it by save('x.mat', 'X', 'y', '-v7')")
    with reading(str(path), "a file of MATLAB"):
        found = scipy.io.loadmat(path)
    arrays = {
        name: value for name, value in found.items() if not name.startswith("_") and isinstance(value, np.ndarray)
    }
    cells = {name: value.ravel() for name, value in arrays.items() if _is_cell_array(value)}
    numbers = {name: value for name, value in arrays.items() if value.dtype.kind in "biuf"}
    large = {name: value for name, value in (numbers | cells).items() if name != "y" and value.size > 1}
    if structs := [name for name, value in arrays.items() if value.dtype.names and not large]:
        fields = name_list(list(arrays[structs[0]].dtype.names or ()))
        raise InputError(
            f"{path} has the struct {structs[0]} with {fields}, expected an array: save its field alone, "
            f"X = {structs[0]}.FIELD; save('x.mat', 'X')"
        )
    if not large:
        raise InputError(f"{path} has {name_list(list(arrays)) or 'nothing'}, expected an array of numbers, such as X")
    name = "X" if "X" in large else max(large, key=lambda each: _size(large[each]))
    if len(large) > 1 and name != "X":
        say(f"{path}: {name} is read, the largest of {name_list(list(large))}")
    y = np.asarray(arrays["y"]).ravel() if "y" in arrays else None
    if y is not None and y.dtype.kind == "O":
        y = np.array([str(np.asarray(each).ravel()[0]) for each in y])
    x, cut = large[name], request.length is not None or bool((request.schema or {}).get("signal"))
    rate = next((float(value.ravel()[0]) for key, value in numbers.items() if key.lower() in RATES), None)
    if name not in cells and not (request.modality == "series" or cut):
        if rate is None or request.modality is not None or not (x.ndim == 3 or (x.ndim == 2 and y is None)):
            return FileContents(x, y)
        say(f"{path}: {name} is read as recordings of {rate:g} points per second; else give --modality")
    return samples_of(_recordings(x, name, y, rate, str(path)), request, str(path))


def _is_cell_array(value: np.ndarray) -> bool:
    return value.dtype.kind == "O" and value.size > 0 and all(getattr(each, "ndim", 0) == 2 for each in value.ravel())


def _size(value: np.ndarray) -> int:
    return sum(each.size for each in value) if value.dtype.kind == "O" else value.size


def _recordings(x: Any, name: str, y: np.ndarray | None, rate: float | None, source_name: str) -> list[Recording]:
    """Recordings (channels, time): of one array the longer axis is time."""
    if x.dtype.kind == "O" or x.ndim == 3:
        each = [np.asarray(one, np.float32) for one in x]
    elif x.ndim == 2:
        each, y = [np.asarray(x if x.shape[0] <= x.shape[1] else x.T, np.float32)], None
    else:
        raise InputError(f"{source_name}: {name} has shape {x.shape}, expected (channels, time) or (n, channels, time)")
    if y is not None and len(y) != len(each):
        raise InputError(f"{source_name}: y has {len(y)} labels for {len(each)} recordings, expected one for each")
    return [
        Recording(one, name if len(each) == 1 else f"{name}:{i}", rate, label=None if y is None else y[i])
        for i, one in enumerate(each)
    ]


@reader(
    "arff",
    ".arff",
    help="tables of Weka and of the UCR archive; with --modality series a row is a recording",
    noun="an .arff table",
    table=True,
    example="OSULeaf.arff --modality series --label target",
)
def read_arff(path: Path, request: DataOptions) -> FileContents:
    """The attributes of an ARFF file as columns."""
    from scipy.io import arff

    with reading(str(path), "an ARFF file"):
        rows, attributes = arff.loadarff(path)
    if "relational" in attributes.types():
        raise InputError(
            f"{path} has recordings of several channels (a relational attribute), which are not read: give the .ts "
            "file of these data"
        )
    frame = pd.DataFrame(rows)
    text = frame.select_dtypes(object).columns
    decoded = {
        name: frame[name].map(lambda value: value.decode() if isinstance(value, bytes) else value) for name in text
    }
    return table_rows(frame.assign(**decoded), request, str(path))
