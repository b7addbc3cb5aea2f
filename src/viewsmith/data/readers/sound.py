"""Reader of sound files, alone or in folders, by soundfile."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize, require, warn
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, SignalFile, files_of, name_in, samples_of, stay_on_disk

CLIPPED = 0.01  # of the points of a recording at full scale or nearly so, from which on it is named
FULL_SCALE = 0.999

ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif")


@reader(
    "sound",
    *ENDINGS,
    in_folders=ENDINGS,
    help="sound files; of a folder with labels by folders or in a table of file names",
    noun="sound",
    modality="series",
    options=OPTIONS,
    extra="signals",
    example="words/ --label digit --groups speaker --split-groups",
)
def read_sound(path: Path, request: DataOptions) -> FileContents:
    """Sound as recordings (n, channels, time), full scale is 1; log-mel features are chosen for it."""
    require("soundfile", "signals", "reading sound files")
    import soundfile

    files, n_train = files_of(path, ENDINGS)
    recordings, on_disk = [], stay_on_disk([file for file, _ in files], request)
    for file, label in files:
        with reading(str(file), "a sound file"):
            if on_disk:
                about = soundfile.info(file)
                x: Any = SignalFile((about.channels, about.frames), partial(_part, file))
                rate = about.samplerate
            else:
                found, rate = soundfile.read(file, dtype="float32", always_2d=True)
                x = found.T
        recordings.append(Recording(x, name_in(path, file), float(rate), label=label))
    if not on_disk:
        _check_silent_or_clipped(recordings, request, str(path))
    folder = path if path.is_dir() else None
    return samples_of(recordings, request, str(path), sound=True, n_train=n_train, folder=folder)


def _part(file: Path, start: int, stop: int) -> np.ndarray:
    import soundfile

    with reading(str(file), "a sound file"):
        return np.asarray(soundfile.read(file, stop - start, start, dtype="float32", always_2d=True)[0].T)


def _check_silent_or_clipped(recordings: list[Recording], request: DataOptions, source_name: str) -> None:
    held = [each for each in recordings if each.x.size]  # what is empty has a line of its own
    silent = [each.name for each in held if not each.x.any()]
    if silent and len(silent) == len(held) and request.schema is None:
        what = "the file is" if len(silent) == 1 else f"all {len(silent):,} files are"
        raise InputError(
            f"{source_name}: {what} without sound (all zeros), expected sound that varies: record it again"
        )
    clipped = [each.name for each in held if (np.abs(each.x) >= FULL_SCALE).mean() > CLIPPED]
    for names, what in ((silent, "without sound (all zeros)"), (clipped, "clipped at full scale")):
        if names:
            warn(f"{source_name}: {pluralize(len(names), 'file')} {what}: {name_list(names, 5)}")
