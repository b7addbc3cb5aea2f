"""Whether the first line of a text table names its columns, or has values as the others."""

import re

import numpy as np
import pandas as pd

from viewsmith.modalities import frames

#: Numbers as spreadsheets write them where the comma is the decimal mark, and columns therefore have another separator.
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")

#: Cells of missing values that are no names of columns.
_MISSING = ("NA", "NaN", "nan", "null", "?")
LOOKED_AT = 50  # first lines


def has_header(lines: pd.DataFrame) -> bool:
    """Whether the first of some lines, (lines, columns) of texts, has names rather than values.

    It has values if it has numbers in every column in which the other lines have numbers, at least two, which are not
    in order, as wavelengths or times are, nor all different and far from those below them; or if another line has one
    of its texts, as classes do. Of up to four numbers the order tells nothing where they are near those below them. A
    single column has values if all are numbers. Of up to three columns of texts or numbers and one of a few numbers or
    words, as names and sequences with their class, the first line has values if its class is one of these, and its
    texts are not shorter than all others.
    """
    first, rest = lines.iloc[0], lines.iloc[1:]
    if 2 <= lines.shape[1] <= 4 and len(rest) >= 6 and numbers_of(first).notna().sum() < 2:
        for kind in lines.columns:
            texts = [name for name in lines.columns if name != kind]
            few = first[kind] in set(rest[kind]) - {""} and rest[kind].nunique() <= len(rest) / 2
            long = all(rest[text].str.len().min() <= len(first[text]) for text in texts)
            if few and long and all(numbers_of(lines[text]).isna().nunique() == 1 for text in texts):
                return False
    if lines.shape[1] == 1 or numbers_of(first).notna().sum() < 2:
        return bool(lines.shape[1] > 1 or numbers_of(lines[0]).isna().any())
    numbers = [name for name in lines.columns if numbers_of(rest[name][~_missing(rest[name])]).notna().all()]
    found, none = numbers_of(first[numbers]), _missing(first[numbers])
    if (found.isna() & ~none).any() or found.notna().sum() < 2 or (first.iloc[0] == "" and lines.columns[0] in numbers):
        return True
    near = [_is_near(found[name], numbers_of(rest[name])) for name in numbers[:200] if not none[name]]
    several = len(rest) >= 6 and len(near) >= 4
    if several and sum(near) < len(near) / 2 and found.dropna().is_unique:  # as numbers of kinds of bacteria
        return True
    steps = np.diff(found.dropna())
    ordered = bool((steps > 0).all() or (steps < 0).all())
    if found.notna().sum() <= 4 and len(rest) >= 3 and (np.abs(steps) != 1).any():  # columns may be named 1, 2, 3
        ordered = ordered and not all(near)
    return ordered and not any(first[name] in set(rest[name]) for name in lines.columns if name not in numbers)


def _is_near(number: float, others: pd.Series) -> bool:
    """Whether a number is within the range of others, or two of their steps beside it."""
    if others.isna().all():
        return False
    beside = 2 * others.diff().abs().median()
    return bool(others.min() - beside <= number <= others.max() + beside)


def numbers_of(cells: pd.Series) -> pd.Series:
    """Numbers, also those with a comma before decimals, and NaN for other cells."""
    if any("," in str(cell) for cell in cells):
        points = [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(str(cell)) else cell for cell in cells]
        cells = pd.Series(points, cells.index, dtype=object)
    return frames.to_numbers(cells)


def _missing(cells: pd.Series) -> pd.Series:
    return cells.isin(["", *_MISSING])
