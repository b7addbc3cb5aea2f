"""Recordings of tables: a row for each recording, or for each moment, also of each channel at each moment."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, quoted, say, suggest, warn
from viewsmith.data.layouts import channel_column, refuse_table_of_recordings, warn_like_labels
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.recordings import Recording, points_of, samples_of
from viewsmith.data.sounds import SOUNDS
from viewsmith.modalities.frames import with_columns
from viewsmith.modalities.tables import roles

RATE = "rate"  # in `attrs` of a table whose rows are moments: points per second, or None
FEWEST_POINTS = 8  # of a recording in a row of a table
#: Steps of time that differ by less than the first are equal; by less than the second, as months do, they are in order.
EQUAL, ALIKE = 0.05, 0.2
GAP = 5  # steps, between whose ends nothing is interpolated
KEPT = 0.8  # of the points of most steps are kept: below that a rate is much lower
FILLED = 20  # places of equal steps for each moment, above which steps are too unequal


def recordings_of_table(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """The recordings of a table: a row each, or with a column of times or of names of recordings a row each moment."""
    time, name, label, group = (request.or_fitted(each) for each in ("time", "recording", "label", "groups"))
    options = {"time": time, "id": name, "label": label, "groups": None if group == "recording" else group}
    parts = [] if name is None or name in frame.columns else [part.strip() for part in str(name).split(",")]
    if len(parts) > 1 and {*parts} <= {*frame.columns}:  # a recording for each combination
        joined: Any = frame[parts[0]].astype(str).fillna("nan")  # left missing by pandas 3
        for part in parts[1:]:
            joined = joined + " " + frame[part].astype(str).fillna("nan")
        frame = with_columns(frame, {str(name): joined})
        frame = frame.drop(columns=[part for part in parts if part not in (label, group)])
    for option, column in options.items():
        if option in ("label", "groups") and getattr(request, option) is None and column not in frame.columns:
            options[option] = None  # of the run, whose other files need not have it
        elif column is not None and column not in frame.columns:
            hint = suggest(column, list(frame.columns), "its columns are")
            raise InputError(f"{source_name} has no column {one_line(column, 60)!r}, given as {option}; {hint}")
    left_out = (request.schema or {}).get("drop", request.drop)
    frame = frame.drop(columns=[column for column in left_out if column in frame.columns])
    if request.schema is time is name is None and RATE not in frame.attrs:
        refuse_table_of_recordings(Path(source_name), frame.drop(columns=[c for c in (label, group) if c in frame]))
    others = [column for column in frame.columns if column not in options.values()]
    text = [column for column in others if frame[column].dtype.kind not in "biuf"]
    # A row is a moment if it is said, or if windows have more points than there are columns.
    in_rows = time is not None or name is not None or RATE in frame.attrs
    if not in_rows:
        fitted = (request.schema or {}).get("signal", {})
        points = max(FEWEST_POINTS, fitted["points"] if fitted.get("step") else 0)
        if request.length not in (None, SOUNDS):
            points = max(points, points_of(request.length, request.rate, "length"))
        in_rows = len(others) - len(text) < points < len(frame)
    if not in_rows:
        recordings = _wide(frame, [each for each in others if each not in text], text, options, source_name)
    else:
        if (kind := channel_column(frame, others, time, name)) is not None:
            others.remove(kind)
            text = [column for column in text if column != kind]
            frame, others = apart(frame, [column for column in others if column not in text], kind, options)
            say(f"{source_name}: {kind} names channels, {name_list(others)}")
        if text:
            warn(f"{source_name}: columns of text are no channels, left out: {name_list(text)}")
        if time is None and request.schema is None:
            _warn_moments(frame, others, name, source_name)
        channels = [column for column in others if column not in text]
        if not channels:
            raise InputError(
                f"{source_name} has no column of numbers beside {name_list([c for c in (time, name) if c])}"
            )
        if kind is None:
            warn_like_labels(frame, channels, request, source_name)
        recordings = by_moments(frame, channels, options, source_name, rate_of(request), apart=kind is not None)
    found = samples_of(recordings, request, source_name)
    kept = {option: value for option, value in (("time", time), ("recording", name)) if value is not None}
    found.options.update(kept)
    found.table["drop"] = list(left_out)
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
    none = [None] * len(frame)
    labels, groups = (none if options[o] is None else frame[options[o]].tolist() for o in ("label", "groups"))
    rows = zip(values, ends.tolist(), labels, groups, strict=True)
    return [
        Recording(row[None, : max(end, 1)], str(i), label=label, group=group)
        for i, (row, end, label, group) in enumerate(rows)
    ]


def apart(frame: pd.DataFrame, values: list[str], kind: str, options: dict[str, Any]) -> tuple[pd.DataFrame, list[str]]:
    """A table with a row for each channel at each moment, which a column names, as one with a row for each moment, and
    its channels; of several rows of a channel at a moment the mean."""
    moment = [each for each in (options["id"], options["time"]) if each is not None]
    found = frame.groupby([*moment, kind], sort=False)[values].mean().unstack(kind).sort_index(axis=1)
    pairs: Any = list(found.columns)
    channels = [str(of) if len(values) == 1 else f"{value}_{of}" for value, of in pairs]
    others = [each for each in (options["label"], options["groups"]) if each is not None and each not in moment]
    beside = frame.drop_duplicates(moment)[[*moment, *others]].reset_index(drop=True)
    found = found.reindex(pd.MultiIndex.from_frame(beside[moment]) if len(moment) > 1 else beside[moment[0]])
    return beside.join(pd.DataFrame(found.to_numpy(np.float32), columns=channels)), channels


def rate_of(request: DataOptions) -> float | None:
    """The rate that is given, or that of the data of a run."""
    return request.rate or (request.schema or {}).get("signal", {}).get("rate")


def _warn_moments(frame: pd.DataFrame, names: Sequence[str], recording: str | None, source_name: str) -> None:
    """Warn of the first of some columns that has dates, or numbers in order in each recording, as times are."""
    for name in names:
        column, option = frame[name], f"--time {quoted(one_line(name, 40))}"
        said = f"{source_name}: column {one_line(name, 40)}"
        if column.dtype.kind in "iuf":
            if len(names) > 1 and in_order(frame, [name], recording) is not None:
                warn(f"{said} is in order, as times are, and is taken as a channel: if it has the times, {option}")
                return
        elif column.dtype.kind == "M" or (column.notna().all() and roles.date_format(column) is not None):
            warn(f"{said} has the times of rows, which are not used as such: {option} takes them")
            return


def in_order(frame: pd.DataFrame, columns: Sequence[str], recording: str | None = None) -> str | None:
    """The first of some columns whose numbers only rise or only fall in each recording, in at least ten rows; None if
    none does."""
    of = np.zeros(len(frame)) if recording is None else frame[recording]
    for name in columns if len(frame) >= 10 else ():
        steps = frame.groupby(of)[name].diff()[frame.duplicated(recording) if recording else slice(1, None)]
        if (steps > 0).all() or (steps < 0).all():
            return name
    return None


def by_moments(
    frame: pd.DataFrame,
    channels: list[str],
    options: dict[str, Any],
    source_name: str,
    given: float | None,
    *,
    told: bool = False,
    apart: bool = False,
) -> list[Recording]:
    """A row for each moment, in the order of time if there is a column of it; moments that are missing become NaN. Of
    unequal steps, values at the `given` rate are interpolated, which is said unless it is `told`. `apart`: channels may
    have moments of their own."""
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
    if apart:
        known = [part[channels].notna().to_numpy()[order] for (_, part), (order, _) in zip(parts, clocks, strict=True)]
        own = np.concatenate([np.diff(clocks[i][1][each]) for i, has in enumerate(known) for each in has.T])
        step = float(np.median(own)) if len(own) else step
    if given is None or step == 0:
        _check_once(parts, clocks, options, source_name)
    alike = bool((np.abs(steps / step - 1) < ALIKE).all())
    uneven = not alike and bool((np.abs(steps / step - np.round(steps / step)) > EQUAL).any())
    # Hardly any of equal steps would have a moment; steps may be multiples of one, in part of a day.
    sparse = not alike and bool(steps.sum() / step > FILLED * (1 if uneven else 10) * len(frame))
    uneven = uneven or sparse
    typical = 1 / (float(steps.mean()) if sparse else step)
    if uneven and (given is None or steps.sum() * given > 50 * FILLED * len(frame)):
        said = "" if given is None else f" at {given:g} points in a unit of time hardly any would have a moment, and"
        raise InputError(
            f"{source_name}: moments are {steps.min():g} to {steps.max():g} apart ({time}, mostly {step:g}),{said} "
            "expected equal steps, or multiples of them where moments are missing: give points in a unit of time, and "
            f"values are {'means and ' * sparse}interpolated (--rate {typical:.4g})"
        )
    equal = not alike or bool((np.abs(steps / step - 1) < EQUAL).all())
    rate = frame.attrs.get(RATE) if time is None else round(1 / step, 6) if in_seconds and equal else None
    if uneven and not told:
        say(f"{source_name}: unequal steps of {time}: values are interpolated, but for gaps of {GAP} steps")
    to_means = (sparse or apart) and given is not None and given * step <= KEPT
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
            values, at = _evened(clock, values, rate, GAP / rate if to_means else GAP * step, apart=apart)
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


def _evened(
    clock: np.ndarray, values: np.ndarray, rate: float, gap: float, *, apart: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Values (moments, channels) at equal steps, interpolated between their neighbors, missing in gaps; and the
    moments."""
    at = clock[0] + np.arange(int((clock[-1] - clock[0]) * rate) + 1) / rate
    at = np.minimum(at, clock[-1])  # which the last exceeds where it is rounded up
    return np.stack([_between(at, clock, each, gap, apart=apart) for each in values.T], axis=1), at


def _between(at: np.ndarray, clock: np.ndarray, values: np.ndarray, gap: float, *, apart: bool) -> np.ndarray:
    """Values of a channel between its moments, missing in gaps; if it has moments of its own, also outside of them."""
    if apart:
        known = np.isfinite(values)
        clock, values = clock[known], values[known]
        if len(clock) < 2:
            return np.full(len(at), np.nan)
        gap = max(gap, GAP * float(np.median(np.diff(clock))))
    after = np.searchsorted(clock, at).clip(1, len(clock) - 1)
    found = np.interp(at, clock, values, left=np.nan, right=np.nan)
    found[(clock[after] - clock[after - 1] > gap) & (at > clock[after - 1]) & (at < clock[after])] = np.nan
    return found


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
    form = roles.date_format(column) if column.dtype.kind == "O" and column.notna().all() else None
    try:
        dates = pd.to_datetime(column, utc=True) if form is None else roles.parse(column, form)
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
