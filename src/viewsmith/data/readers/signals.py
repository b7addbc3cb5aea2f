"""Readers of recordings: sound, EDF and BDF (EEG), records of PhysioNet (WFDB), .ts of the UEA and UCR archives.

Those of instruments give the header of a file, and how points of its signals are read (`SignalFile`).
"""

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, quoted, require, say, warn
from viewsmith.data.event_tables import ANNOTATIONS
from viewsmith.data.options import DataOptions
from viewsmith.data.places import first_bytes
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.data.recording_files import files_of, name_in, stay_on_disk
from viewsmith.data.recordings import OPTIONS, Recording, SignalFile, channel_place, samples_of
from viewsmith.data.unread import command, named

of_signals = partial(reader, modality="series", options=OPTIONS, extra="signals")
SOUND, EDF = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif"), (".edf", ".bdf")
CLIPPED = 0.01  # of the points of a recording at full scale or nearly so, from which on it is named
FULL_SCALE = 0.999
ALIKE_NAMES = 4  # letters, in which the names of a recording and its annotations begin alike


def _samples(
    path: Path,
    request: DataOptions,
    endings: Sequence[str],
    noun: str,
    header: Callable[[Path], Recording],
    *,
    stored: Callable[[Path], list[Path]] = lambda file: [file],
    parts: Callable[[Path], Collection[Path]] = lambda file: (),
    sound: bool = False,
) -> FileContents:
    """Recordings by their headers as samples; they stay in their files, of which `stored` has the numbers, if these are
    large. Files that are `parts` of another one are read with that alone."""
    replace(request, label=None).check_no_table_options(str(path))
    files, n_train = files_of(path, endings)
    held = {part for file, _ in files for part in parts(file)}
    n_train = None if n_train is None else sum(file not in held for file, _ in files[:n_train])
    files = [each for each in files if each[0] not in held]
    on_disk = stay_on_disk([each for file, _ in files for each in stored(file)], request)
    recordings = []
    for file, label in files:
        with reading(str(file), noun):
            found = header(file)
            x = replace(found.x, read=partial(_points, found.x.read, file, noun))
            x = x if on_disk else x.read(0, x.shape[1])
        recordings.append(replace(found, x=x, name=name_in(path, file).removesuffix(".hea"), label=label))
    if sound and not on_disk:
        _check_silent_or_clipped(recordings, request, str(path))
    folder = path if path.is_dir() else None
    return samples_of(recordings, request, str(path), sound=sound, n_train=n_train, folder=folder)


def _points(read: Callable[[int, int], np.ndarray], file: Path, noun: str, start: int, stop: int) -> np.ndarray:
    with reading(str(file), noun):
        return read(start, stop)


@of_signals(
    "sound",
    *SOUND,
    in_folders=SOUND,
    help="sound files; of a folder with labels by folders or in a table of file names",
    noun="sound",
    example="words/ --label digit --groups speaker --split-groups",
)
def read_sound(path: Path, request: DataOptions) -> FileContents:
    """Sound as recordings (n, channels, time), full scale is 1; log-mel features are chosen for it."""
    require("soundfile", "signals", "reading sound files")
    return _samples(path, request, SOUND, "a sound file", _sound, sound=True)


def _sound(file: Path) -> Recording:
    import soundfile

    about = soundfile.info(file)
    x = SignalFile((about.channels, about.frames), partial(_sound_points, file))
    return Recording(x, "", float(about.samplerate))


def _sound_points(file: Path, start: int, stop: int) -> np.ndarray:
    import soundfile

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


@of_signals(
    "edf",
    *EDF,
    in_folders=EDF,
    help="EEG and other signals in EDF, EDF+ and BDF files, in their physical units",
    noun="an EDF or BDF file",
    example="night.edf --length 30s --channels Fpz-Cz,Pz-Oz",
)
def read_edf(path: Path, request: DataOptions) -> FileContents:
    """Signals as recordings (n, channels, time) in physical units; annotations are no channels."""
    _refuse_frames(path)
    require("edfio", "signals", "reading EDF and BDF files")
    wanted = request.channels or (request.schema or {}).get("signal", {}).get("channels")
    noted = request.or_fitted("label") == ANNOTATIONS
    notes = {} if path.is_file() else _notes(path, request)
    told = set() if request.schema is None and request.label is None else {ANNOTATIONS}
    header = partial(_edf, wanted=wanted, notes=notes, noted=noted, told=told)
    return _samples(path, request, EDF, "an EDF or BDF file", header, parts=lambda file: notes.get(file, ()))


def _refuse_frames(path: Path) -> None:
    """Raise InputError for frames of a detector of X-rays, which have the same ending as recordings, with the line that
    converts them."""
    first = path if path.is_file() else next((file for file, _ in files_of(path, EDF)[0]), None)
    if first is not None and first_bytes(first, 1) == b"{":
        form = named("frames")
        line = command(path, replace(form, code=form.code.replace("{suffix}", first.suffix)))
        raise InputError(f"{first} is {form.what}: {line}")


def _notes(folder: Path, request: DataOptions) -> dict[Path, list[Path]]:
    """Files that have annotations alone, by the recording whose name begins as theirs, as in Sleep-EDF."""
    files = [file for file, _ in files_of(folder, EDF)[0]]
    alone = [file for file in files if _only_annotations(file)]
    found: dict[Path, list[Path]] = {}
    for file in alone:
        beside = [other for other in files if other not in alone and other.parent == file.parent]
        alike = [[one == other for one, other in zip(file.name, each.name, strict=False)] for each in beside]
        sizes = [(*each, False).index(False) for each in alike]
        best = [other for other, size in zip(beside, sizes, strict=True) if size == max(sizes) >= ALIKE_NAMES]
        if len(best) == 1:
            found.setdefault(best[0], []).append(file)
    if found and request.or_fitted("label") is None:
        first, (note, *_) = next(iter(found.items()))
        say(f"{folder}: {note.name} has annotations of {first.name}: --label annotations makes them the labels")
    return found


def _only_annotations(file: Path) -> bool:
    """Whether the header of an EDF file names no signal."""
    with file.open("rb") as opened:
        start = opened.read(256)
        number = int(start[252:].strip() or b"0") if start[252:].strip().isdigit() else 0
        labels = opened.read(16 * number)
    return number > 0 and all(
        labels[16 * i : 16 * i + 16].strip() in (b"EDF Annotations", b"BDF Annotations") for i in range(number)
    )


def _edf(
    file: Path, wanted: Collection[str] | None, notes: Mapping[Path, list[Path]], noted: bool, told: set[str]
) -> Recording:
    from edfio import read_bdf, read_edf

    def read(path: Path) -> Any:
        return (read_bdf if path.suffix.lower() == ".bdf" else read_edf)(path)

    found = read(file)
    signals: list[Any] = list(found.signals)
    names = [str(signal.label) for signal in signals]
    if wanted:
        places = {channel_place(str(channel), names) for channel in wanted}
        signals = [signal for i, signal in enumerate(signals) if i in places] or signals
    rates = sorted({float(signal.sampling_frequency) for signal in signals})
    if not signals:
        raise InputError(f"{file} has no signals, only annotations: give the file with the signals, too")
    if len(rates) > 1:
        of = [signal.sampling_frequency for signal in signals]
        rates = [max(rates, key=lambda rate: (of.count(rate), rate))]
        other = [signal for signal in signals if signal.sampling_frequency != rates[0]]
        said = name_list([f"{signal.label} ({signal.sampling_frequency:g} Hz)" for signal in other], 8)
        if wanted:
            alike = ",".join(str(signal.label) for signal in signals if signal not in other)
            raise InputError(
                f"{file} has channels of several rates, {rates[0]:g} Hz and {said}, expected one rate: choose them by "
                f"their names (--channels {quoted(one_line(alike, 200))})"
            )
        if said not in told:
            told.add(said)
            warn(f"{file}: channels of {rates[0]:g} Hz are taken, and others are left out, {said}: --channels chooses")
        signals = [signal for signal in signals if signal not in other]
    shape = (len(signals), found.num_data_records * signals[0].samples_per_data_record)
    x = SignalFile(shape, partial(_edf_points, signals, rates[0]))
    noted_in = [found, *map(read, notes.get(file, ()))] if noted else []
    annotations = [
        (each.onset, each.onset + (each.duration or 0), each.text) for part in noted_in for each in part.annotations
    ]
    if ANNOTATIONS not in told and len(kinds := sorted({each.text for each in found.annotations})) > 1:
        told.add(ANNOTATIONS)
        say(f"{file} has annotations, {name_list(kinds, 3)}: --label annotations makes them the labels")
    return Recording(x, "", rates[0], [signal.label for signal in signals], annotations=annotations)


def _edf_points(signals: Sequence[Any], rate: float, start: int, stop: int) -> np.ndarray:
    """Points of all signals of an open file, of which no more is read."""
    return np.stack([signal.get_data_slice(start / rate, stop / rate) for signal in signals]).astype(np.float32)


@of_signals(
    "wfdb",
    ".hea",
    in_folders=(".hea",),
    help="records of PhysioNet (WFDB): a header with its signals, in their physical units",
    noun="a WFDB record",
    example="mitdb/ --length 2s --step 1s --groups recording",
)
def read_wfdb(path: Path, request: DataOptions) -> FileContents:
    """Signals as recordings (n, channels, time) in physical units, NaN where they are not valid."""
    require("wfdb", "signals", "reading WFDB records")
    header = partial(_wfdb, noted=request.or_fitted("label") == ANNOTATIONS)
    return _samples(path, request, (".hea",), "a WFDB record", header, stored=_files_of_record, parts=_segments)


def _segments(header: Path) -> list[Path]:
    """Headers of the segments of a record of several, whose first line is NAME/NUMBER."""
    lines = [line.split() for line in header.read_text(errors="replace").splitlines() if line[:1] not in ("", "#")]
    several = bool(lines) and "/" in lines[0][0]
    return [header.with_name(f"{line[0]}.hea") for line in lines[1:] if several and line[0] != "~"]


def _files_of_record(file: Path) -> list[Path]:
    return [each for each in file.parent.glob(f"{file.stem}*") if each.suffix != ".atr"]


def _wfdb(file: Path, noted: bool) -> Recording:
    library: Any = importlib.import_module("wfdb")
    header = library.rdheader(str(file.with_suffix("")))
    if not header.n_sig:
        raise InputError(f"{file} has no signals, expected a record with them")
    segments = [f"{name}.hea" for name in getattr(header, "seg_name", None) or () if name != "~"]
    named = dict.fromkeys([*(getattr(header, "file_name", None) or ()), *segments])
    if absent := [name for name in named if name != "~" and not (file.parent / name).is_file()]:
        raise InputError(f"{file}: its files {name_list(absent)} are not beside it: put them there")
    if header.sig_len is None:
        points = library.rdrecord(str(file.with_suffix(""))).sig_len
        raise InputError(
            f"{file} has no number of samples, without which parts are not read: end its first line by {points}"
        )
    x = SignalFile((int(header.n_sig), int(header.sig_len)), partial(_wfdb_points, library, file))
    annotations = []
    if noted and file.with_suffix(".atr").is_file():  # rhythms, which last until the next one
        found = library.rdann(str(file.with_suffix("")), "atr")
        texts = [text.strip("\0( ") for text in found.aux_note]
        places = zip(found.sample.tolist(), texts, strict=True)
        annotations = [(place / header.fs, None, text) for place, text in places if text]
    return Recording(x, "", float(header.fs), list(header.sig_name or ()), annotations=annotations)


def _wfdb_points(library: Any, file: Path, start: int, stop: int) -> np.ndarray:
    record = library.rdrecord(str(file.with_suffix("")), sampfrom=start, sampto=stop)
    return np.ascontiguousarray(record.p_signal.T, dtype=np.float32)


def _of_archive(path: Path) -> bool:
    """Whether a text file is a split of a data set of the UCR archive: lines of numbers without a header, the class
    first, in a file NAME_TRAIN or NAME_TEST; or a folder has one."""
    if path.is_dir():
        return any(map(_of_archive, path.glob("*_TRAIN.t*")))
    if not (path.stem.endswith(("_TRAIN", "_TEST")) and path.suffix in (".tsv", ".txt") and path.is_file()):
        return False
    with path.open("rb") as file:
        cells = file.readline().split()
    try:
        return len([float(cell) for cell in cells]) > 1
    except ValueError:
        return False


@reader(
    "ts",
    ".ts",
    in_folders=(".ts",),
    help="series of the UEA and UCR archives, also NAME_TRAIN.tsv and .txt; of a folder NAME_TRAIN.ts and NAME_TEST.ts",
    noun="a .ts file",
    modality="series",
    options=OPTIONS[:-1],
    recognizes=_of_archive,
    example="JapaneseVowels/",
)
def read_ts(path: Path, request: DataOptions) -> FileContents:
    """Series as recordings (n, channels, time) with their classes; files _TRAIN and _TEST of a folder are the split."""
    request.check_no_table_options(str(path), "the labels are in the file (@classLabel)")
    if path.is_file():
        return samples_of(_series(path), request, str(path))
    files = sorted(path.glob("*.ts")) or sorted(filter(_of_archive, path.glob("*_T*.tsv")))
    files = files or sorted(filter(_of_archive, path.glob("*_T*.txt")))
    train = [file for file in files if file.stem.upper().endswith("_TRAIN")]
    test = [file for file in files if file.stem.upper().endswith("_TEST")]
    if len(files) == 1:
        return samples_of(_series(files[0]), request, str(path))
    if len(train) != 1 or len(test) != 1 or len(files) != 2:
        names = ", ".join(file.name for file in files[:4]) or "none"
        raise InputError(
            f"{path} has the files {names}, expected one, or NAME_TRAIN.ts with NAME_TEST.ts: give one of them"
        )
    first = _series(train[0])
    return samples_of([*first, *_series(test[0])], request, str(path), n_train=len(first))


def _series(file: Path) -> list[Recording]:
    """The series of a file: channels are separated by colons, values by commas, the class comes last."""
    if file.suffix != ".ts":
        return _archived(file)
    with reading(str(file), "a .ts file"):
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    header: dict[str, list[str]] = {}
    found: list[Recording] = []
    begun = False
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not begun:
            if not text.startswith("@"):
                raise InputError(f"{file}: line {number} is {one_line(repr(text), 60)}, expected a header line of '@'")
            name, *values = text[1:].split()
            begun = name.lower() == "data"
            header[name.lower()] = values
            continue
        found.append(_of_line(text, header, file, number, len(found)))
    if not begun:
        raise InputError(f"{file} has no line @data, expected a .ts file of the UEA archive")
    return found


def _archived(file: Path) -> list[Recording]:
    """The series of lines of numbers, with the class first and NaN after the end of a shorter series."""
    with reading(str(file), "lines of numbers"):
        rows = [np.array(line.split(), np.float64) for line in file.read_text(encoding="utf-8-sig").splitlines()]
    ends = [2 + int(np.flatnonzero(np.isfinite(row[1:])).max(initial=-1)) for row in rows]
    return [
        Recording(row[None, 1:end].astype(np.float32), f"{file.stem}:{i}", label=f"{row[0]:g}")
        for i, (row, end) in enumerate(zip(rows, ends, strict=True))
        if len(row)
    ]


def _of_line(text: str, header: dict[str, list[str]], file: Path, number: int, index: int) -> Recording:
    if header.get("timestamps", ["false"])[0].lower() == "true":
        raise InputError(f"{file} has time stamps, expected values at equal steps: leave the time stamps out")
    parts = text.split(":")
    named = header.get("classlabel", header.get("targetlabel", ["false"]))[0].lower() == "true"
    label = parts.pop().strip() if named else None
    try:
        channels = [np.array([np.nan if v.strip() == "?" else float(v) for v in part.split(",")]) for part in parts]
    except ValueError as error:
        what = one_line(str(error).rpartition(": ")[2], 60)
        raise InputError(f"{file}: line {number} has {what}, expected numbers, separated by ','") from error
    lengths = sorted({len(channel) for channel in channels})
    if len(lengths) > 1:
        raise InputError(
            f"{file}: line {number} has channels of {lengths[0]:,} and {lengths[-1]:,} values, expected one length of "
            "all channels of a recording: fill the end with ?"
        )
    x = np.stack(channels).astype(np.float32)
    value = float(label) if label is not None and "targetlabel" in header else label
    return Recording(x, f"{file.stem}:{index}", label=value)
