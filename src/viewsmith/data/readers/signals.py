"""Readers of recordings: sound, EDF and BDF (EEG), records of PhysioNet (WFDB), .ts of the UEA and UCR archives.

Those of instruments give the header of a file, and how points of its signals are read (`SignalFile`).
"""

import importlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, require, say, suggest, warn
from viewsmith.data.label_tables import ANNOTATIONS
from viewsmith.data.layouts import warn_like_labels
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.data.recordings import (
    OPTIONS,
    SOUNDS,
    Recording,
    SignalFile,
    files_of,
    name_in,
    points_of,
    samples_of,
    stay_on_disk,
)

of_signals = partial(reader, modality="series", options=OPTIONS, extra="signals")
SOUND, EDF = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif"), (".edf", ".bdf")
CLIPPED = 0.01  # of the points of a recording at full scale or nearly so, from which on it is named
FULL_SCALE = 0.999
FEWEST_POINTS = 8  # of a recording in a row of a table
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
    return Recording(
        SignalFile((about.channels, about.frames), partial(_sound_points, file)), "", float(about.samplerate)
    )


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
    require("edfio", "signals", "reading EDF and BDF files")
    wanted = request.channels or (request.schema or {}).get("signal", {}).get("channels")
    noted = request.or_fitted("label") == ANNOTATIONS
    notes = {} if path.is_file() else _notes(path, request)
    header = partial(_edf, wanted=wanted, notes=notes, noted=noted)
    return _samples(path, request, EDF, "an EDF or BDF file", header, parts=lambda file: notes.get(file, ()))


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


def _edf(file: Path, wanted: Collection[str] | None, notes: Mapping[Path, list[Path]], noted: bool) -> Recording:
    from edfio import read_bdf, read_edf

    def read(path: Path) -> Any:
        return (read_bdf if path.suffix.lower() == ".bdf" else read_edf)(path)

    found = read(file)
    signals: list[Any] = list(found.signals)
    if wanted:
        signals = [signal for signal in signals if signal.label in wanted] or signals
    rates = sorted({float(signal.sampling_frequency) for signal in signals})
    if not signals:
        raise InputError(f"{file} has no signals, only annotations: give the file with the signals, too")
    if len(rates) > 1:
        slow = [signal.label for signal in signals if signal.sampling_frequency == rates[0]]
        raise InputError(
            f"{file} has channels of {rates[0]:g} Hz ({name_list(slow)}) and of {rates[-1]:g} Hz, expected one "
            "rate: choose channels of one (--channels)"
        )
    shape = (len(signals), found.num_data_records * signals[0].samples_per_data_record)
    x = SignalFile(shape, partial(_edf_points, signals, rates[0]))
    noted_in = [found, *map(read, notes.get(file, ()))] if noted else []
    annotations = [
        (each.onset, None if each.duration is None else each.onset + each.duration, each.text)
        for part in noted_in
        for each in part.annotations
    ]
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


#: Steps of time that differ by less than the first are equal; by less than the second, as months do, they are in order.
EQUAL, ALIKE = 0.05, 0.2
GAP = 5  # steps, between whose ends nothing is interpolated
KEPT = 0.8  # of the points of most steps are kept: below that a rate is much lower
FILLED = 20  # places of equal steps for each moment, above which steps are too unequal


def recordings_of_table(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """The recordings of a table: a row each, or with a column of times or of names of recordings a row each moment."""
    time, name, label, group = (request.or_fitted(each) for each in ("time", "recording", "label", "groups"))
    options = {"time": time, "id": name, "label": label, "groups": None if group == "recording" else group}
    for option, column in options.items():
        if column is not None and column not in frame.columns:
            hint = suggest(column, list(frame.columns), "its columns are")
            raise InputError(f"{source_name} has no column {one_line(column, 60)!r}, given as {option}; {hint}")
    frame = frame.drop(columns=[column for column in request.drop if column in frame.columns])
    others = [column for column in frame.columns if column not in options.values()]
    text = [column for column in others if frame[column].dtype.kind not in "biuf"]
    # A row is a moment if it is said, or if windows have more points than there are columns.
    in_rows = time is not None or name is not None or frame.attrs.get("moments", False)
    if not in_rows:
        fitted = (request.schema or {}).get("signal", {})
        points = max(FEWEST_POINTS, fitted["points"] if fitted.get("step") else 0)
        if request.length not in (None, SOUNDS):
            points = max(points, points_of(str(request.length), request.rate, "length"))
        in_rows = len(others) - len(text) < points < len(frame)
    if not in_rows:
        recordings = _wide(frame, [each for each in others if each not in text], text, options, source_name)
    else:
        if text:
            warn(f"{source_name}: columns of text are no channels, left out: {name_list(text)}")
        channels = [column for column in others if column not in text]
        if not channels:
            raise InputError(
                f"{source_name} has no column of numbers beside {name_list([c for c in (time, name) if c])}"
            )
        warn_like_labels(frame, channels, request, source_name)
        recordings = by_moments(frame, channels, options, source_name, rate_of(request))
    found = samples_of(recordings, request, source_name)
    kept = {option: value for option, value in (("time", time), ("recording", name)) if value is not None}
    found.options.update(kept)
    found.table["drop"] = list(request.drop)
    return found


def _wide(
    frame: pd.DataFrame, points: list[str], text: list[str], options: dict[str, Any], source_name: str
) -> list[Recording]:
    """A recording of one channel in each row; what is missing at its end is after its end."""
    if text:
        has = f"column {text[0]} has" if len(text) == 1 else f"columns {name_list(text)} have"
        raise InputError(
            f"{source_name}: {has} text, expected points "
            "in time alone, a recording of one channel in each row; or a row for each moment, with --time COLUMN and "
            f"--id COLUMN: else leave them out (--drop {one_line(text[0], 40)})"
        )
    values = frame[points].to_numpy(np.float32)
    ends = np.where(np.isnan(values), 0, np.arange(1, len(points) + 1)).max(axis=1, initial=0)
    labels, groups = (None if options[o] is None else frame[options[o]].tolist() for o in ("label", "groups"))
    return [
        Recording(
            row[None, : max(end, 1)],
            str(i),
            label=None if labels is None else labels[i],
            group=None if groups is None else groups[i],
        )
        for i, (row, end) in enumerate(zip(values, ends.tolist(), strict=True))
    ]


def rate_of(request: DataOptions) -> float | None:
    """The rate that is given, or that of the data of a run."""
    return request.rate or (request.schema or {}).get("signal", {}).get("rate")


def in_order(frame: pd.DataFrame, columns: Sequence[str]) -> str | None:
    """The first of some columns whose numbers only rise or only fall, in at least ten rows; None if none does."""
    for name in columns if len(frame) >= 10 else ():
        steps = np.diff(frame[name].to_numpy(np.float64))
        if (steps > 0).all() or (steps < 0).all():
            return name
    return None


def by_moments(
    frame: pd.DataFrame,
    channels: list[str],
    options: dict[str, Any],
    source_name: str,
    given: float | None,
    told: bool = False,
) -> list[Recording]:
    """A row for each moment, in the order of time if there is a column of it; moments that are missing become NaN. Of
    unequal steps, values at the `given` rate are interpolated, which is said unless it is `told`."""
    time, name = options["time"], options["id"]
    moments, in_seconds = (None, False) if time is None else _seconds(frame[time], source_name)
    parts: list[tuple[Hashable, Any]] = [("0", frame)] if name is None else list(frame.groupby(name, sort=False))
    clocks = []
    for _, part in parts:
        clock = np.arange(len(part), dtype=float) if moments is None else moments[part.index].to_numpy()
        order = np.argsort(clock, kind="stable")
        clocks.append((order, clock[order]))
    steps = np.concatenate([np.diff(clock) for _, clock in clocks])
    if not len(steps):
        several = "several rows" if name is None else f"several rows with one {name}"
        raise InputError(f"{source_name} has one moment of each recording, expected {several}")
    step = float(np.median(steps))
    if given is None or step == 0:
        _check_once(parts, clocks, options, source_name)
    alike = bool((np.abs(steps / step - 1) < ALIKE).all())
    uneven = not alike and bool((np.abs(steps / step - np.round(steps / step)) > EQUAL).any())
    # Hardly any of equal steps would have a moment; steps may be multiples of one, in part of a day.
    sparse = not alike and bool(steps.sum() / step > FILLED * (1 if uneven else 10) * len(frame))
    uneven = uneven or sparse
    usual = 1 / (float(steps.mean()) if sparse else step)
    if uneven and (given is None or steps.sum() * given > 50 * FILLED * len(frame)):
        said = "" if given is None else f" at {given:g} points in a unit of time hardly any would have a moment, and"
        raise InputError(
            f"{source_name}: moments are {steps.min():g} to {steps.max():g} apart ({time}, mostly {step:g}),{said} "
            "expected equal steps, or multiples of them where moments are missing: give points in a unit of time, and "
            f"values are {'means and ' * sparse}interpolated (--rate {usual:.4g})"
        )
    equal = not alike or bool((np.abs(steps / step - 1) < EQUAL).all())
    rate = round(1 / step, 6) if in_seconds and equal else None
    if uneven and not told:
        say(f"{source_name}: unequal steps of {time}: values are interpolated, but for gaps of {GAP} steps")
    to_means = sparse and given is not None and given * step <= KEPT
    if not to_means:
        _check_once(parts, clocks, options, source_name)
    found = []
    for (each, part), (order, clock) in zip(parts, clocks, strict=True):
        values = part[channels].to_numpy(np.float32)[order]
        labels = None if options["label"] is None else part[options["label"]].to_numpy()[order]
        if uneven and given is not None:
            rate = given if to_means or given * step > KEPT else round(1 / step, 6)  # lower by a filter, later
            if to_means:
                clock, values, labels = _means(clock, values, labels, rate)
            values, at = _evened(clock, values, rate, GAP / rate if to_means else GAP * step)
            labels = None if labels is None else labels[np.searchsorted(clock, at)]
            places = np.arange(len(at))
        else:
            places = np.arange(len(clock)) if alike else np.round((clock - clock[0]) / step).astype(int)
        x = np.full((len(channels), int(places[-1]) + 1), np.nan, np.float32)
        x[:, places] = values.T
        group = _one_value(part, options["groups"], each, source_name)
        kinds = [] if labels is None else pd.unique(labels).tolist()
        notes = _runs(labels, places / (rate or 1)) if labels is not None and len(kinds) > 1 else []
        found.append(Recording(x, str(each), rate, channels, kinds[0] if len(kinds) == 1 else None, group, notes))
    return found


def _check_once(parts: Sequence[Any], clocks: Sequence[Any], options: dict[str, Any], source_name: str) -> None:
    """Raise InputError for two rows at one moment of a recording."""
    time, name = options["time"], options["id"]
    for (each, part), (order, clock) in zip(parts, clocks, strict=True):
        if (twice := np.diff(clock) == 0).any():
            raise InputError(
                f"{source_name}: recording {one_line(each, 40)!r} has two rows at {time} "
                f"{one_line(part[time].iloc[order[int(twice.argmax())]], 40)}, expected one for each moment"
                + ("; several recordings are told apart by --id COLUMN" if name is None else "")
            )


def _means(
    clock: np.ndarray, values: np.ndarray, labels: np.ndarray | None, rate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Moments of equal steps, the means of the values (moments, channels) near each, where there are some, and the
    first of their labels."""
    places, first, of = np.unique(np.round((clock - clock[0]) * rate), return_index=True, return_inverse=True)
    with np.errstate(invalid="ignore"):
        sums, counts = np.zeros((len(places), values.shape[1])), np.zeros((len(places), values.shape[1]))
        np.add.at(sums, of, np.nan_to_num(values))
        np.add.at(counts, of, ~np.isnan(values))
        means = (sums / counts).astype(np.float32)
    return clock[0] + places / rate, means, None if labels is None else labels[first]


def _evened(clock: np.ndarray, values: np.ndarray, rate: float, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Values (moments, channels) at equal steps, interpolated between their neighbors, missing in gaps; and the
    moments."""
    at = clock[0] + np.arange(int((clock[-1] - clock[0]) * rate) + 1) / rate
    at = np.minimum(at, clock[-1])  # which the last exceeds where it is rounded up
    after = np.searchsorted(clock, at).clip(1, len(clock) - 1)
    found = np.stack([np.interp(at, clock, each) for each in values.T], axis=1)
    inside = (clock[after] - clock[after - 1] > gap) & (at > clock[after - 1]) & (at < clock[after])
    found[inside] = np.nan
    return found, at


def _runs(labels: np.ndarray, times: np.ndarray) -> list[tuple[float, float | None, str]]:
    """Where labels of moments are the same: begin, end and label, as annotations; none where they are missing."""
    codes, names = pd.factorize(labels)  # -1: missing
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    ends = [*times[starts[1:]].tolist(), None]
    runs = zip(starts, ends, strict=True)
    return [(float(times[at]), end, str(names[codes[at]])) for at, end in runs if codes[at] >= 0]


SINCE_1970 = ((10**9, 1e17), (10**6, 1e14), (10**3, 1e11))  # units in a second, and the least number: 1973


def _seconds(column: Any, source_name: str) -> tuple[Any, bool]:
    """Times as numbers, and whether they are seconds: numbers, of which 0, 1, 2, ... count points, or dates, also as
    milliseconds since 1970."""
    if column.dtype.kind in "biuf":
        if column.isna().any():
            raise InputError(f"{source_name}: {int(column.isna().sum())} rows have no {column.name}, expected its time")
        counted = column.dtype.kind in "biu" or bool((column == column.round()).all())
        # Of numbers since 1970 the size tells the unit.
        since = next((unit for unit, least in SINCE_1970 if len(column) and column.min() >= least), 1)
        per_second = 1000 if str(column.name).lower().endswith("ms") else since
        return column / per_second, per_second != 1 or not counted
    try:
        dates = pd.to_datetime(column)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{source_name}: the times {one_line(column.name, 40)} are neither numbers nor dates "
            f"({one_line(error, 80)})"
        ) from error
    return (dates - dates.min()).dt.total_seconds(), True


def _one_value(part: Any, column: str | None, name: Any, source_name: str) -> Any:
    """What all rows of a recording have in a column."""
    if column is None:
        return None
    values = part[column].unique().tolist()
    if len(values) > 1:
        raise InputError(
            f"{source_name}: recording {one_line(name, 40)!r} has several values of {one_line(column, 40)}, such as "
            f"{one_line(values[0], 30)} and {one_line(values[1], 30)}, expected one for all of its rows"
        )
    return values[0]
