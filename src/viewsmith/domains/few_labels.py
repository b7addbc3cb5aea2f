"""Labels of some of the rows: what counts as a missing label, classes, and a feature that repeats the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, one_line, pluralize
from viewsmith.domains.checks import check_labels

#: What a row without a label has, in messages.
MISSING = "-1, NaN or empty"
# With fewer labels, a feature can have one value in each class by chance.
LEAK_ROWS = 20
LEAK_ROWS_OF_CLASS = 5  # for several features together


def missing_labels(y: np.ndarray) -> np.ndarray:
    """Which rows have no label, bool (n,): -1, NaN, None, or empty text."""
    if y.dtype.kind in "iu":
        return y == -1
    if y.dtype.kind == "f":
        return np.isnan(y) | (y == -1)
    if y.dtype.kind in "US":
        return np.isin(np.char.strip(y.astype(str)), ("", "-1"))
    if y.dtype.kind == "O":
        return np.array([_is_missing(value) for value in y], dtype=bool)
    return np.zeros(len(y), dtype=bool)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in ("", "-1")
    # NaN and NaT differ from themselves; pandas' NA has no truth value, and is recognized by its name.
    return value is None or type(value).__name__ == "NAType" or bool(value != value) or value == -1


def lacks_labels(y: np.ndarray, what: str = "y") -> bool:
    """Whether rows have no label: NaN, None or empty text; -1 is a class, as long as no label is missing.

    Raises
    ------
    InputError
        Labels are missing and others are -1, which then has two meanings.
    """
    if y.ndim != 1:
        return False
    absent = missing_labels(y) & ~_is_minus_one(y)
    if absent.any() and (minus := int(_is_minus_one(y).sum())):
        raise InputError(
            f"{what}: {pluralize(int(absent.sum()), 'label')} {'is' if absent.sum() == 1 else 'are'} missing (NaN or "
            f"empty) and {minus} {'is' if minus == 1 else 'are'} -1, which also means no label: rename the class -1"
        )
    return bool(absent.any())


def _is_minus_one(y: np.ndarray) -> np.ndarray:
    given = y.astype(str) if y.dtype.kind == "S" else y
    values = [value.strip() if isinstance(value, str) else value for value in given.tolist()]
    # pandas' NA compared with a number is NA.
    return np.array([value == "-1" if isinstance(value, str) else (value == -1) is True for value in values], bool)


def partial_labels(y: np.ndarray, n_rows: int, what: str = "y") -> np.ndarray:
    """Labels of which some are missing: integers with -1, or text with "" for missing ones, shape (n,).

    Raises
    ------
    InputError
        Another length or shape, or values that are not classes.
    """
    if y.shape != (n_rows,):
        raise InputError(f"{what} has shape {y.shape}, expected one label or {MISSING} per row, shape ({n_rows},)")
    absent = missing_labels(y)
    if absent.all():
        filled: np.ndarray = np.full(n_rows, -1)
        return filled
    given = y[~absent]
    if given.dtype.kind == "O":
        text = any(isinstance(value, str) for value in given)
        given = np.array([str(value) for value in given]) if text else np.array(given.tolist())
    given = check_labels(given, len(given), what)
    filled = np.full(n_rows, "" if given.dtype.kind == "U" else -1, dtype=_with_missing(given.dtype))
    filled[~absent] = given
    return filled


def _with_missing(dtype: np.dtype[Any]) -> Any:
    """The type of labels of a type, and of the marks of missing ones."""
    return dtype if dtype.kind == "U" else np.int64


def few_label_codes(y: Any, n_rows: int) -> np.ndarray:
    """Class numbers from 0, and -1 for rows without a label, int64 (n,).

    Parameters
    ----------
    y : array-like, shape (n,)
        Labels; -1, NaN, None or empty text where there is none.
    n_rows : int

    Raises
    ------
    InputError
        No labels, not one entry for each row, all missing or all of one class.
    """
    if y is None:
        raise InputError(
            "supervision is 'labels', but no labels were given: call fit(X, y) (--supervise COLUMN), or leave "
            "supervision out"
        )
    labels = partial_labels(np.asarray(y), n_rows)
    known = ~missing_labels(labels)
    if not known.any():
        raise InputError(
            f"supervision is 'labels', but all {n_rows} labels are missing ({MISSING}): label some rows of at least "
            "two classes, or leave supervision out"
        )
    classes, codes = np.unique(labels[known], return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"supervision is 'labels', but all {pluralize(int(known.sum()), 'labeled row')} have the label "
            f"{one_line(classes[0], 40)}: expected at least two classes"
        )
    found = np.full(n_rows, -1, dtype=np.int64)
    found[known] = codes
    return found


def repeated_by(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Columns that repeat the labels, alone or together: each has one value in a class, and they differ in all classes.

    The first column that does so alone; or all that do so together, as one indicator of each class does, if every class
    has at least 5 rows: in fewer rows sparse columns may be alike by chance.

    Parameters
    ----------
    x : ndarray, shape (n, d)
    y : int array (n,)
        Class numbers from 0, each with at least one row.
    """
    classes = int(y.max()) + 1
    first = x[np.unique(y, return_index=True)[1]]
    same = np.flatnonzero((x == first[y]).all(axis=0) & (first != first[0]).any(axis=0))
    for column in same:
        if len(np.unique(first[:, column])) == classes:
            return [int(column)]
    together = np.bincount(y).min() >= LEAK_ROWS_OF_CLASS and len(np.unique(first[:, same], axis=0)) == classes
    return [int(column) for column in same] if together else []


def check_no_leak(rows: np.ndarray, codes: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Raise InputError if features repeat the labels, see `repeated_by`.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        Vectors; other rows are not checked.
    codes : int array (n,)
        Class numbers, -1 without a label. Nothing is checked with fewer than 20 labels or 2 of a class on average.
    names : sequence of str, optional
        Names of the features, or of the columns of a table that they are of.
    """
    labeled = np.flatnonzero(codes >= 0)
    classes = int(codes.max()) + 1
    if rows.ndim != 2 or len(labeled) < max(LEAK_ROWS, 2 * classes):
        return
    found = repeated_by(rows[labeled], codes[labeled])
    if not found:
        return
    shown = list(dict.fromkeys(str(column) if not names else one_line(names[column], 60) for column in found))
    counted = "" if names else " (counted from 0)"
    if len(shown) == 1:
        raise InputError(
            f"the feature {shown[0]}{counted} repeats the labels: it has one value in each of the {classes} classes; "
            "leave it out (--drop)"
        )
    raise InputError(
        f"the features {name_list(shown, 5)}{counted} together repeat the labels: each has one value in each of the "
        f"{classes} classes, and no two classes agree in all of them; leave them out (--drop)"
    )
