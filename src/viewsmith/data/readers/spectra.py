"""Readers of spectra: a row or a column of a table each, or a file of two columns each."""

import codecs
import contextlib
import importlib
import io
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, say, suggest, warn
from viewsmith.data.layouts import refuse_matrices
from viewsmith.data.options import DataOptions
from viewsmith.data.places import TEXT_TABLES
from viewsmith.data.reading import FileContents, open_text, reader, reading
from viewsmith.data.recording_files import files_of, name_in
from viewsmith.data.recordings import Recording, labels_of_recordings
from viewsmith.modalities.frames import check_no_text, in_order, named_points, unit_of
from viewsmith.modalities.series.modality import SHORTEST
from viewsmith.modalities.spectra.modality import at_points, equal_axes

if TYPE_CHECKING:
    import pandas as pd

TEXT, JCAMP = (".xy", ".xye", ".dpt", ".prn"), (".jdx", ".dx", ".jcm")
#: Names of columns that have the axis, not a spectrum.
_AXIS = re.compile(r"(?i)wave|\bnm\b|cm-1|raman|shift|theta|energy|m/z|\bmz\b|ppm|frequency|\baxis\b")
HEAD = 2**20  # bytes of a file that tell whether it has one spectrum
FILLED = 0.1  # part of the points of a spectrum, at most, whose values are interpolated


def spectra_of_table(frame: "pd.DataFrame", request: DataOptions, source_name: str) -> FileContents:
    """The spectra of a table: a row each, whose columns are named by the points of an axis, or a column each, beside
    one that has these points."""
    fitted = request.schema is not None
    options = {each: request.or_fitted(each) for each in ("label", "groups", "time")}
    named = [*options.items(), *(("drop", name) for name in request.drop)]
    for option, column in named:
        if column is not None and column not in frame.columns and not fitted:
            hint = suggest(column, list(frame.columns), "its columns are")
            raise InputError(f"{source_name} has no column {one_line(column, 60)!r}, given as {option}; {hint}")
    for option in ("one_hot", "columns"):
        if getattr(request, option):
            raise InputError(f"{source_name} is read as spectra, on which {option} has no effect: leave it out")
    drop = (request.schema or {}).get("drop", request.drop)
    frame = frame.drop(columns=[column for column in drop if column in frame.columns])
    others = frame.drop(columns=[column for column in options.values() if column in frame.columns])
    numbers = [name for name in others.columns if others[name].dtype.kind in "biuf"]
    along = options["time"] or next((name for name in numbers if _AXIS.search(name) and _in_order(frame[name])), None)
    if along in frame.columns:
        columns = [name for name in numbers if name != along and not name.startswith("Unnamed: ")]
        if not columns:
            raise InputError(f"{source_name} has no column of numbers beside {one_line(along, 60)}, expected spectra")
        say(f"{source_name}: {pluralize(len(columns), 'spectrum', 'spectra')} in columns, at the points of {along}")
        axis, rows = _ordered(
            frame[along].to_numpy(np.float64), frame[columns].to_numpy(np.float32, na_value=np.nan).T, source_name
        )
        spectra = [Recording(row[None], name) for row, name in zip(rows, columns, strict=True)]
        return _contents(spectra, [axis] * len(spectra), request, source_name, named=str(along))
    columns, axis = named_points(others) or ([], np.empty(0))
    by_name: dict[str, Any] = {}  # points that only the names of columns tell
    if len(columns) < SHORTEST:
        columns = (request.schema or {}).get("points") or numbers
        axis, by_name = np.arange(len(columns), dtype=float), {"points": columns}
        if lacking := [name for name in columns if name not in numbers]:
            raise InputError(f"{source_name} has no column of numbers {name_list(lacking)}, a point of the run")
        if len(columns) >= SHORTEST and not fitted:
            say(
                f"{source_name}: columns are not named by the points of an axis: all of numbers are taken as points, "
                f"{one_line(columns[0], 40)} to {one_line(columns[-1], 40)}"
            )
    if len(columns) < SHORTEST:
        raise InputError(
            f"{source_name} has {pluralize(len(columns), 'column')} of numbers, expected spectra: a row each, with a "
            "column for each point, or a column each, with a column of points named wavelength or given by --time"
        )
    check_no_text(others, columns, source_name, "correct these cells, or leave the points out with drop (--drop)")
    if left := [name for name in others.columns if name not in set(columns)]:
        points = f"{pluralize(len(columns), 'point')}, {columns[0]} to {columns[-1]}"
        say(f"{source_name}: {points}; left out {name_list(left)}")
    if not in_order(axis) and not fitted:
        say(f"{source_name}: columns are put in the order of the points of the axis")
    axis, x = _ordered(axis, frame[columns].to_numpy(np.float32, na_value=np.nan), source_name)
    labels, groups = (
        [None] * len(x) if column not in frame.columns else frame[column].tolist()
        for column in (options["label"], options["groups"])
    )
    named_rows = zip(x, labels, groups, strict=True)
    spectra = [
        Recording(row[None], str(i), label=label, group=group) for i, (row, label, group) in enumerate(named_rows)
    ]
    named_by = "" if by_name else unit_of(columns)
    found = _contents(spectra, [axis] * len(spectra), request, source_name, named=named_by)
    return replace(found, options=found.options | by_name)


def spectra_of_arrays(
    found: FileContents, arrays: Mapping[str, np.ndarray], request: DataOptions, source_name: str
) -> FileContents:
    """Spectra of an array, (n, points) or (n, 1, points), at the points of one of the arrays that are named as an axis
    is (`AXIS_ARRAY`); as they are, if none fits."""
    x = np.asarray(found.x)
    if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[1] != 1) or x.dtype.kind not in "biuf":
        return found
    x = x.reshape(len(x), -1)
    flat = {name: np.asarray(array, np.float64).ravel() for name, array in arrays.items() if array.dtype.kind in "iuf"}
    fits = [name for name, array in flat.items() if array.size in x.shape]
    along = next((name for name in fits if flat[name].size == x.shape[1]), None)
    if along is None and fits and found.y is None and found.n_train is None:
        along, x = fits[0], x.T
        say(f"{source_name}: {pluralize(len(x), 'spectrum', 'spectra')} in columns")
    if along is None:
        return found
    others = [name for name in fits if name != along and flat[name].size == x.shape[1]]
    say(f"{source_name}: spectra at the points of {along}" + f", not of {name_list(others)}" * bool(others))
    axis, rows = _ordered(flat[along], x.astype(np.float32), f"{along} in {source_name}")
    spectra = [Recording(row[None], str(number)) for number, row in enumerate(rows)]
    plain = replace(request, groups=None, labels=None, label=None)
    made = _contents(spectra, [axis] * len(spectra), plain, source_name, named=along)
    return replace(found, x=made.x, names=None, options=found.options | made.options, modality="spectra")


#: Names of arrays that have the points of an axis.
AXIS_ARRAY = re.compile(
    r"(?i)x|ax|q|k|nu|wls?|wns?|lam(bda)?s?|nms?|mzs?|m_z|ppms?|\w*(axis|axes|axisscale)\w*|\w*wave\w*|wav|freq\w*|"
    r"\w*raman_?shifts?|shifts?|(two_?|2)?theta|energ(y|ies)|bands|wavelength\w*"
)


def _in_order(column: Any) -> bool:
    return len(column) >= SHORTEST and in_order(column.to_numpy(np.float64))


def _ordered(axis: np.ndarray, values: np.ndarray, source_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Points of an axis that rise or fall, and values (..., points) at these: sorted if need be, once each."""
    known = np.isfinite(axis)
    axis, values = axis[known], values[..., known]
    if in_order(axis):
        return axis, values
    points, first = np.unique(axis, return_index=True)
    if len(points) < (1 - FILLED) * len(axis):
        raise InputError(
            f"{source_name}: its axis has {len(axis):,} points, of which {len(axis) - len(points):,} are there before; "
            "expected one spectrum: write several to a file each"
        )
    return points, values[..., first]


@reader(
    "spectra",
    *TEXT,
    *JCAMP,
    in_folders=(*TEXT, *JCAMP),
    help="spectra, a file of two columns or of JCAMP-DX each; of a folder with labels by folders or by a table",
    noun="a file of a spectrum",
    modality="spectra",
    options=("labels", "channels", "encoding"),
    extra="signals",
    example="raman/",
)
def read_spectra(path: Path, request: DataOptions) -> FileContents:
    """Spectra (n, 1, points): of each file the second column, or the one that is named by --channels."""
    for option in ("drop", "one_hot", "columns", "time", "length", "step", "rate"):
        if getattr(request, option):
            raise InputError(f"{path} is read as spectra, a file each, on which {option} has no effect: leave it out")
    if path.is_dir():
        refuse_matrices(path, AXIS_ARRAY)
    files, n_train = files_of(path, (*TEXT, *JCAMP, *TEXT_TABLES))
    spectra, axes, wanted = list[Recording](), list[np.ndarray](), request.or_fitted("channels")
    axis_names: set[str] = set()
    faults: dict[Path, InputError] = {}  # of texts about the data, too
    notes: dict[str, list[str]] = {}  # on files
    of_units: dict[str, dict[str, list[str]]] = {"x": {}, "y": {}}  # of JCAMP-DX, and the files of each
    train = n_train
    for number, (file, label) in enumerate(files):
        about = file.stem.lower() == "readme" or (request.labels is not None and file.samefile(request.labels))
        try:
            if not about:
                if file.suffix.lower() in JCAMP:
                    own, height, units, noted = _jcamp(file, request)
                    named = units["x"]
                    for along, unit in units.items():
                        of_units[along].setdefault(unit, []).append(name_in(path, file))
                    for note in noted:
                        notes.setdefault(note, []).append(name_in(path, file))
                else:
                    own, height, named = _columns(file, wanted, request, first=not axes)
                axis, values = _ordered(own, height, str(file))
                if len(axis) < SHORTEST:
                    raise _NoSpectrum(f"{file} has {pluralize(len(axis), 'point')}, expected at least {SHORTEST}")
                axes.append(axis)
                axis_names.add(named)
                spectra.append(Recording(values[None].astype(np.float32), name_in(path, file), label=label))
                continue
        except _NoSpectrum as error:
            faults[file] = error
        if n_train is not None and train is not None and number < n_train:
            train -= 1
    if not spectra:
        endings = " ".join((*TEXT, *JCAMP, ".txt", ".csv"))
        raise next(iter(faults.values()), InputError(f"{path} has no files of spectra ({endings})"))
    for note, noted_files in notes.items():
        warn(f"{path}: {name_list(noted_files, 5)}: {note}")
    if faults:
        names = name_list([name_in(path, file) for file in faults], 5)
        warn(f"{path}: {pluralize(len(faults), 'file')} without a spectrum, left out: {names}")
    for along, what in (("y", "values"), ("x", "axes")):
        if len(found_units := of_units[along]) > 1:
            each = [f"{unit or 'none'} ({len(files)}, such as {files[0]})" for unit, files in found_units.items()]
            warn(
                f"{path}: {what} have different units ({along.upper()}UNITS), and are taken as they are: "
                f"{name_list(each, 5)}; give those of one unit"
            )
    named = axis_names.pop() if len(axis_names) == 1 else ""
    found = _contents(spectra, axes, request, str(path), train, path if path.is_dir() else None, named)
    return replace(found, options=found.options | {"of_files": True})


class _NoSpectrum(InputError):
    """A file that has no spectrum."""


def _jcamp(file: Path, request: DataOptions) -> tuple[np.ndarray, np.ndarray, dict[str, str], list[str]]:
    """Axis and values of a file of JCAMP-DX, the units of both, and what is to be said of it."""
    library: Any = importlib.import_module("jcamp")
    with reading(str(file), "a JCAMP-DX file"), open_text(file, "give a part of it") as opened:
        lines = [line.partition("$$")[0] for line in _text(opened.read(), request).splitlines()]
    linked = any(re.match(r"(?i)##\s*data\s?type\s*=\s*link", line) for line in lines)
    ends = [number for number, line in enumerate(lines, 1) if line.upper().startswith("##END=")]
    printed = io.StringIO()  # by the library, where lines do not fit each other
    with reading(str(file), "a JCAMP-DX file"), contextlib.redirect_stdout(printed):
        found = library.read(lines if linked or not ends else lines[: ends[0]])
        blocks = [each for each in found.get("children", [found]) if len(each["x"])]
        spectra = [each for each in blocks if "peak table" not in each or "xydata" in each or "xypoints" in each]
        if blocks and not spectra:
            raise InputError(
                f"{file} is a table of peaks, expected a value at each point of an axis: give the spectrum"
            )
        axis, values = (np.asarray(spectra[0][name] if spectra else [], np.float64) for name in ("x", "y"))
        if len(axis) != len(values) or len(axis) < SHORTEST:
            raise ValueError(f"{len(axis)} points and {len(values)} values")
    several = ["the first of several spectra is read"] * ((len(spectra) if linked else len(ends)) > 1)
    wrong = "Y-Check" in printed.getvalue()
    damaged = ["lines do not begin with the value that those before end with: damaged?"] * wrong
    units = {along: str(spectra[0].get(f"{along}units", "")).strip() for along in "xy"}
    units["x"] = "cm-1" if units["x"].lower() in ("1/cm", "cm-1", "cm^-1") else units["x"]
    return axis, values, units | {"y": units["y"].upper()}, several + damaged


def holds_one(path: Path, request: DataOptions) -> bool:
    """Whether a text file has one spectrum, of two columns, rather than a table of several; for a run on such files
    also of a few columns."""
    few = SHORTEST - 1 if (request.schema or {}).get("of_files") else 2
    with open_text(path, "give a part of it") as opened:
        lines = _text(opened.read(HEAD), request).splitlines()
    run = _longest(lines[: len(lines) - (len(lines) > SHORTEST)])[0]
    return len(run) >= SHORTEST and len(run[0]) <= few


def _text(raw: bytes, request: DataOptions) -> str:
    """The text of a file, in the given encoding, that of its mark or of its zeros, or in UTF-8."""
    marked = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    zeros = raw[:200:2].count(0), raw[1:200:2].count(0)
    unmarked = "utf-16-le" if zeros[1] > 20 > zeros[0] else "utf-16-be" if zeros[0] > 20 > zeros[1] else "utf-8-sig"
    return raw.decode(request.encoding or ("utf-16" if marked else unmarked), "replace")


def _columns(file: Path, wanted: Any, request: DataOptions, first: bool) -> tuple[np.ndarray, np.ndarray, str]:
    """Axis and values of a text file, and the name of the axis: of the longest run of lines that are numbers the first
    two columns; what stands before and after is about the instrument."""
    with reading(str(file), "a text file"), open_text(file, "give a part of it") as opened:
        text = _text(opened.read(), request)
    if text.lstrip().upper().startswith("##TITLE"):
        raise InputError(f"{file} is a JCAMP-DX file by its first line: rename it to {file.stem}.jdx")
    run, names = _longest(text.splitlines())
    if len(run) < SHORTEST:
        raise _NoSpectrum(
            f"{file}: {pluralize(len(run), 'line')} of two numbers, expected a spectrum: at least {SHORTEST} lines of "
            "a point of the axis and its value"
        )
    table = np.array(run)
    named = len(names) == table.shape[1]
    names = names if named else [str(number) for number in range(table.shape[1])]
    several = table.shape[1] > 2
    counts = several and in_order(table[:, 1]) and bool((np.diff(table[:, 0]) == 1).all() and table[0, 0] in (0, 1))
    along = next(
        (i for i, name in enumerate(names) if named and _AXIS.search(name) and in_order(table[:, i])), int(counts)
    )
    others = [i for i in range(table.shape[1]) if i != along and not (counts and i == 0)]
    column = others[0] if wanted is None else next((i for i in others if names[i] == str(wanted[0])), None)
    if column is None:
        has = name_list([names[i] for i in others])
        raise InputError(f"{file} has no column {one_line(str(wanted[0]), 60)!r} of values; it has {has}")
    if first and wanted is None and several:
        rest = [names[i] for i in others if i != column]
        more = f"; others are {name_list(rest)} (--channels)" if rest else ""
        say(f"{file}: the column {names[column]} is read, at the points of {names[along]}{more}")
    return table[:, along], table[:, column], names[along] if named else ""


def _longest(lines: list[str]) -> tuple[list[list[float]], list[str]]:
    """The longest run of lines of numbers, and the cells of the line before it. Empty lines and comments are skipped
    where the axis goes on behind them; a cell without a number is NaN."""
    best, run, names, above, before = list[list[float]](), list[list[float]](), list[str](), list[str](), list[str]()
    cut, mark = False, None  # since the last line of the run; between its cells
    for line in [*lines, "end"]:
        if run and not cut:
            try:  # most lines
                numbers = [float(cell) for cell in line.split(mark)]
            except ValueError:
                numbers = []
            if len(numbers) == len(run[0]) and not math.isnan(numbers[0]):
                run.append(numbers)
                continue
        line, comment = line.strip(), line.lstrip()[:1] in ("#", "%", "!")
        if run and (not line or comment):
            cut = True
            continue
        cells = _cells(line.lstrip("#%! ") if comment else line)
        numbers = [] if not line or comment else [_number(cell) for cell in cells]
        known = [not math.isnan(number) for number in numbers]
        if run and any(known) and len(numbers) == len(run[0]):
            back = len(run) > 1 and (numbers[0] - run[-1][0]) * (run[-1][0] - run[-2][0]) <= 0
            if not (cut and back):
                run.extend([numbers] if known[0] else [])
                cut = False
                continue
        if len(run) > len(best):
            best, names = run, above
        run, above, cut = [numbers] if sum(known) >= 2 and all(known) else [], before, False
        before, mark = cells if line else before, _mark(line)
    return best, names


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        pass
    try:  # as Fortran writes it, and with commas between thousands
        return float(cell.lower().replace("d", "e") if not _THOUSANDS.fullmatch(cell) else cell.replace(",", ""))
    except ValueError:
        return float("nan")


_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d*")


def _cells(line: str) -> list[str]:
    """The cells of a line, between tabs, semicolons, commas or spaces; a comma is one of decimals beside the others."""
    line = re.sub(r"\s+[#!%].*", "", line.replace('"', "")).strip()
    mark = _mark(line)
    cells = [cell.strip() for cell in line.split(mark)] or [""]
    while len(cells) > 2 and not cells[-1]:
        cells.pop()
    return cells if mark == "," else [_DECIMAL.sub(r"\1.\2", cell) for cell in cells]


def _mark(line: str) -> str | None:
    mark = next((mark for mark in ("\t", ";", ",") if mark in line), None)
    decimals = mark == "," and len(line.split()) > 1 and all(_DECIMAL.fullmatch(cell) for cell in line.split())
    return None if decimals else mark


_DECIMAL = re.compile(r"^([+-]?\d*),(\d+(?:[eEdD][+-]?\d+)?)$")


def _apart(spectra: list[Recording], axes: list[np.ndarray]) -> str:
    """The spectra that have no point between the median ends of the axes."""
    first, last = np.array([each.min() for each in axes]), np.array([each.max() for each in axes])
    low, high = float(np.median(first)), float(np.median(last))
    apart = [
        f"{each.name} ({a:g} to {b:g})"
        for each, a, b in zip(spectra, first, last, strict=True)
        if a >= high or b <= low
    ]
    return f": {name_list(apart, 5)} beside others of {low:g} to {high:g}" if apart and low < high else ""


def _contents(
    spectra: list[Recording],
    axes: list[np.ndarray],
    request: DataOptions,
    source_name: str,
    n_train: int | None = None,
    folder: Path | None = None,
    named: str = "",
) -> FileContents:
    """Spectra as samples, on one axis: that of the run, or theirs, or of unequal ones what they share; `named` is its
    name or unit."""
    fitted = (request.schema or {}).get("axis")
    axis = axes[0] if fitted is None else np.asarray(fitted, np.float64)
    distinct = list({id(each): each for each in axes}.values())  # a table has one for all
    if not all(equal_axes(each, axis) for each in distinct):
        if not all(equal_axes(each, axis) or equal_axes(each[::-1], axis) for each in distinct):
            if fitted is None:
                low, high = max(float(each.min()) for each in axes), min(float(each.max()) for each in axes)
                if low >= high:
                    raise InputError(
                        f"{source_name}: the axes of its spectra do not overlap{_apart(spectra, axes)}; give those of "
                        "one instrument"
                    )
                inside = [np.sum((each >= low) & (each <= high)) for each in axes]
                axis = np.linspace(low, high, int(np.median(inside)))
            say(
                f"{source_name}: spectra of unequal axes, interpolated at {pluralize(len(axis), 'point')} from "
                f"{axis.min():g} to {axis.max():g}"
            )
        spectra = [
            replace(each, x=at_points(axis, own, each.x[0], f"{source_name}: spectrum {one_line(each.name, 60)}")[None])
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
    named = (request.schema or {}).get("axis_name", named if fitted is None else "").strip()
    kept = {"axis": axis.tolist()} | ({"axis_name": one_line(named, 40)} if named else {})
    kept |= {n: v for n in ("time", "channels") if (v := request.or_fitted(n)) is not None}
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
