"""Reader of EDF and BDF files (EEG and other signals of clinics), by edfio."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, require
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, files_of, name_in, samples_of

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
    recordings = [_recording(file, name_in(path, file), label, wanted) for file, label in files]
    return samples_of(recordings, request, str(path), n_train=n_train, folder=path if path.is_dir() else None)


def _recording(file: Path, name: str, label: str | None, wanted: Collection[str] | None) -> Recording:
    from edfio import read_bdf, read_edf

    with reading(str(file), "an EDF or BDF file"):
        found = (read_bdf if file.suffix.lower() == ".bdf" else read_edf)(file)
        signals: list[Any] = list(found.signals)
        if wanted:
            named = [signal for signal in signals if signal.label in wanted]
            signals = named or signals
        rates = sorted({float(signal.sampling_frequency) for signal in signals})
        if not signals:
            raise InputError(f"{file} has no signals, only annotations")
        if len(rates) > 1:
            slow = [signal.label for signal in signals if signal.sampling_frequency == rates[0]]
            raise InputError(
                f"{file} has channels of {rates[0]:g} Hz ({name_list(slow)}) and of {rates[-1]:g} Hz, expected one "
                "rate: choose channels of one (--channels)"
            )
        x = np.stack([signal.data for signal in signals]).astype(np.float32)
    return Recording(x, name, rates[0], [signal.label for signal in signals], label)
