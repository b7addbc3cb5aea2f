"""Reader of records of PhysioNet (WFDB): a header .hea with its signals, by the library of that name."""

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, require
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, SignalFile, files_of, name_in, samples_of, stay_on_disk


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
    signals = [each for file, _ in files for each in file.parent.glob(f"{file.stem}*") if each.suffix != ".atr"]
    on_disk = stay_on_disk(signals, request)
    recordings = [_recording(file, name_in(path, file), label, on_disk) for file, label in files]
    return samples_of(recordings, request, str(path), n_train=n_train, folder=path if path.is_dir() else None)


def _recording(file: Path, name: str, label: str | None, on_disk: bool) -> Recording:
    library: Any = importlib.import_module("wfdb")
    with reading(str(file), "a WFDB record"):
        header = library.rdheader(str(file.with_suffix("")))
        if not header.n_sig:
            raise InputError(f"{file} has no signals, expected a record with them")
        named = dict.fromkeys(getattr(header, "file_name", None) or ())
        absent = [name for name in named if not (file.parent / name).is_file()]
        if absent:
            raise InputError(f"{file}: its signals, {name_list(absent)}, are not beside it: put them there")
        length, channels = int(header.sig_len), list(header.sig_name or ())
        x = SignalFile((int(header.n_sig), length), partial(_part, file)) if on_disk else _part(file, 0, length)
    return Recording(x, name.removesuffix(file.suffix), float(header.fs), channels, label)


def _part(file: Path, start: int, stop: int) -> np.ndarray:
    library: Any = importlib.import_module("wfdb")
    with reading(str(file), "a WFDB record"):
        record = library.rdrecord(str(file.with_suffix("")), sampfrom=start, sampto=stop)
    return np.ascontiguousarray(record.p_signal.T, dtype=np.float32)
