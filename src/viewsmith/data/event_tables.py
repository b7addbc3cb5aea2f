"""Tables of labels of moments of recordings: with begin and end, Raven, Audacity, TextGrids of Praat, and ELAN."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, say, suggest
from viewsmith.data.label_tables import forms, plain, read_table, tables
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import reading

#: As a label: the annotations of the files.
ANNOTATIONS = "annotations"
#: Names of columns, without case, marks and units (Raven, BIDS, Praat, crowsetta, ...).
BEGIN = ("begin", "begintime", "start", "starttime", "onset", "tmin", "time", "from")
END = ("end", "endtime", "stop", "stoptime", "offset", "tmax", "to")
LASTING = ("duration", "length")
OF_RECORDING = (".txt", ".tsv", ".csv", ".textgrid", ".eaf")  # what a recording has beside it
UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "": 1.0}
OF_FILES = ("file", "filename", "filepath", "beginfile", "recording", "audiofile", "wavfile", "song", "path")
_FILE = r".*\.[A-Za-z]\w{1,4}$"
NO_NAMES = ("selection", "view", "channel", "index", "id", "unnamed", "")  # columns that do not name recordings
CODED = ("utf-8-sig", "utf-16", "latin-1")


#: Begin and end (None: it lasts until the next one) in seconds, and the label.
Notes = list[tuple[float, float | None, str]]


def events_of(
    names: Sequence[str], seconds: Sequence[float | None], request: DataOptions, folder: Path | None, beside: Path
) -> list[Notes] | None:
    """The labels of the moments of recordings: of the table that is given or in the folder, or of a file for each
    recording, with its name, in the given folder or beside it. None where there is none."""
    label, given, found = str(request.or_fitted("label")), request.labels, None
    source, place = str(given or folder or beside), given or folder or beside
    if given is None or given.is_file():
        for file, table in [(given, events_in(given))] if given is not None else tables(request, folder):
            if found is None and (found := _of_names(table, names, label, file, asked=given is not None)) is not None:
                source = str(file)
    if found is None and place.is_dir():
        each = [_beside(place, name, label) for name in names]
        found = each if any(each) else None
    if found is None and given is not None and given.is_dir():
        stem = Path(names[0]).stem
        raise InputError(
            f"{given} has no file with the events of a recording: expected one for each, such as {stem}.txt (Audacity, "
            f"Raven), {stem}.TextGrid (Praat), {stem}.eaf (ELAN) or {stem}.csv, with begin and end"
        )
    if found is not None:
        _check(found, names, seconds, source)
    return found


def events_in(file: Path) -> Any:
    """The table of a file of events; of Audacity, Praat and ELAN, which name no columns, begin, end and annotations."""
    import pandas as pd

    with reading(str(file), "a table of events"):
        if (read := {".textgrid": _intervals, ".eaf": _of_elan}.get(file.suffix.lower())) is not None:
            return pd.DataFrame(read(file), columns=["begin", "end", ANNOTATIONS, "tier"])
        if file.suffix.lower() == ".txt":
            lines = [line.rstrip("\r\n").split("\t") for line in _text(file).splitlines() if line.strip()]
            lines = [line for line in lines if line[0] != "\\"]  # the frequencies of the label above
            if (found := _without_names(lines)) is not None:
                return found
        return read_table(file)


def _without_names(lines: Sequence[Sequence[str]]) -> Any:
    """Begin, end and annotations of lines that name no columns, of Audacity or with several labels each, whose columns
    are 2, 3, ...; None for others."""
    import pandas as pd

    width = max(map(len, lines), default=0)
    if width < 2 or not all(len(line) >= 2 and _is_number(line[0]) and _is_number(line[1]) for line in lines):
        return None
    times = [(float(line[0]), float(line[1])) for line in lines]
    if width > 3 and not all(len(line) == width and a <= b for line, (a, b) in zip(lines, times, strict=True)):
        return None
    found = pd.DataFrame(times, columns=["begin", "end"]).assign(**{ANNOTATIONS: [" ".join(v[2:]) for v in lines]})
    return found.assign(**{str(i): [line[i] for line in lines] for i in range(2, width)}) if width > 3 else found


def _text(file: Path) -> str:
    data = file.read_bytes()
    for code in CODED if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" not in data else CODED[1:]:
        try:
            return data.decode(code)
        except UnicodeError:
            continue
    raise ValueError("not a text")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", text) is not None


_LONG = re.compile(r'xmin\s*=\s*([\d.eE+-]+)\s*xmax\s*=\s*([\d.eE+-]+)\s*text\s*=\s*"((?:[^"]|"")*)"')
_SHORT = re.compile(r'^([\d.eE+-]+)\s*\n([\d.eE+-]+)\s*\n"((?:[^"]|"")*)"', re.MULTILINE)
_TIERS = re.compile(r'"IntervalTier"\s*(?:name\s*=\s*)?"((?:[^"]|"")*)"')


def _intervals(file: Path) -> Iterator[tuple[float, float, str, str]]:
    """Begin, end, text and tier of the intervals of a TextGrid, long or short, that have a text."""
    pieces = _TIERS.split(_text(file))
    for tier, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        piece = piece.partition('"TextTier"')[0]
        for begin, end, text in _LONG.findall(piece) or _SHORT.findall(piece):
            if text.strip():
                yield float(begin), float(end), text.replace('""', '"').strip(), tier


def _of_elan(file: Path) -> Iterator[tuple[float, float, str, str]]:
    """Begin, end, text and tier of the annotations of ELAN that have a text; of one that refers to another, its times.
    Times that are left out lie evenly between those of the tier."""
    root = ElementTree.parse(file).getroot()
    slots = {e.get("TIME_SLOT_ID"): e.get("TIME_VALUE") for e in root.iter("TIME_SLOT")}
    seconds = {slot: int(value) / 1000 for slot, value in slots.items() if value is not None}
    for tier in root.iter("TIER"):
        parts = tier.iter("ALIGNABLE_ANNOTATION")
        used = list(dict.fromkeys(part.get(f"TIME_SLOT_REF{i}") for part in parts for i in (1, 2)))
        known = [place for place, slot in enumerate(used) if slot in seconds]
        times = np.interp(range(len(used)), known, [seconds[used[place]] for place in known]) if known else ()
        seconds |= zip(used, map(float, times), strict=False)
    own = {e.get("ANNOTATION_ID"): e for tag in ("ALIGNABLE", "REF") for e in root.iter(f"{tag}_ANNOTATION")}
    for tier in root.iter("TIER"):
        for element in (inner for outer in tier.iter("ANNOTATION") for inner in outer):
            timed = element
            while timed.tag == "REF_ANNOTATION":
                timed = own[timed.get("ANNOTATION_REF")]
            if text := (element.findtext("ANNOTATION_VALUE") or "").strip():
                begin, end = (seconds[timed.get(f"TIME_SLOT_REF{i}")] for i in (1, 2))
                yield begin, end, text, str(tier.get("TIER_ID"))


def _column(table: Any, names: Sequence[str]) -> tuple[Any, float] | None:
    """A column of times by its name, and seconds for one of its units."""
    for known in names:
        for column in table.columns:
            if table[column].dtype.kind not in "iuf":
                continue
            for unit, seconds in UNITS.items():
                if plain(column) == known + unit:
                    return column, seconds
    return None


def _events(table: Any, label: str, file: Path) -> tuple[np.ndarray, np.ndarray, list[str]] | None:
    """Begin and end in seconds, NaN without one, and the label of the rows of a table; None if it has no events."""
    begin = _column(table, BEGIN)
    if begin is None:
        return None
    column = label
    if label not in table.columns and label == ANNOTATIONS:  # of Raven, whose column has any of these names
        column = next((c for c in table.columns if plain(c) in ("annotation", "species", "label", "name")), label)
    if "tier" in table.columns and label in set(table["tier"]):
        table, column = table[table["tier"] == label], ANNOTATIONS
    if column not in table.columns and "2" in table.columns:  # of a file that names no columns
        return None
    if column not in table.columns:
        hint = suggest(label, [str(c) for c in table.columns], "its columns are")
        raise InputError(f"{file} has no column {one_line(label, 60)!r}, given as label; {hint}")
    starts = table[begin[0]].to_numpy(np.float64) * begin[1]
    if (end := _column(table, END)) is not None:
        ends = table[end[0]].to_numpy(np.float64) * end[1]
    elif (lasting := _column(table, LASTING)) is not None:
        ends = starts + table[lasting[0]].fillna(0).to_numpy(np.float64) * lasting[1]  # n/a: no duration
    else:
        ends = np.full(len(starts), np.nan)
    if (ends < starts).any():
        row = int((ends < starts).argmax())
        raise InputError(f"{file}: row {row + 1:,} begins at {starts[row]:g} s and ends at {ends[row]:g} s")
    return starts, ends, ["" if text != text else str(text) for text in table[column]]


def _notes(events: tuple[np.ndarray, np.ndarray, list[str]], rows: Sequence[int]) -> Notes:
    starts, ends, texts = events
    return [(float(starts[i]), None if np.isnan(ends[i]) else float(ends[i]), texts[i]) for i in rows]


def _of_names(table: Any, names: Sequence[str], label: str, file: Path, *, asked: bool) -> list[Notes] | None:
    """The events of each recording in one table; None if it has no events, or does not say of which recording."""
    if not (asked or label in table.columns) or (events := _events(table, label, file)) is None:
        return None
    best: list[Notes] | None = None
    columns = [c for c in table.columns if plain(c) not in NO_NAMES and str(c) != label and table[c].notna().any()]
    of_files = [c for c in columns if plain(c) in OF_FILES or table[c].astype(str).str.match(_FILE).mean() > 0.5]
    # All events are of one recording, unless a column says of which they are.
    most = 0 if len(names) > 1 or of_files else len(table) // 2
    for column in of_files if len(names) == 1 and of_files else columns:
        if table[column].dtype.kind in "fb":
            continue
        for keys in forms(table[column].map(str).tolist()):
            rows_of: dict[str, list[int]] = {}
            for row, key in enumerate(keys):
                rows_of.setdefault(key, []).append(row)
            for known in forms(names):
                rows = [rows_of.get(name, []) for name in known]
                if (found := sum(map(len, rows))) > most:
                    most, best = found, [_notes(events, each) for each in rows]
    if best is not None or len(names) > 1:
        return best
    if of_files:
        some = name_list(list(dict.fromkeys(table[of_files[0]].map(str))), 3)
        raise InputError(
            f"{file} has events of other recordings, by its column {one_line(of_files[0], 40)} ({some}), and none of "
            f"{one_line(names[0], 60)}: leave that column out if they are its own"
        )
    return [_notes(events, range(len(table)))]


def _beside(place: Path, name: str, label: str) -> Notes:
    """The events of a recording in a file with its name, and whatever follows; none without one."""
    stem = re.sub(r"\.\w+$", "", Path(name).name)
    of_bids = re.sub("_[a-z]+$", "_events", stem) if is_of_bids(name) else stem
    named = re.compile(rf"{re.escape(stem)}(\.|[_-]?(labels?|events)\.).*|{re.escape(of_bids)}\.tsv")
    folders = dict.fromkeys((place / Path(name).parent, place))
    files = [file for each in folders if each.is_dir() for file in sorted(each.iterdir())]
    for file in files:
        if file.name == Path(name).name:  # a table of moments, whose times are no events
            continue
        if named.fullmatch(file.name) and file.suffix.lower() in OF_RECORDING:
            table = events_in(file)
            if (events := _events(table, label, file)) is not None:
                return _notes(events, range(len(events[0])))
    return []


def is_of_bids(name: str) -> bool:
    """Whether a file is of a subject in a data set of BIDS: sub-01_task-x_eeg.edf, beside sub-01_task-x_events.tsv."""
    return re.match(r"sub-[0-9A-Za-z]+_", Path(name).name) is not None


def _check(notes: list[Notes], names: Sequence[str], seconds: Sequence[float | None], source: str) -> None:
    """Say how many events were found; raise InputError for one after the end of its recording."""
    without = [name for name, own in zip(names, notes, strict=True) if not own]
    said = (
        f"; {pluralize(len(without), 'recording')} without any, such as {one_line(without[0], 60)}" if without else ""
    )
    say(f"{source}: {pluralize(sum(map(len, notes)), 'event')} of {pluralize(len(names), 'recording')}{said}")
    for name, own, end in zip(names, notes, seconds, strict=True):
        last = max((begin for begin, _, _ in own), default=0)
        if own and end is None:
            raise InputError(
                f"{source} has times in seconds, and the rate of {name} is not known: give it (--rate 250)"
            )
        if own and end is not None and last > end:
            raise InputError(
                f"{source}: an event of {name} begins at {last:g} s, and the recording ends at {end:.6g} s: is it of "
                "another one, or not in seconds?"
            )
