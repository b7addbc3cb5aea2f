"""Columns of a pandas DataFrame: which are numbers, and what they hold. Imported only where a DataFrame is at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, one_line, pluralize

# Kinds of Python objects that a column of dtype object may hold and still be numbers with gaps.
_NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}


def is_numeric(column: pd.Series) -> bool:
    """True for real numbers and booleans, with or without missing values."""
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)


def check_no_text(frame: pd.DataFrame, columns: list[Any], what: str) -> None:
    """Raise InputError that names those `columns` that are not numbers, each with a value that is not."""
    other = [column for column in columns if not is_numeric(frame[column])]
    if other:
        shown = [f"{one_line(column, 60)} (holds {_example(frame[column])})" for column in other[:5]]
        raise InputError(
            f"{what} has {pluralize(len(other), 'column')} that {'is' if len(other) == 1 else 'are'} not numbers: "
            f"{name_list(shown + other[5:])}; leave them out with drop (--drop) or encode them with one_hot (--one-hot)"
        )


def values(frame: pd.DataFrame) -> np.ndarray:
    """Numeric columns as float64, shape (n, d), missing values as NaN."""
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def one_hot(column: pd.Series, categories: list[str]) -> tuple[np.ndarray, list[str]]:
    """Indicator columns of `categories` and the values that are none of them.

    Returns
    -------
    block : ndarray of float32, shape (n, len(categories))
        A row of zeros where the value is missing or unseen.
    unseen : list of str
    """
    codes, uniques = pd.factorize(column)
    texts = [_category(value) for value in uniques]
    position = {category: i for i, category in enumerate(categories)}
    # factorize marks a missing value by -1, which picks the extra entry at the end.
    target = np.array([position.get(text, -1) for text in texts] + [-1])[codes]
    block = np.zeros((len(column), len(categories)), dtype=np.float32)
    hot = np.flatnonzero(target >= 0)
    block[hot, target[hot]] = 1.0
    return block, [text for text in texts if text not in position]


def categories(column: pd.Series, what: str) -> list[str]:
    """Sorted distinct values of a column as text."""
    try:
        found = sorted({_category(value) for value in column.dropna().unique()})
    except TypeError as error:
        name = one_line(column.name, 60)
        raise InputError(
            f"{what}: column {name} holds {_example(column)}, which cannot be one-hot encoded; use drop (--drop)"
        ) from error
    if not found:
        raise InputError(
            f"{what}: column {one_line(column.name, 60)} holds no value at all; leave it out with drop (--drop)"
        )
    return found


def labels(column: pd.Series, what: str) -> np.ndarray:
    """A label column as numbers or text; raise InputError where one is missing."""
    missing = int(column.isna().sum())
    if missing:
        raise InputError(
            f"{what}: label column {one_line(column.name, 60)} has {pluralize(missing, 'missing value')} (empty or NA) "
            f"in {pluralize(len(column), 'row')}; label every row, or leave the label out"
        )
    found = column.to_numpy()
    return found if found.dtype.kind in "biuf" else np.array([str(value) for value in found], dtype=np.str_)


def _category(value: object) -> str:
    # A column of whole numbers becomes floats as soon as one value is missing: 1 and 1.0 are the same category.
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _example(column: pd.Series) -> str:
    """A value that keeps the column from being numbers."""
    given = column.dropna()
    if column.dtype == object:
        parsed = pd.to_numeric(given.astype(str), errors="coerce")
        given = given[parsed.isna()] if parsed.isna().any() else given
    return one_line(repr(given.iloc[0]), 40) if len(given) else f"nothing, dtype {column.dtype}"
