"""Reader of EDF and BDF files (EEG and other signals of clinics), by edfio."""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, require
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, SignalFile, files_of, name_in, samples_of, stay_on_disk

ENDINGS = (".edf", ".bdf")


@reader(
    "edf",
    *ENDINGS,
    in_folders=ENDINGS,
    help="EEG and other signals in EDF, EDF+ and BDF files, in their physical units",
    noun="an EDF or BDF file",
    modality="series",
    options=OPTIONS,
    extra="signals",
    example="night.edf --length 30s --channels Fpz-Cz,Pz-Oz",
)
def read_edf(path: Path, request: DataOptions) -> FileContents:
    """Signals as recordings (n, channels, time) in physical units; annotations are no channels."""
    require("edfio", "signals", "reading EDF and BDF files")
    files, n_train = files_of(path, ENDINGS)
    wanted = request.channels or (request.schema or {}).get("signal", {}).get("channels")
    on_disk = stay_on_disk([file for file, _ in files], request)
    recordings = [_recording(file, name_in(path, file), label, wanted, on_disk) for file, label in files]
    return samples_of(recordings, request, str(path), n_train=n_train, folder=path if path.is_dir() else None)


def _recording(file: Path, name: str, label: str | None, wanted: Collection[str] | None, on_disk: bool) -> Recording:
    from edfio import read_bdf, read_edf

    with reading(str(file), "an EDF or BDF file"):
        found = (read_bdf if file.suffix.lower() == ".bdf" else read_edf)(file)
        signals: list[Any] = list(found.signals)
        if wanted:
            named = [signal for signal in signals if signal.label in wanted]
            signals = named or signals
        rates = sorted({float(signal.sampling_frequency) for signal in signals})
        if not signals:
            raise InputError(f"{file} has no signals, only annotations: give the file with the signals, too")
        if len(rates) > 1:
            slow = [signal.label for signal in signals if signal.sampling_frequency == rates[0]]
            raise InputError(
                f"{file} has channels of {rates[0]:g} Hz ({name_list(slow)}) and of {rates[-1]:g} Hz, expected one "
                "rate: choose channels of one (--channels)"
            )
        read, length = partial(_part, file, signals), found.num_data_records * signals[0].samples_per_data_record
        x = SignalFile((len(signals), length), read) if on_disk else read(0, length)
    return Recording(x, name, rates[0], [signal.label for signal in signals], label)


def _part(file: Path, signals: Sequence[Any], start: int, stop: int) -> np.ndarray:
    """Points of all signals of an open file, of which no more is read."""
    with reading(str(file), "an EDF or BDF file"):
        rate = float(signals[0].sampling_frequency)
        return np.stack([signal.get_data_slice(start / rate, stop / rate) for signal in signals]).astype(np.float32)
