"""Tables as recordings: a row for each recording of one channel, or for each moment (``--time``, ``--id``)."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, suggest, warn
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.recordings import Recording, samples_of

#: Steps of time that differ by less than the first are equal; by less than the second, as months do, they are in order.
EQUAL, ALIKE = 0.05, 0.2


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
    if time is None and name is None:
        recordings = _wide(frame, [each for each in others if each not in text], text, options, source_name)
    else:
        if text:
            warn(f"{source_name}: columns of text are no channels, left out: {name_list(text)}")
        channels = [column for column in others if column not in text]
        if not channels:
            raise InputError(
                f"{source_name} has no column of numbers beside {name_list([c for c in (time, name) if c])}"
            )
        recordings = _long(frame, channels, options, source_name)
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


def _long(frame: pd.DataFrame, channels: list[str], options: dict[str, Any], source_name: str) -> list[Recording]:
    """A row for each moment, in the order of time if there is a column of it; moments that are missing become NaN."""
    time, name = options["time"], options["id"]
    moments, in_seconds = (None, False) if time is None else _seconds(frame[time], source_name)
    parts: list[tuple[Hashable, Any]] = [("0", frame)] if name is None else list(frame.groupby(name, sort=False))
    clocks = []
    for each, part in parts:
        clock = np.arange(len(part), dtype=float) if moments is None else moments[part.index].to_numpy()
        order = np.argsort(clock, kind="stable")
        if (twice := np.diff(clock[order]) == 0).any():
            raise InputError(
                f"{source_name}: recording {one_line(each, 40)!r} has two rows at {time} "
                f"{one_line(part[time].iloc[order[int(twice.argmax())]], 40)}, expected one for each moment"
                + ("; several recordings are told apart by --id COLUMN" if name is None else "")
            )
        clocks.append((order, clock[order]))
    steps = np.concatenate([np.diff(clock) for _, clock in clocks])
    if not len(steps):
        raise InputError(f"{source_name} has one moment of each recording, expected several rows with one {name}")
    step = float(np.median(steps))
    alike = bool((np.abs(steps / step - 1) < ALIKE).all())
    if not alike and (np.abs(steps / step - np.round(steps / step)) > EQUAL).any():
        raise InputError(
            f"{source_name}: moments are {steps.min():g} to {steps.max():g} apart ({time}, mostly {step:g}), expected "
            "equal steps, or multiples of them where moments are missing: bring them onto equal steps first"
        )
    equal = not alike or bool((np.abs(steps / step - 1) < EQUAL).all())
    rate = round(1 / step, 6) if in_seconds and equal else None
    found = []
    for (each, part), (order, clock) in zip(parts, clocks, strict=True):
        values = part[channels].to_numpy(np.float32)[order]
        places = np.arange(len(clock)) if alike else np.round((clock - clock[0]) / step).astype(int)
        x = np.full((len(channels), int(places[-1]) + 1), np.nan, np.float32)
        x[:, places] = values.T
        facts = {option: _one_value(part, options[option], each, source_name) for option in ("label", "groups")}
        found.append(Recording(x, str(each), rate, channels, facts["label"], facts["groups"]))
    return found


def _seconds(column: Any, source_name: str) -> tuple[Any, bool]:
    """Times as numbers, and whether they are seconds: numbers, of which 0, 1, 2, ... count points, or dates."""
    if column.dtype.kind in "biuf":
        if column.isna().any():
            raise InputError(f"{source_name}: {int(column.isna().sum())} rows have no {column.name}, expected its time")
        counted = column.dtype.kind in "biu" or bool((column == column.round()).all())
        per_second = 1000 if str(column.name).lower().endswith("ms") else 1
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
