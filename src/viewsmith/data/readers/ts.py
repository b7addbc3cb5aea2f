"""Reader of .ts files of the UEA and UCR archives: series of one or several channels, of equal or unequal length."""

from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, one_line
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.recordings import OPTIONS, Recording, samples_of


@reader(
    "ts",
    ".ts",
    in_folders=(".ts",),
    help="series of the UEA and UCR archives; of a folder NAME_TRAIN.ts and NAME_TEST.ts",
    noun="a .ts file",
    modality="series",
    options=OPTIONS[:-1],
    example="JapaneseVowels/",
)
def read_ts(path: Path, request: DataOptions) -> FileContents:
    """Series as recordings (n, channels, time) with their classes; files _TRAIN and _TEST of a folder are the split."""
    request.check_no_table_options(str(path), "the labels are in the file (@classLabel)")
    if path.is_file():
        return samples_of(_series(path), request, str(path))
    files = sorted(path.glob("*.ts"))
    train = [file for file in files if file.stem.upper().endswith("_TRAIN")]
    test = [file for file in files if file.stem.upper().endswith("_TEST")]
    if len(files) == 1:
        return samples_of(_series(files[0]), request, str(path))
    if len(train) != 1 or len(test) != 1 or len(files) != 2:
        names = ", ".join(file.name for file in files[:4]) or "none"
        raise InputError(
            f"{path} has the .ts files {names}, expected one, or NAME_TRAIN.ts with NAME_TEST.ts: give one of them"
        )
    first = _series(train[0])
    return samples_of([*first, *_series(test[0])], request, str(path), n_train=len(first))


def _series(file: Path) -> list[Recording]:
    """The series of a file: channels are separated by colons, values by commas, the class comes last."""
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
