"""Columns of DataFrames and tables of any library as DataFrames. Imported only where pandas is needed."""

import importlib.util
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, pluralize

# Inferred types of a column of dtype object that contains numbers, possibly with missing values.
_NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}


def is_numeric(column: pd.Series) -> bool:
    """Whether a column has real numbers or booleans, with or without missing values."""
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)


def no_numbers(frame: pd.DataFrame, columns: Iterable[Any]) -> list[Any]:
    """Those of some columns that are not numeric; each is looked at only if its type does not tell, as that is slow."""
    kinds = {name: dtype.kind for name, dtype in zip(frame.columns, frame.dtypes, strict=True)}
    return [name for name in columns if kinds[name] not in "biuf" and not is_numeric(frame[name])]


TABLE_ADVICE = "leave them out with drop (--drop) or encode them with one_hot (--one-hot)"


def check_no_text(frame: pd.DataFrame, columns: list[Any], source_name: str, advice: str = TABLE_ADVICE) -> None:
    """Raise InputError if some of `columns` are not numbers; the message names them, with an example value."""
    other = no_numbers(frame, columns)
    if other:
        named = [f"{one_line(column, 60)} (contains {_example(frame[column])})" for column in other[:5]]
        raise InputError(
            f"{source_name} has {pluralize(len(other), 'column')} that {'is' if len(other) == 1 else 'are'} not "
            f"numbers: {name_list(named + other[5:])}; {advice}"
        )


def values(frame: pd.DataFrame) -> np.ndarray:
    """Numeric columns as float64, shape (n, d), missing values as NaN."""
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def one_hot(column: pd.Series, categories: list[str]) -> tuple[np.ndarray, list[str]]:
    """Indicator columns of a column of categories."""
    codes, uniques = pd.factorize(column)
    texts = [category_text(value) for value in uniques]
    position = {category: i for i, category in enumerate(categories)}
    # factorize marks a missing value by -1, which selects the last entry.
    target = np.array([position.get(text, -1) for text in texts] + [-1])[codes]
    block = np.zeros((len(column), len(categories)), dtype=np.float32)
    hot = np.flatnonzero(target >= 0)
    block[hot, target[hot]] = 1.0
    return block, [text for text in texts if text not in position]


def categories(column: pd.Series, source_name: str) -> list[str]:
    """Sorted distinct values of a column as text."""
    try:
        found = sorted({category_text(value) for value in column.dropna().unique()})
    except TypeError as error:
        name = one_line(column.name, 60)
        raise InputError(
            f"{source_name}: column {name} contains {_example(column)}, which cannot be one-hot encoded; use drop "
            "(--drop)"
        ) from error
    if not found:
        raise InputError(
            f"{source_name}: column {one_line(column.name, 60)} has no value; leave it out with drop (--drop)"
        )
    return found


def labels(column: pd.Series) -> np.ndarray:
    """A label column as numbers or text, (n,); as objects if labels are missing."""
    if column.isna().any():
        return column.astype(object).to_numpy()
    found = column.to_numpy()
    return found if found.dtype.kind in "biuf" else np.array([str(value) for value in found], dtype=np.str_)


def with_columns(frame: pd.DataFrame, columns: Mapping[Any, Any]) -> pd.DataFrame:
    """A frame with some columns replaced or added, whose values are not copied; `assign` fails at one named self."""
    found = frame.copy(deep=False)
    for name, column in columns.items():
        found[name] = column
    return found


def without_columns(frame: pd.DataFrame, names: Iterable[Any]) -> pd.DataFrame:
    """A frame without some columns, whose values are not copied, as `drop` does."""
    found = frame.copy(deep=False)
    for name in names:
        del found[name]
    return found


def of_json(path: Path, lines: bool) -> pd.DataFrame:
    """The objects of a file of JSON, whose values stay as they are; a list, or one in each line."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The 'convert_dates' keyword")  # pandas 3.1 makes no dates without types
        return pd.read_json(path, lines=lines, dtype=False, convert_dates=False)


def by_value(cells: pd.Series, function: Callable[[pd.Series], Any]) -> pd.Series:
    """What a function gives for each cell, text without gaps; it is called once, with the distinct cells."""
    codes, found = pd.factorize(cells)
    return pd.Series(np.asarray(function(pd.Series(found)))[codes], index=cells.index)


# pandas 2 ends the process at an exponent of so many digits, as in names that are hashes: 82e72255267397.
HUGE = re.compile(r"\s*[+-]?[\d.]+[eE][+-]?\d{5}")


def is_huge(cell: object) -> bool:
    """Whether pandas would not survive a cell, see `HUGE`."""
    return type(cell) is str and HUGE.match(cell) is not None


def to_numbers(cells: pd.Series) -> pd.Series:
    """Cells as numbers, and NaN for those that are none."""
    if cells.dtype == object or pd.api.types.is_string_dtype(cells.dtype):
        cells = cells.mask(np.array(list(map(is_huge, cells)), dtype=bool))
    return pd.to_numeric(cells, errors="coerce")


def category_text(value: object) -> str:
    """A value of a category as text."""
    # A column of integers becomes float if a value is missing: 1 and 1.0 are the same category.
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _example(column: pd.Series) -> str:
    """A value of the column that is not a number, for a message."""
    given = column.dropna()
    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        parsed = to_numbers(given.astype(str))
        given = given[parsed.isna()] if parsed.isna().any() else given
    return one_line(repr(given.tolist()[0]), 40) if len(given) else f"nothing, dtype {column.dtype}"


def as_frame(X: Any, source_name: str = "the table") -> pd.DataFrame:
    """A table (`speaks_table`) as a DataFrame whose column names are text and different; values are not copied."""
    frame = X if isinstance(X, pd.DataFrame) else _converted(X, source_name)
    names = [str(name) for name in frame.columns]
    check_unique(names, f"{source_name} has columns with equal names")
    return frame.set_axis(names, axis=1)


def _converted(X: Any, source_name: str) -> pd.DataFrame:
    try:
        if hasattr(X, "__arrow_c_stream__") and importlib.util.find_spec("pyarrow") is not None:
            import pyarrow

            return pyarrow.table(X).to_pandas()
        if hasattr(X, "__dataframe__"):
            return pd.api.interchange.from_dataframe(X)
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"cannot convert {source_name}, a {type(X).__name__}, to a DataFrame of pandas ({reason})"
        ) from error
    raise InputError(f"{source_name} is a {type(X).__name__}: give X.to_pandas(), or install pyarrow")


_UNITS = "nm|nanometers?|um|µm|μm|cm-1|cm\\^-1|cm\\^?\\(-1\\)|cm⁻¹|1/cm|ev|kev|ppm|hz|da|m/z|°"
_POINT = re.compile(rf"(\D*?)([+-]?\d+(?:[.,]\d+)?(?:e[+-]?\d+)?)(?:[\s._]*[\[(]?({_UNITS})[\])]?)?", re.IGNORECASE)
MANY = 50  # columns that are named as points are, from which a table may be one of spectra
SMOOTH = 0.2  # mean step between the points of a spectrum over its deviation, at most; 1.1 in noise
MIXED = 0.5  # and over the mean step in a random order, which is small, too, where few values are large, as of genes


def named_points(frame: pd.DataFrame) -> tuple[list[str], np.ndarray] | None:
    """The columns that are named as the points of an axis, such as 868, X868.5 or "868 nm", and the points, in their
    order; None unless these differ. Columns of text are none, but for a few words among numbers."""
    kinds: dict[str, dict[str, float]] = {}  # by what stands before the number
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        match = _POINT.fullmatch(str(name).strip())
        if match and (dtype.kind in "biuf" or _mostly_numbers(frame[name])):
            kinds.setdefault(match[1], {})[name] = float(match[2].replace(",", "."))
    points = max(kinds.values(), key=len, default={})
    return (list(points), np.array(list(points.values()))) if len(set(points.values())) == len(points) > 1 else None


def unit_of(columns: Sequence[Any]) -> str:
    """The unit that the name of the first point has behind its number, such as nm; empty without one."""
    match = _POINT.fullmatch(str(columns[0]).strip())
    return "" if match is None else (match[3] or "")


def _mostly_numbers(column: pd.Series) -> bool:
    given = column.dropna()
    return bool(len(given)) and bool(to_numbers(given.astype(str)).notna().mean() >= 0.5)


def in_order(axis: np.ndarray) -> bool:
    """Whether the points of an axis only rise or only fall."""
    steps = np.diff(axis)
    return bool((steps > 0).all() or (steps < 0).all())


def smooth_points(frame: pd.DataFrame) -> list[str]:
    """Columns of a table that seem to be points of spectra or recordings: many, named by an axis, with values that
    hardly change from one to the next; empty if they are not."""
    frame = frame.head(100)
    found = named_points(frame.select_dtypes(["number", "bool"]))
    if found is None or len(found[0]) < MANY or not in_order(found[1]):
        return []
    x = frame[found[0]].to_numpy(np.float64)
    steps, deviation = np.abs(np.diff(x, axis=1)).mean(1), x.std(1)
    mixed = np.abs(np.diff(x[:, np.random.default_rng(0).permutation(x.shape[1])], axis=1)).mean(1)
    smooth = (steps < SMOOTH * deviation) & (steps < MIXED * mixed) & (deviation > 1e-6 * np.abs(x).max(1))
    return found[0] if len(x) and bool(np.median(smooth) == 1) else []
