"""Reader of records of PhysioNet (WFDB): a header .hea with its signals, by the library of that name."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, files_of, name_in, samples_of


@reader(
    "wfdb",
    ".hea",
    in_folders=(".hea",),
    help="records of PhysioNet (WFDB): a header with its signals, in their physical units",
    noun="a WFDB record",
    modality="series",
    options=OPTIONS,
    extra="signals",
    example="mitdb/ --length 2s --step 1s --groups recording",
)
def read_wfdb(path: Path, request: DataOptions) -> FileContents:
    """Signals as recordings (n, channels, time) in physical units, NaN where they are not valid."""
    require("wfdb", "signals", "reading WFDB records")
    files, n_train = files_of(path, (".hea",))
    recordings = [_recording(file, name_in(path, file), label) for file, label in files]
    return samples_of(recordings, request, str(path), n_train=n_train, folder=path if path.is_dir() else None)


def _recording(file: Path, name: str, label: str | None) -> Recording:
    library: Any = importlib.import_module("wfdb")
    with reading(str(file), "a WFDB record"):
        record = library.rdrecord(str(file.with_suffix("")))
        if record.p_signal is None:
            raise InputError(f"{file} has no signals, expected a record with them")
        x = np.ascontiguousarray(record.p_signal.T, dtype=np.float32)
    return Recording(x, name.removesuffix(file.suffix), float(record.fs), list(record.sig_name), label)
