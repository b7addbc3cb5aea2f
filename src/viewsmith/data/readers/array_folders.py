"""Readers of folders of files that are a sample each: .npy files of images, recordings or vectors, and text tables of
which each is a recording, a row for each moment."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, quoted, say, suggest, warn
from viewsmith.data.image_files import OPTIONS as OF_IMAGES
from viewsmith.data.layouts import channel_column, names_of_times, warn_like_labels
from viewsmith.data.options import DataOptions
from viewsmith.data.places import ARRAYS, TEXT_TABLES
from viewsmith.data.readers.array_recordings import has_time, recording_of
from viewsmith.data.readers.arrays import OTHERS, read_set
from viewsmith.data.readers.folders import read_folder
from viewsmith.data.readers.moments import apart, by_moments, in_order, rate_of
from viewsmith.data.readers.spectra import read_spectra
from viewsmith.data.readers.text_tables import text_frame
from viewsmith.data.reading import FileContents, by_ending, reader, reading
from viewsmith.data.recording_files import files_of, name_in, stay_on_disk
from viewsmith.data.recordings import OPTIONS, Recording, samples_of
from viewsmith.data.text_lines import is_numeral, lines_of_text
from viewsmith.data.unread import Format, command, refuse_folder

#: Names of files that have all samples, or those of a split, beside which others have the labels.
OF_ALL = {each.lower() for name in ("X", "X_train") for each in (name, *OTHERS[name])}
#: What an array of a file may be, by its number of axes.
KINDS = {
    1: {"series": "a recording (time,)", "vectors": "a row of features (d,)"},
    2: {"images": "an image (H, W)", "series": "a recording (channels, time)"},
    3: {"images": "an image (H, W, C)"},
}


@reader(
    "arrays",
    in_folders=ARRAYS,
    help="a folder of .npy files that are a sample each: images, recordings or vectors; with labels by folders",
    noun="a folder of .npy files",
    options=tuple(dict.fromkeys((*OPTIONS, *OF_IMAGES, "cache"))),
    example="trials/ --modality series --rate 250",
)
def read_arrays_of_folder(path: Path, request: DataOptions) -> FileContents:
    """Images (n, H, W, C), recordings (n, channels, time) or vectors (n, d), in the order of the names of the files."""
    files, n_train = files_of(path, ARRAYS)
    here = [file for file, _ in files if file.parent == path]
    if len(here) > 1 and {file.stem.lower() for file in here} & OF_ALL:
        return read_set(path, here, request)
    with reading(str(files[0][0]), "an .npy file"):
        first = np.load(files[0][0], mmap_mode="r", allow_pickle=False)
    kind = "series" if has_time(request) else request.modality
    kinds = KINDS.get(first.ndim, {})
    if kind is None and len(kinds) == 1:
        (kind,) = kinds
    if kind not in kinds:
        flags = " or ".join(f"{what} (--modality {name})" for name, what in kinds.items())
        raise InputError(
            f"{path}: {name_in(path, files[0][0])} is {first.dtype} of shape {first.shape}, and the kind of data is "
            f"{kind or 'not given'}: expected " + (flags or "arrays of one to three axes")
        )
    if kind == "images":
        return read_folder(path, request)
    on_disk = stay_on_disk([file for file, _ in files], request)
    rows, recordings = [], []
    for file, label in files:
        with reading(str(file), "an .npy file"):
            x = np.load(file, mmap_mode="r" if on_disk and kind == "series" else None, allow_pickle=False)
        if x.ndim != first.ndim or x.dtype.kind not in "biuf" or (kind == "vectors" and x.shape != first.shape):
            raise InputError(
                f"{file} is {x.dtype} of shape {x.shape}, and {name_in(path, files[0][0])} {first.dtype} of "
                f"{first.shape}: expected numbers, with as many axes ({pluralize(first.ndim, 'axis', 'axes')})"
            )
        if kind == "vectors":
            rows.append(x)
        else:
            recordings.append(recording_of(x[None] if x.ndim == 1 else x, name_in(path, file), label))
    if kind == "series":
        return samples_of(recordings, request, str(path), n_train=n_train, folder=path)
    request.check_no_table_options(str(path), "labels are the names of folders")
    names, labels = [name_in(path, file) for file, _ in files], [label for _, label in files]
    y = None if labels[0] is None else np.array(labels)
    return FileContents(np.stack(rows), y, n_train, row_names=names)


@reader(
    "trials",
    in_folders=TEXT_TABLES,
    help="text tables that are a recording each, a row for each moment; with labels by folders or in a table of names",
    noun="a folder of text tables",
    modality=("series", "spectra"),
    options=(*OPTIONS, "time", "header", "encoding"),
    example="trials/ --modality series",
)
def read_trials(path: Path, request: DataOptions) -> FileContents:
    """Recordings (n, channels, time), of which the columns are channels; one that is named a time gives the rate."""
    if request.modality == "spectra":
        return read_spectra(path, request)
    files, n_train = files_of(path, TEXT_TABLES)
    if request.modality != "series":
        _refuse_other(path, [file for file, _ in files])
    train = {file for file, _ in files[:n_train]} if n_train is not None else None
    inner = any(file.parent != path for file, _ in files)  # then tables beside the folders are about the recordings
    files = [each for each in files if not (_is_about(each[0], request) or (inner and each[0].parent == path))]
    n_train = None if train is None else sum(file in train for file, _ in files)
    first, recordings, more, told = None, list[Recording](), set[str](), False
    for file, label in files:
        frame, options = text_frame(file, request)
        if first is None:
            request = replace(request, header=options.get("header", "yes"))  # as that of the first file, which says it
            first = _columns_of(frame, file, request)
        frame = _with_names_of(first, frame)
        more |= {*frame.columns} - {*first.names}
        wanted = (*first.channels, first.time, first.kind)
        if absent := [name for name in wanted if name is not None and name not in frame.columns]:
            raise InputError(
                f"{path}: {name_in(path, file)} has no column {name_list(absent)}, which {name_in(path, files[0][0])} "
                f"has: expected tables with equal columns; --drop {quoted(one_line(absent[0], 40))} leaves it out"
            )
        columns, own = {"id": None, "groups": None, "time": first.time, "label": first.label}, first.channels
        if first.kind is not None:
            frame, own = apart(frame, own, first.kind, columns)
        elif not told:
            told = warn_like_labels(frame, own, request, str(file))
        rate, several = rate_of(request), first.kind is not None
        (found,) = by_moments(frame, own, columns, str(file), rate, told=bool(recordings), apart=several)
        recordings.append(replace(found, name=name_in(path, file), label=found.label if first.label else label))
    if first is None:
        raise InputError(f"{path} has tables about recordings, and no recording: expected one table for each")
    if request.schema is None:
        of = "the columns" if first.kind is None else f"named by {first.kind},"
        say(f"{path}: {len(recordings):,} recordings, whose channels are {of} {name_list(own)}")
    if first.texts:
        warn(f"{path}: columns of text are no channels, left out: {name_list(sorted(first.texts))}")
    if more:
        warn(f"{path}: columns that {name_in(path, files[0][0])} does not have are left out: {name_list(sorted(more))}")
    made = samples_of(recordings, request, str(path), n_train=n_train, folder=path)
    kept = {"header": request.header, "time": first.time, "encoding": options.get("encoding")}
    made.table["drop"] = first.left_out
    return replace(made, options=made.options | {name: value for name, value in kept.items() if value is not None})


def _refuse_other(path: Path, files: list[Path]) -> None:
    """Refuse a folder of which is not said that its tables are recordings."""
    try:
        refuse_folder(path, by_ending())
    except InputError as error:
        if " texts, whose words" in str(error) or ", a file for each of " in str(error):
            raise
        raise InputError(
            f"{error}; if each is a recording, a row for each moment: --modality series; a spectrum: --modality "
            f"spectra{_joining(path, files)}"
        ) from error


@dataclass(frozen=True)
class _Columns:
    """What the columns of the first table of a folder are; the others have the same."""

    names: list[str]
    channels: list[str]
    left_out: list[str]
    texts: set[str]  # are no channels
    time: str | None
    label: str | None
    kind: str | None  # names the channel of each row


def _columns_of(frame: pd.DataFrame, file: Path, request: DataOptions) -> _Columns:
    """What the columns of a table are."""
    names, time, label = list(frame.columns), request.or_fitted("time"), request.or_fitted("label")
    if time is not None and time not in names:
        raise InputError(
            f"{file} has no column {one_line(time, 60)!r}, given as time; {suggest(time, names, 'its columns are')}"
        )
    time, label = time or next(iter(names_of_times(frame.columns)), None), label if label in names else None
    left_out = list((request.schema or {}).get("drop", request.drop))
    texts = {name for name in names if frame[name].dtype.kind not in "biuf"} - {time}
    channels = [name for name in names if name not in {*texts, *left_out, time, label}]
    kind = channel_column(frame, [*channels, *sorted(texts - {label, *left_out})], time, None)
    channels = [name for name in channels if name != kind]
    if not channels:
        raise InputError(f"{file} has no column of numbers, expected some: each is a channel of the recording")
    if time is None and len(channels) > 1 and (ordered := in_order(frame, channels)) is not None:
        warn(
            f"{file}: column {ordered} is in order in all {len(frame):,} rows, as times and wave numbers are, "
            f"and is taken as a channel: if it is one of these, --time {quoted(one_line(ordered, 40))}"
        )
    return _Columns(names, channels, left_out, texts - {kind, label}, time, label, kind)


def _with_names_of(first: _Columns, frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns have the names of the first one's, from which they may differ in case and blanks."""
    by_case = {name.strip().lower(): name for name in first.names}
    if len(by_case) < len(first.names) or {*first.names} <= {*frame.columns}:
        return frame
    return frame.rename(columns={name: by_case.get(name.strip().lower(), name) for name in frame.columns})


_PARTS = Format(  # with the name of the file of each row
    "",
    "import pandas as pd, pathlib; pd.concat([pd.read_csv(f, sep=SEP).assign(file=f.stem) for f in "
    "sorted(pathlib.Path({path}).rglob('*{key}'))]).to_csv({out}, index=False)",
    suffix="_whole.csv",
    options=" --groups file",
)


def _joining(folder: Path, files: list[Path]) -> str:
    """The line that makes one table of the files of a folder, whose first ones have the same names of columns."""
    tables = [lines_of_text(file) for file in files[:2]]
    names = [table.rows[0] for table in tables if table is not None and table.rows]
    if len(names) < 2 or names[0] != names[1] or any(map(is_numeral, names[0])):
        return ""
    separator = next(table.separator for table in tables if table is not None)
    code = _PARTS.code.replace("SEP", repr(separator))
    return f"; parts of one table: {command(folder, replace(_PARTS, code=code), files[0].suffix)}"


def _is_about(file: Path, request: DataOptions) -> bool:
    """Whether a file of the folder is the table of labels, or a text about the data."""
    return file.stem.lower() == "readme" or (request.labels is not None and file.samefile(request.labels))
