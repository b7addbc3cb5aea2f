"""Recordings of instruments as samples: channels, rates, one length for all, and windows of long ones.

What readers of recordings share. A reader gives one `Recording` for each file, record or series.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, lines_once, name_list, one_line, pluralize, say, suggest, warn
from viewsmith.core.rows import AnyRows, RowSource, check_size
from viewsmith.data.dataset import Windows
from viewsmith.data.event_tables import ANNOTATIONS, events_of, is_of_bids
from viewsmith.data.label_tables import check_named, column_of, find_table, parts_that_recur, table_of_names
from viewsmith.data.options import DataOptions
from viewsmith.data.places import TABLES
from viewsmith.data.reading import FileContents
from viewsmith.data.sounds import LOWEST_RATE, SOUNDS, sound_spans
from viewsmith.modalities.series.modality import SHORTEST, padded, warn_gaps

#: Options of `load_dataset` of all readers of recordings.
OPTIONS = ("length", "step", "rate", "channels", "labels")

#: Fewer recordings than this, which give at least as many windows of `SECONDS`, are cut into these.
FEW, SECONDS, POINTS = 32, 2.0, 1000

#: Samples have the points of the longest recording; if that is so many times as long as this fraction of them, of the
#: latter.
MOST, OUTLYING = 0.95, 1.5
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|h)?")
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, eq=False)
class SignalFile:
    """A recording that stays in its file: ``x[:, a:b]`` reads these points, ``x[[0, 2]]`` chooses channels."""

    shape: tuple[int, int]  # channels and points
    read: Callable[[int, int], np.ndarray]  # from the first point and the one after the last to all channels
    chosen: list[int] | None = None  # numbers of channels

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, list):
            chosen = key if self.chosen is None else [self.chosen[i] for i in key]
            return replace(self, shape=(len(key), self.shape[1]), chosen=chosen)
        start, stop, _ = key[1].indices(self.shape[1])
        found = np.asarray(self.read(start, max(start, stop)), np.float32)
        return found if self.chosen is None else found[self.chosen]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:, :], dtype)


@dataclass(frozen=True, eq=False)
class Recording:
    """One recording."""

    x: Any  # an array or `SignalFile` (channels, time), NaN in gaps
    name: str  # relative to what was given
    rate: float | None = None  # points per second
    channels: Sequence[str] = ()  # names; empty: numbers from 0
    label: Any = None
    group: Any = None
    #: Begin and end in seconds, or in points without a rate, and a text; without an end it lasts until the next one.
    annotations: Sequence[tuple[float, float | None, str]] = ()

    @property
    def in_turn(self) -> list[tuple[float, float | None, str]]:
        """The annotations in the order in which they begin."""
        return sorted(self.annotations, key=lambda note: note[0])

    def time(self, points: float) -> str:
        """A number of points as time: in seconds if the rate is known."""
        return f"{int(points):,} points" if self.rate is None else f"{points / self.rate:.6g} s"


class WindowRows(RowSource):
    """Windows of recordings that stay in their files, float32 (n, C, points), NaN after the end of a shorter one: for
    each its recording, its first point and the one after its last."""

    modality = "series"

    def __init__(
        self,
        recordings: Sequence[Recording],
        of: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        points: int,
        name: str,
    ) -> None:
        super().__init__((len(of), len(recordings[0].x), points), name)
        self.recordings, self.of, self.starts, self.ends, self.points = recordings, of, starts, ends, points

    def read_range(self, start: int, stop: int) -> np.ndarray:
        # Neighboring windows of a recording are read at once.
        cut: list[np.ndarray] = []
        for i in dict.fromkeys(self.of[start:stop].tolist()):
            starts, ends = (each[start:stop][self.of[start:stop] == i] for each in (self.starts, self.ends))
            first = int(starts.min())
            whole = self.recordings[i].x[:, first : int(ends.max())]
            cut += [whole[:, a - first : b - first] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        return padded(cut, self.points) if cut else np.empty((0, *self.shape[1:]), np.float32)


@lines_once()
def samples_of(
    recordings: Sequence[Recording],
    request: DataOptions,
    source_name: str,
    *,
    sound: bool = False,
    n_train: int | None = None,
    folder: Path | None = None,
) -> FileContents:
    """Recordings as samples, float32 (n, channels, time), with their labels and, if asked for, groups; the first
    `n_train` are the train part. Recordings that differ in channels or rates raise InputError, which says what makes
    them equal."""
    if not recordings:
        raise InputError(f"{source_name} has no recordings")
    check_named(request)
    fitted = (request.schema or {}).get("signal", {})
    recordings = _one_rate(_same_channels(recordings, request, source_name), request, fitted, source_name)
    recordings, request = _with_events(recordings, request, folder, Path(source_name).parent)
    lengths = np.array([each.x.shape[1] for each in recordings])
    if lengths.min() == 0:
        raise InputError(f"{source_name}: {recordings[int(lengths.argmin())].name} is empty; leave it out")
    if fitted and request.length is not None:
        raise InputError("length is that of the data of the run: leave it out")
    sounds = bool(fitted.get("sounds")) or str(request.length or "").strip().lower() == SOUNDS
    cut = _sounds if sounds else _windows
    points, step, of, starts, ends = cut(recordings, lengths, request, fitted, source_name)
    noted = None
    if request.or_fitted("label") is not None and any(each.annotations for each in recordings):
        if not sounds and step and (events := _events(recordings, lengths, points, source_name)) is not None:
            of, starts, noted = events
            ends = starts + points
        else:
            noted = _annotated(recordings, of, (starts + ends) / 2)
    rows = WindowRows(recordings, of, starts, ends, points, source_name)
    x: AnyRows = rows
    if not any(isinstance(each.x, SignalFile) for each in recordings):
        x, known = _in_memory(rows, source_name)
        of, starts, ends = of[known], starts[known], ends[known]
        noted = None if noted is None else noted[known]
    part = bool(step) or sounds
    places = zip((recordings[i] for i in of), starts, strict=True)
    names = [each.name + (f"@{each.time(start)}" if part else "") for each, start in places]
    if noted is not None:
        if not part:
            name = next(each.name for each in recordings if each.annotations)
            raise InputError(
                f"{source_name}: recording {one_line(name, 40)!r} has several values of {request.or_fitted('label')}: "
                "--length cuts windows, which have the label at their center"
            )
        of_groups = replace(request, label=None, schema={"groups": request.or_fitted("groups")})
        groups = labels_of_recordings(recordings, of_groups, source_name, folder)[1]
        y_of: np.ndarray | None = noted
    else:
        y, groups = labels_of_recordings(recordings, request, source_name, folder)
        y_of = None if y is None else y[of]
    signal: dict[str, Any] = {"rate": recordings[0].rate, "sound": sound, "points": points, "step": step}
    signal |= {"channels": list(recordings[0].channels)} | ({"sounds": True} if sounds else {})
    whole = np.array([recordings[i].name for i in of])
    return FileContents(
        x,
        y_of,
        None if n_train is None else int((of < n_train).sum()),
        row_names=names,
        groups=None if groups is None else groups[of],
        windows=Windows(whole, starts, recordings[0].rate, ends if sounds else None) if part else None,
        table={"columns": None, "one_hot": {}, "drop": [], "label": request.or_fitted("label")},
        options={"signal": signal},
        modality="series",
    )


def _with_events(
    recordings: list[Recording], request: DataOptions, folder: Path | None, beside: Path
) -> tuple[list[Recording], DataOptions]:
    """Recordings with labels of moments that other files have, if there is no label for each recording; and the
    request without these files."""
    names, given = [each.name for each in recordings], request.labels
    own = any(each.annotations or each.label is not None for each in recordings)
    label, bids = request.or_fitted("label"), all(map(is_of_bids, names))
    if label is None or (own and given is None and (label == ANNOTATIONS or not bids)):
        return recordings, request
    table = find_table(names, request, folder) if given is None or given.suffix.lower() in TABLES else None
    if table is not None and (label in table.columns or not bids):
        return recordings, request
    seconds = [None if each.rate is None else each.x.shape[1] / each.rate for each in recordings]
    notes = events_of(names, seconds, request, folder, beside)
    if notes is None:
        return recordings, request
    found = [replace(each, annotations=noted, label=None) for each, noted in zip(recordings, notes, strict=True)]
    return found, replace(request, labels=None)


def _events(
    recordings: Sequence[Recording], lengths: np.ndarray, points: int, source_name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Windows from each event on, if most annotations have no duration, as triggers and stimuli have: of each the
    number of its recording, its first point and its text; None for others."""
    notes = [(i, *note) for i, each in enumerate(recordings) for note in each.in_turn]
    found = [(i, round(begin * (recordings[i].rate or 1)), text) for i, begin, end, text in notes if end == begin]
    if 2 * len(found) <= len(notes):
        return None
    whole = [(i, start, text) for i, start, text in found if 0 <= start <= lengths[i] - points]
    length = recordings[0].time(points)
    if not whole:
        raise InputError(
            f"{source_name}: {pluralize(len(found), 'annotation')} without duration, expected some at least {length} "
            "before the end of a recording: give a shorter length (--length)"
        )
    cut, without = len(found) - len(whole), len(recordings) - len({i for i, *_ in whole})
    lost = [(cut, f"{cut:,} too close to the end"), (without, f"{pluralize(without, 'recording')} without any")]
    rest = "".join(f"; {text} {'is' if number == 1 else 'are'} left out" for number, text in lost if number)
    say(
        f"{source_name}: annotations without duration are events: the samples are the {length} after each of "
        f"{len(whole):,}{rest}"
    )
    of, starts, texts = zip(*whole, strict=True)
    return np.array(of), np.array(starts), np.array(texts, str)


def _annotated(recordings: Sequence[Recording], of: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """The text of the annotation that covers the center of each window, in points; "none" without one. A recording in
    whose table the label never changes has it in all of its windows."""
    found = np.full(len(of), "none", object)
    of_column = all(each.label is None for each in recordings if each.annotations)
    for i in np.unique(of):
        each = recordings[i]
        if of_column and not each.annotations and each.label is not None and each.label == each.label:  # not NaN
            found[of == i] = str(each.label)
            continue
        notes = each.in_turn
        begins = np.array([begin for begin, *_ in notes])
        for window in np.flatnonzero(of == i):
            second = centers[window] / (each.rate or 1)
            last = int(np.searchsorted(begins, second, side="right")) - 1
            if last >= 0 and ((end := notes[last][1]) is None or second < end):
                found[window] = notes[last][2]
    return found.astype(str)


def _in_memory(rows: WindowRows, source_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples with a value, and which ones they are, bool (n,)."""
    n, _, points = rows.shape
    size = f"{source_name}: {pluralize(n, 'sample')} of {points:,} points"
    check_size(4 * int(np.prod(rows.shape)), size, "give a larger step (--step), a lower rate (--rate) or fewer files")
    x = rows[:]
    empty = np.isnan(x).all(axis=(1, 2))
    if empty.all():
        raise InputError(f"{source_name}: no sample has a value (all NaN)")
    if empty.any():
        warn(
            f"{source_name}: {pluralize(int(empty.sum()), 'sample')} of {len(x):,} without a value (all NaN) "
            f"{'is' if empty.sum() == 1 else 'are'} left out"
        )
        x = x[~empty]
    warn_gaps(x, source_name)
    return x, ~empty


Cut = tuple[int, int, np.ndarray, np.ndarray, np.ndarray]


def _windows(
    recordings: list[Recording], lengths: np.ndarray, request: DataOptions, fitted: dict[str, Any], source_name: str
) -> Cut:
    """Points of a sample, points from one to the next (0: each recording is one sample), and of each sample the number
    of its recording, its first point and the one after its last."""
    points, step = _length(recordings, lengths, request, fitted, source_name)
    if points < SHORTEST:
        channels = len(recordings[0].x)
        swapped = f"; if the {channels} channels are points in time, put time last" if channels >= SHORTEST else ""
        raise InputError(
            f"{source_name}: samples would have {points} points, expected at least {SHORTEST}: give a length "
            f"(--length){swapped}"
        )
    if fitted and not step and (longer := int((lengths > points).sum())):
        warn(
            f"{source_name}: {pluralize(longer, 'recording')} of {len(recordings):,} longer than the "
            f"{recordings[0].time(points)} of the run: the middle is read, and the rest is not"
        )
    if step and (short := lengths < points).any():
        count, first = int(short.sum()), recordings[int(short.argmax())]
        warn(
            f"{source_name}: {pluralize(count, 'recording')} of {len(recordings):,} {'is' if count == 1 else 'are'} "
            f"shorter than a window of {first.time(points)}, such as {first.name} ({first.time(lengths[short][0])}): "
            "what is missing is masked"
        )
    starts_of = [_starts(each.x.shape[1], points, step) for each in recordings]
    of, starts = np.repeat(np.arange(len(recordings)), list(map(len, starts_of))), np.concatenate(starts_of)
    if not step:  # the middle of a longer one
        starts = np.maximum(0, (lengths - points) // 2)
    return points, step, of, starts, np.minimum(starts + points, lengths[of])


def _sounds(
    recordings: list[Recording], lengths: np.ndarray, request: DataOptions, fitted: dict[str, Any], source_name: str
) -> Cut:
    """As `_windows`: the sounds of recordings, between silences, each of its own length."""
    first = recordings[0]
    if first.rate is None or first.rate < LOWEST_RATE:
        has = "no known rate" if first.rate is None else f"{first.rate:g} Hz"
        raise InputError(
            f"{source_name}: length is {SOUNDS!r}, and the recordings have {has}, expected at least {LOWEST_RATE:g} "
            "Hz: give a time (--length 2s), or the rate (--rate)"
        )
    spans = [sound_spans(each.x, first.rate) for each in recordings]
    if silent := [each.name for each, found in zip(recordings, spans, strict=True) if not len(found)]:
        warn(f"{source_name}: {pluralize(len(silent), 'recording')} without a sound, left out: {name_list(silent, 5)}")
    of = np.repeat(np.arange(len(recordings)), list(map(len, spans)))
    if not len(of):
        raise InputError(f"{source_name}: no sound between silences: give a length (--length 2s)")
    starts, ends = np.concatenate(spans).T
    longest, most = int((ends - starts).max()), int(np.quantile(ends - starts, MOST))
    points = int(fitted.get("points", min(longest, round(OUTLYING * most))))
    if cut := int((ends - starts > points).sum()):
        warn(f"{source_name}: {pluralize(cut, 'sound')} of {len(of):,} longer than {first.time(points)}, cut to that")
    say(
        f"{source_name}: {pluralize(len(of), 'sound')} between silences, of {first.time((ends - starts).min())} to "
        f"{first.time(longest)} (median {first.time(np.median(ends - starts))})"
    )
    return points, 0, of, starts, np.minimum(ends, starts + points)


def _same_channels(recordings: Sequence[Recording], request: DataOptions, source_name: str) -> list[Recording]:
    """The chosen channels of each recording, which all have."""
    wanted = request.channels or (request.schema or {}).get("signal", {}).get("channels")
    if wanted:
        recordings = [_chosen(each, list(map(str, wanted)), source_name) for each in recordings]
        if all(str(channel).isdecimal() for channel in wanted):  # whatever their names are
            return [replace(each, channels=list(map(str, wanted))) for each in recordings]
    first = recordings[0]
    other = next((each for each in recordings if not _alike(each, first)), None)
    if other is None:
        return list(recordings)
    common = [name for name in first.channels if all(name in each.channels for each in recordings)]
    if not wanted and common:
        warn(
            f"{source_name}: {other.name} has {_described(other)}, and {first.name} {_described(first)}: the channels "
            f"that all have are taken, {name_list(common)}; --channels chooses others"
        )
        return [_chosen(each, common, source_name) for each in recordings]
    raise InputError(
        f"{source_name}: {other.name} has {_described(other)}, and {first.name} {_described(first)}, expected the same "
        "in all: choose channels by number that all have (--channels 0), or give one of the files"
    )


def _alike(one: Recording, other: Recording) -> bool:
    named = bool(one.channels) and bool(other.channels)
    return len(one.x) == len(other.x) and (not named or list(one.channels) == list(other.channels))


def _described(recording: Recording) -> str:
    names = f" ({name_list(list(recording.channels))})" if recording.channels else ""
    return pluralize(len(recording.x), "channel") + names


def channel_place(wanted: str, names: Sequence[str]) -> int | None:
    """The place of a channel by its name, or by the one that ends so, as Fpz-Cz of EEG Fpz-Cz; None if none does."""
    if wanted in names:
        return names.index(wanted)
    found = [i for i, name in enumerate(names) if name.lower().split(" ", 1)[-1] == wanted.lower()]
    return found[0] if len(found) == 1 else None


def _chosen(recording: Recording, wanted: list[str], source_name: str) -> Recording:
    """Some channels of a recording, by name or by number from 0."""
    names, found = list(recording.channels), []
    for channel in wanted:
        if (place := channel_place(channel, names)) is not None:
            found.append(place)
        elif channel.isdecimal() and int(channel) < len(recording.x):
            found.append(int(channel))
        else:
            hint = suggest(channel, names, "its channels are") if names else f"it has {len(recording.x)}, from 0"
            raise InputError(
                f"{source_name}: {recording.name} has no channel {one_line(channel, 60)!r}, given as channels; {hint}"
            )
    return replace(recording, x=recording.x[found], channels=[names[i] for i in found] if names else ())


def _one_rate(
    recordings: list[Recording], request: DataOptions, fitted: dict[str, Any], source_name: str
) -> list[Recording]:
    """Recordings at one rate: that of a fitted model, the given one, or that of the files. For a model, the given one
    is that of files that do not say theirs."""
    wanted = fitted.get("rate") or request.rate
    if request.rate is not None and request.rate != wanted:
        if known := next((each for each in recordings if each.rate is not None), None):
            raise InputError(
                f"{source_name}: rate is {request.rate:g} Hz, that of the run is {wanted:g} Hz, and {known.name} has "
                f"{known.rate:g} Hz: leave rate out, and it is resampled to that of the run"
            )
        recordings = [_resampled(each, request.rate) for each in recordings]
    if wanted is None:
        rates = sorted({each.rate for each in recordings if each.rate is not None})
        if len(rates) > 1:
            names = [next(each.name for each in recordings if each.rate == rate) for rate in rates[:2]]
            raise InputError(
                f"{source_name}: {names[0]} has {rates[0]:g} Hz and {names[1]} {rates[1]:g} Hz, expected one rate: "
                f"resample all with --rate {rates[0]:g}"
            )
        return recordings
    changed = [each for each in recordings if each.rate not in (None, wanted)]
    if changed:
        warn(
            f"{source_name}: {pluralize(len(changed), 'recording')} of {changed[0].rate:g} Hz "
            f"{'is' if len(changed) == 1 else 'are'} resampled to {wanted:g} Hz"
        )
    return [_resampled(each, wanted) for each in recordings]


def _resampled(recording: Recording, rate: float) -> Recording:
    """A recording at another rate, by a polyphase filter."""
    if recording.rate is None:  # annotations were in points
        ends = [None if end is None else end / rate for _, end, _ in recording.annotations]
        notes = [(begin / rate, end, text) for (begin, _, text), end in zip(recording.annotations, ends, strict=True)]
        return replace(recording, rate=rate, annotations=notes)
    if recording.rate == rate:
        return recording
    from fractions import Fraction

    from scipy.signal import resample_poly

    ratio = (Fraction(rate) / Fraction(recording.rate)).limit_denominator(10_000)
    x = resample_poly(np.asarray(recording.x), ratio.numerator, ratio.denominator, axis=1)
    return replace(recording, x=x.astype(np.float32), rate=rate)


def points_of(text: str | float, rate: float | None, option: str) -> int:
    """A time as a number of points: "2s", "500ms", "1.5min", or a number of points."""
    found = _TIME.fullmatch(str(text).strip().lower())
    if found is None:
        raise InputError(f"{option} is {one_line(text, 40)!r}, expected a time (2s, 500ms) or a number of points (500)")
    if found[2] is None:
        points = float(found[1])
    elif rate is None:
        raise InputError(
            f"{option} is {text}, a time, but the rate of the data is not known: give it (--rate 250, in points a "
            "second), or a number of points"
        )
    else:
        points = float(found[1]) * _UNITS[found[2]] * rate
    if round(points) < 1:
        raise InputError(f"{option} is {text}, {points:g} points, expected at least 1")
    return round(points)


def _length(
    recordings: list[Recording], lengths: np.ndarray, request: DataOptions, fitted: dict[str, Any], source_name: str
) -> tuple[int, int]:
    """Points of a sample, and points between the starts of windows; 0: each recording is one sample."""
    first = recordings[0]
    if fitted:
        step = fitted["step"] if request.step is None else _step(request, int(fitted["points"]), first.rate)
        return int(fitted["points"]), int(step)
    if request.length is not None:
        points = points_of(request.length, first.rate, "length")
        return points, _step(request, points, first.rate)
    if request.step is not None and not str(request.step).endswith("%"):
        raise InputError("step is for windows of recordings: give their length, too (--length 2s)")
    points = POINTS if first.rate is None else round(SECONDS * first.rate)
    points = points if points >= SHORTEST else POINTS  # of hours, or wave numbers
    if len(recordings) < FEW <= (lengths // points).sum():
        last = f" to {first.time(lengths.max())}" if lengths.min() < lengths.max() else ""
        warn(
            f"{source_name}: {pluralize(len(recordings), 'recording')} of {first.time(lengths.min())}{last} "
            f"{'is' if len(recordings) == 1 else 'are'} cut into windows of {first.time(points)}: --length and --step "
            "choose others"
        )
        return points, _step(request, points, first.rate)
    longest, most = int(lengths.max()), int(np.quantile(lengths, MOST))
    points = most if longest > OUTLYING * most else longest
    if lengths.min() < longest:
        cut = int((lengths > points).sum())
        longer = f", but {cut} {'is' if cut == 1 else 'are'} cut to {first.time(points)}" if cut else ""
        warn(
            f"{source_name}: {len(recordings):,} recordings of {first.time(lengths.min())} to {first.time(longest)} "
            f"(median {first.time(np.median(lengths))}) stay as long as they are{longer}: --length cuts windows of one "
            "length"
        )
    return points, 0


def _step(request: DataOptions, points: int, rate: float | None) -> int:
    """Points between the starts of windows: their length, a time, or a percentage of their length."""
    if request.step is None:
        return points
    if not (text := str(request.step).strip()).endswith("%"):
        return points_of(text, rate, "step")
    part = text[:-1].strip()
    if not part.replace(".", "", 1).isdecimal() or not 0 < float(part) <= 100:
        raise InputError(f"step is {one_line(text, 40)!r}, expected a time (1s), points (250), or 1% to 100% of length")
    return max(1, round(points * float(part) / 100))


def _starts(length: int, points: int, step: int) -> np.ndarray:
    """Starts of the windows of a recording, at least one; 0 without a step."""
    return np.arange(0, max(1, length - points + 1), step) if step else np.zeros(1, np.int64)


def labels_of_recordings(
    recordings: list[Recording], request: DataOptions, source_name: str, folder: Path | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Labels and groups of the recordings: of a table of their names, else their own; "recording": their names."""
    names = [each.name for each in recordings]
    label, wanted = request.or_fitted("label"), request.or_fitted("groups")
    y = None  # their own, empty where there is none
    if any(each.label is not None for each in recordings):
        y = np.array(["" if each.label is None else each.label for each in recordings])
    if any(each.group is not None for each in recordings):
        return y, np.array([each.group for each in recordings])
    table = table_of_names(names, request, folder)
    if table is not None and request.schema is label is None:
        own = "not given" if y is None else "the names of folders"
        columns = " or ".join(one_line(name, 40) for name in table.columns[:8])
        say(f"{source_name}: labels are {own}; others are in {table.attrs['file']}: --label {columns}")
    if table is y is request.schema is label is wanted is None and (hint := parts_that_recur(names)):
        say(f"{source_name}: {hint}")
    in_folders = all(f"/{each.label}/" in f"/{each.name}" for each in recordings)
    if label is not None and not (request.few_labels and label == "y") and (y is None or table is not None):
        y = column_of(table, "label", request, source_name)
    elif label is not None and request.schema is None and not request.few_labels and in_folders:
        warn(f"{source_name}: no table has a column {one_line(label, 40)!r}: labels are the names of folders")
    return y, np.array(names, object) if wanted == "recording" else column_of(table, "groups", request, source_name)
