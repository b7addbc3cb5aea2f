"""Roles of the columns of a table, inferred from dtype and content."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError
from viewsmith.core.messages import join_names, name_list, one_line, pluralize, suggest_names
from viewsmith.domains import frames
from viewsmith.domains.tables.dates import date_format, is_date_dtype
from viewsmith.domains.tables.decorated import warn_decorated
from viewsmith.domains.tables.mostly import DISTINCT, warn_mostly

#: Roles that a user can give.
GivenRole = Literal["numeric", "category", "text", "date", "drop"]
Role = Literal["numeric", "category", "text", "date", "identifier", "constant", "drop"]
LEFT_OUT: tuple[Role, ...] = ("identifier", "constant", "drop")

CATEGORIES = 40  # most values of a category, as in skrub
COVERED = 0.9  # of the rows, by the frequent values of a category with more values than that
FEW_ROWS = 20  # of fewer rows none is taken for an identifier
NEARLY_NUMBERS = 0.9  # of the cells of a text column are numbers: the others are probably mistakes
IDENTIFIER_NAMES = ("id", "index", "key", "uuid", "guid", "rowid", "row_id", "unnamed: 0")


@dataclass(frozen=True)
class Rare:
    """From how many rows on a value of a category has a feature of its own: 1 of less than 50 rows, at most 10."""

    rows: int

    @property
    def least(self) -> int:
        return 1 if self.rows < 50 else min(10, max(2, math.ceil(self.rows / 100)))


def choose_roles(
    frame: pd.DataFrame, given: Mapping[str, str] | None = None, what: str = "the table"
) -> dict[str, Role]:
    """The role of each column, by name: as given, otherwise inferred.

    - numbers are numeric; whole numbers that are all different and fill their range (or are named like an id) count
      rows: identifier
    - booleans, and text and pandas' categories of few values, are a category
    - dates, and text of dates, are a date
    - other text is text, but an identifier if every value is another one
    - a column with one value, or none, is constant

    Parameters
    ----------
    frame : DataFrame
        With names as text.
    given : mapping, optional
        Roles (`GivenRole`) by name, which are not inferred.
    what : str
        Name of the table in messages.

    Raises
    ------
    InputError
        An unknown column or role is given; a column is numeric but for at most a tenth of its cells, which are named.
    """
    given = given or {}
    for name, role in given.items():
        if name not in frame.columns:
            hint = suggest_names(name, list(frame.columns), "its columns are")
            raise InputError(f"{what} has no column {one_line(name, 60)!r}, given in columns; {hint}")
        if role not in get_args(GivenRole):
            raise InputError(
                f"the role of column {one_line(name, 60)} is {one_line(role, 60)!r}, expected "
                f"{join_names(get_args(GivenRole))}"
            )
    roles: dict[str, Role] = {}
    for name in frame.columns:
        roles[name] = given[name] if name in given else infer_role(frame[name], what)  # type: ignore[assignment]
        if name in given or roles[name] not in ("category", "text", "identifier"):
            continue
        is_text = pd.api.types.is_string_dtype(frame[name].dropna().dtype)
        # One warning of a column is enough.
        if is_text and not warn_decorated(frame[name], roles[name], what):
            warn_mostly(frame[name], roles[name], what)
    return roles


def infer_role(column: pd.Series, what: str = "the table") -> Role:
    """The role of a column by dtype and content, see `choose_roles`."""
    values = column.dropna()
    if column.dtype != object and frames.is_numeric(column) and not pd.api.types.is_bool_dtype(column.dtype):
        return _role_of_numbers(values, column)
    if len(values) and isinstance(first := values.iloc[0], list | tuple | dict | set | np.ndarray):
        raise InputError(
            f"{what}: column {one_line(column.name, 60)} holds {type(first).__name__} objects, expected numbers, text, "
            "booleans or dates; leave it out (--columns NAME=drop)"
        )
    counts = values.astype(object).map(frames.category_text).value_counts()
    if len(counts) == 0 or (len(counts) == 1 and len(values) == len(column)):
        return "constant"
    if is_date_dtype(column):
        return "date"
    if pd.api.types.is_bool_dtype(values.infer_objects()):
        return "category"
    if frames.is_numeric(column):
        return _role_of_numbers(values, column)
    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        _check_nearly_numbers(column, what)
        if date_format(values) is not None:
            return "date"
    elif not isinstance(column.dtype, pd.CategoricalDtype):
        raise InputError(
            f"{what}: column {one_line(column.name, 60)} is {column.dtype}, expected numbers, text, booleans or dates; "
            "convert it, or leave it out (--columns NAME=drop)"
        )
    if len(counts) == len(values) and len(column) >= FEW_ROWS:
        return "identifier"
    frequent = counts[counts >= Rare(len(column)).least]
    few = len(counts) <= CATEGORIES
    return "category" if few or (len(frequent) <= CATEGORIES and frequent.sum() >= COVERED * len(values)) else "text"


def is_plain(frame: pd.DataFrame, roles: Mapping[str, Role], gaps: bool = False) -> bool:
    """Whether all columns are numbers, with or without `gaps`, which need no encoder.

    A constant column of numbers is one of them, because the scaling ignores it.
    """
    for name, role in roles.items():
        if role not in ("numeric", "constant") or not frames.is_numeric(frame[name]):
            return False
    return gaps or not bool(frame[list(roles)].isna().to_numpy().any())


def describe_roles(roles: Mapping[str, Role]) -> str:
    """The roles of all columns in a line."""
    parts = []
    for role in ("numeric", "category", "text", "date"):
        if named := [name for name, its in roles.items() if its == role]:
            parts.append(f"{role} {name_list(named, 8)}")
    if left := [f"{name} ({its})" if its != "drop" else name for name, its in roles.items() if its in LEFT_OUT]:
        parts.append(f"left out {name_list(left, 8)}")
    return f"{pluralize(len(roles), 'column')}: {'; '.join(parts)}"


def _role_of_numbers(values: pd.Series, column: pd.Series) -> Role:
    """Identifier if the numbers count rows: whole, all different, and dense in their range or named like an id."""
    numbers, n, name = values.to_numpy(np.float64), len(column), str(column.name)
    if len(numbers) == 0 or (len(numbers) == n and numbers.min() == numbers.max()):
        return "constant"
    with np.errstate(invalid="ignore"):  # infinity is refused later
        whole = not numbers[0] % 1 and not (numbers % 1).any()
    if n < FEW_ROWS or len(numbers) < n or not whole or len(np.unique(numbers)) < n:
        return "numeric"
    named = name.lower() in IDENTIFIER_NAMES or name.lower().endswith(("_id", " id")) or name.endswith("Id")
    return "identifier" if named or numbers.max() - numbers.min() < 2 * n else "numeric"


def _check_nearly_numbers(column: pd.Series, what: str) -> None:
    """Refuse a text column in which nearly all cells are numbers, and name the others."""
    values = column.dropna().astype(str)
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = values[numbers.isna()]
    if len(wrong) == 0 or len(wrong) > (1 - NEARLY_NUMBERS) * len(values) or numbers.nunique() <= DISTINCT:
        return
    name = one_line(column.name, 60)
    raise InputError(
        f"{what}: column {name} is numbers but for {pluralize(len(wrong), 'cell')}: {list_cells(column, wrong)}; "
        f"correct {'it' if len(wrong) == 1 else 'them'}, or give --columns {name}=numeric (they are then missing) or "
        f"{name}=category"
    )


def list_cells(column: pd.Series, cells: pd.Series) -> str:
    """Cells of a column with the numbers of their rows, counted from 1 below the header."""
    rows: Any = column.index.get_indexer(cells.index) + 1
    return name_list([f"{one_line(repr(cell), 30)} in row {row:,}" for cell, row in zip(cells, rows, strict=True)], 3)
