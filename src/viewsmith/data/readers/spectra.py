"""Readers of spectra: a row or a column of a table each, or a file of two columns each."""

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, say, suggest, warn
from viewsmith.data.options import DataOptions
from viewsmith.data.places import TEXT_TABLES
from viewsmith.data.reading import FileContents, open_text, reader, reading
from viewsmith.data.recordings import Recording, files_of, labels_of_recordings, name_in
from viewsmith.modalities.frames import named_points
from viewsmith.modalities.series.modality import SHORTEST

if TYPE_CHECKING:
    import pandas as pd

TEXT, JCAMP = (".xy", ".xye", ".dpt", ".prn"), (".jdx", ".dx", ".jcm")
#: Names of columns that have the axis, not a spectrum.
_AXIS = re.compile(r"(?i)wave|\bnm\b|cm-1|raman|shift|theta|energy|m/z|\bmz\b|ppm|frequency|\baxis\b")
FILLED = 0.1  # part of the points of a spectrum, at most, whose values are interpolated


def spectra_of_table(frame: "pd.DataFrame", request: DataOptions, source_name: str) -> FileContents:
    """The spectra of a table: a row each, whose columns are named by the points of an axis, or a column each, beside
    one that has these points."""
    frame = frame.drop(columns=[column for column in request.drop if column in frame.columns])
    options = {each: request.or_fitted(each) for each in ("label", "groups", "time")}
    for option, column in options.items():
        if column is not None and column not in frame.columns and request.schema is None:
            hint = suggest(column, list(frame.columns), "its columns are")
            raise InputError(f"{source_name} has no column {one_line(column, 60)!r}, given as {option}; {hint}")
    others = frame.drop(columns=[column for column in options.values() if column in frame.columns])
    numbers = [name for name in others.columns if others[name].dtype.kind in "biuf"]
    along = options["time"] or next((name for name in numbers if _AXIS.search(name) and _in_order(frame[name])), None)
    if along is not None:
        columns = [name for name in numbers if name != along and not name.startswith("Unnamed: ")]
        x, axis, names = frame[columns].to_numpy(np.float32).T, frame[along].to_numpy(np.float64), columns
        if not columns:
            raise InputError(f"{source_name} has no column of numbers beside {one_line(along, 60)}, expected spectra")
        say(f"{source_name}: {pluralize(len(columns), 'spectrum', 'spectra')} in columns, at the points of {along}")
        spectra = [Recording(row[None], name) for row, name in zip(x, names, strict=True)]
        return _contents(spectra, [axis] * len(spectra), request, source_name)
    columns, axis = named_points(others) or (numbers, np.arange(len(numbers), dtype=float))
    if len(columns) < SHORTEST:
        raise InputError(
            f"{source_name} has {pluralize(len(columns), 'column')} of numbers, expected spectra: a row each, with a "
            "column for each point, or a column each, with a column of points named wavelength or given by --time"
        )
    if left := [name for name in others.columns if name not in set(columns)]:
        points = f"{pluralize(len(columns), 'point')}, {columns[0]} to {columns[-1]}"
        say(f"{source_name}: {points}; left out {name_list(left)}")
    x = frame[columns].to_numpy(np.float32)
    labels, groups = (
        [None] * len(x) if column not in frame.columns else frame[column].tolist()
        for column in (options["label"], options["groups"])
    )
    rows = zip(x, labels, groups, strict=True)
    spectra = [Recording(row[None], str(i), label=label, group=group) for i, (row, label, group) in enumerate(rows)]
    return _contents(spectra, [axis] * len(spectra), request, source_name)


def _in_order(column: Any) -> bool:
    steps = np.diff(column.to_numpy(np.float64))
    return len(steps) >= SHORTEST - 1 and bool((steps > 0).all() or (steps < 0).all())


@reader(
    "spectra",
    *TEXT,
    *JCAMP,
    in_folders=(*TEXT, *JCAMP),
    help="spectra, a file of two columns or of JCAMP-DX each; of a folder with labels by folders or by a table",
    noun="a file of a spectrum",
    modality="spectra",
    options=("labels", "channels"),
    extra="signals",
    example="raman/",
)
def read_spectra(path: Path, request: DataOptions) -> FileContents:
    """Spectra (n, 1, points): of each file the second column, or the one that is named by --channels."""
    files, n_train = files_of(path, (*TEXT, *JCAMP, *TEXT_TABLES))
    about = {file for file, _ in files if request.labels is not None and file.samefile(request.labels)}
    about |= {file for file, _ in files if file.stem.lower() == "readme"}
    n_train = None if n_train is None else n_train - sum(file in about for file, _ in files[:n_train])
    spectra, axes, wanted = list[Recording](), list[np.ndarray](), request.or_fitted("channels")
    for file, label in files:
        if file not in about:
            axis, values = _jcamp(file) if file.suffix.lower() in JCAMP else _columns(file, wanted, first=not axes)
            axes.append(axis)
            spectra.append(Recording(values[None].astype(np.float32), name_in(path, file), label=label))
    if not spectra:
        raise InputError(f"{path} has no files of spectra ({' '.join((*TEXT, *JCAMP, '.txt', '.csv'))})")
    return _contents(spectra, axes, request, str(path), n_train, path if path.is_dir() else None)


def _jcamp(file: Path) -> tuple[np.ndarray, np.ndarray]:
    library: Any = importlib.import_module("jcamp")
    with reading(str(file), "a JCAMP-DX file"):
        found = library.readfile(str(file))
        found = found["children"][0] if "children" in found and "x" not in found else found
        axis, values = (np.asarray(found[name], np.float64) for name in ("x", "y"))
        if len(axis) != len(values) or len(axis) < SHORTEST:
            raise ValueError(f"{len(axis)} points and {len(values)} values")
        return axis, values


def _columns(file: Path, wanted: Any, first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Axis and values of a text file: of the longest run of lines that are numbers the first two columns; what stands
    before and after is about the instrument."""
    with open_text(file, "give a part of it") as opened:
        lines = opened.read().decode("utf-8-sig", "replace").splitlines()
    best, run, names, before = list[list[float]](), list[list[float]](), list[str](), list[str]()
    for line in [*lines, ""]:
        cells = _cells(line)
        try:
            numbers = [float(cell) for cell in cells]
        except ValueError:
            numbers = []
        if len(numbers) >= 2 and (not run or len(numbers) == len(run[0])):
            run.append(numbers)
            continue
        if len(run) > len(best):
            best, names = run, before
        run, before = [numbers] if len(numbers) >= 2 else [], cells
    if len(best) < SHORTEST:
        raise InputError(
            f"{file}: {pluralize(len(best), 'line')} of two numbers, expected a spectrum: at least {SHORTEST} lines of "
            "a point of the axis and its value"
        )
    table = np.array(best)
    names = names if len(names) == table.shape[1] else [str(number) for number in range(table.shape[1])]
    column = 1 if wanted is None else next((i for i, name in enumerate(names) if name == str(wanted[0])), 0)
    if not column:
        raise InputError(
            f"{file} has no column {one_line(str(wanted[0]), 60)!r} of values; it has {name_list(names[1:])}"
        )
    if first and wanted is None and table.shape[1] > 2:
        say(f"{file}: the column {names[1]} is read; others are {name_list(names[2:])} (--channels)")
    return table[:, 0], table[:, column]


def _cells(line: str) -> list[str]:
    """The cells of a line, between tabs, semicolons, commas or spaces; a comma is one of decimals beside the former."""
    line = line.strip().strip(",;")
    mark = next((mark for mark in ("\t", ";", ",") if mark in line), None)
    cells = [cell.strip() for cell in line.split(mark)]
    return [cell.replace(",", ".") for cell in cells] if mark != "," else cells


def _contents(
    spectra: list[Recording],
    axes: list[np.ndarray],
    request: DataOptions,
    source_name: str,
    n_train: int | None = None,
    folder: Path | None = None,
) -> FileContents:
    """Spectra as samples, on one axis: that of the run, or theirs, or of unequal ones what they share."""
    fitted = (request.schema or {}).get("axis")
    axis = axes[0] if fitted is None else np.asarray(fitted, np.float64)
    if not all(_equal(each, axis) for each in axes):
        if fitted is None:
            low, high = max(float(each.min()) for each in axes), min(float(each.max()) for each in axes)
            if low >= high:
                raise InputError(f"{source_name}: the axes of its spectra do not overlap; give those of one instrument")
            axis = np.linspace(low, high, int(np.median([np.sum((each >= low) & (each <= high)) for each in axes])))
        say(
            f"{source_name}: spectra of unequal axes, interpolated at {pluralize(len(axis), 'point')} from "
            f"{axis.min():g} to {axis.max():g}"
        )
        spectra = [
            replace(each, x=_at(axis, own, each.x[0], each.name, source_name)[None])
            for each, own in zip(spectra, axes, strict=True)
        ]
    x = np.stack([each.x for each in spectra])
    if not (known := np.isfinite(x[:, 0])).all():
        if (lacking := known.mean(1) < 1 - FILLED).any():
            raise InputError(
                f"{source_name}: {pluralize(int(lacking.sum()), 'spectrum', 'spectra')} of {len(x):,} without finite "
                f"values at more than {FILLED:.0%} of the points, such as "
                f"{one_line(spectra[int(lacking.argmax())].name, 60)}: leave them out"
            )
        for row, finite in zip(x[:, 0], known, strict=True):
            row[~finite] = np.interp(np.flatnonzero(~finite), np.flatnonzero(finite), row[finite])
        count = int((~known.all(1)).sum())
        warn(
            f"{source_name}: {pluralize(int((~known).sum()), 'value')} of {pluralize(count, 'spectrum', 'spectra')} "
            "missing or infinite, interpolated"
        )
    y, groups = labels_of_recordings(spectra, request, source_name, folder)
    kept = {"axis": axis.tolist()} | {n: v for n in ("time", "channels") if (v := request.or_fitted(n)) is not None}
    return FileContents(
        x,
        y,
        n_train,
        row_names=[each.name for each in spectra],
        groups=groups,
        table={"columns": None, "one_hot": {}, "drop": list(request.drop), "label": request.or_fitted("label")},
        options=kept,
        modality="spectra",
    )


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=1e-6, atol=1e-9))


def _at(axis: np.ndarray, own: np.ndarray, values: np.ndarray, name: str, source_name: str) -> np.ndarray:
    """A spectrum between its points, at those of another axis, which it has to cover but for a step."""
    step = np.abs(np.diff(own)).max()
    if own.min() > axis.min() + step or own.max() < axis.max() - step:
        raise InputError(
            f"{source_name}: spectrum {one_line(name, 60)} runs from {own.min():g} to {own.max():g}, and those of the "
            f"run from {axis.min():g} to {axis.max():g}: give spectra of this range"
        )
    order = np.argsort(own, kind="stable")
    return np.interp(axis, own[order], values[order]).astype(np.float32)
