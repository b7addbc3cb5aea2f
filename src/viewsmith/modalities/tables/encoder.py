"""The encoder of a table: from a DataFrame to numbers for a model, and from numbers to rows that a person can read.

In distances every column counts as one, however many features it has. With numbers standardized, rows x and x' are at a
squared distance that is a sum over columns, as in Gower's coefficient (Gower 1971): (x - x')^2 in standard deviations
for a number, 1 for two different categories, and for text and dates as much, on average, as for a number. Neighbors are
searched in these units, and noise of strength s is s of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list
from viewsmith.modalities.checks import check_finite, match_columns, to_rows
from viewsmith.modalities.frames import as_frame
from viewsmith.modalities.tables import TableArray, speaks_table
from viewsmith.modalities.tables.columns import KINDS, Category, Column, Date, Number, Text
from viewsmith.modalities.tables.roles import LEFT_OUT, Role, choose_roles, describe_roles, is_plain

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, eq=False)
class TableEncoder:
    """Columns of a table, fitted to its training rows, unchanged by use: `roles` of all, `columns` not left out."""

    roles: dict[str, Role]
    columns: tuple[Column, ...]

    @property
    def features(self) -> list[str]:
        """Names of the features, of length d."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def column_of(self) -> list[int]:
        """Number of the column, in `columns`, that each feature is of; of length d."""
        return [number for number, column in enumerate(self.columns) for _ in column.features]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First feature of each column, and the one after its last."""
        ends = list(itertools.accumulate(len(column.features) for column in self.columns))
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def describe(self) -> str:
        """The roles of all columns in a line."""
        return describe_roles(self.roles)

    def encode(self, frame: pd.DataFrame, source_name: str = "the table") -> TableArray:
        """Rows of a table, whose columns are found by name, as numbers, float32 (n, d) without missing values."""
        match_columns(list(frame.columns), [column.name for column in self.columns], self.roles, source_name)
        blocks = [column.encode(frame[column.name], source_name) for column in self.columns]
        with np.errstate(over="ignore"):
            rows = np.concatenate(blocks, axis=1, dtype=np.float32, casting="same_kind")
        if not np.isfinite(rows).all():  # numbers that are too large are told from infinity by the blocks
            check_finite(np.concatenate(blocks, axis=1), self.features, "none", source_name)
        return TableArray(rows, self, known_values(self.columns, frame))

    def warn_unseen(self, frame: pd.DataFrame, source_name: str) -> None:
        """Warn of values of categories that the training rows did not have."""
        for column in self.columns:
            if isinstance(column, Category):
                column.warn_unseen(frame[column.name], source_name)

    def decode(self, rows: np.ndarray, known: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Rows (n, d) as a table like the given one; a category is that of the largest feature, text and dates the
        nearest of `known` (`known_values`)."""
        values = known or {}
        parts = zip(self.columns, self.spans, strict=True)
        return pd.DataFrame({c.name: c.decode(rows[:, a:b], values.get(c.name)) for c, (a, b) in parts})

    def in_form_of(self, views: np.ndarray, X: Any, pool: Any = None) -> Any:
        """Views (n, K, d) in the form of samples `X`: numbers, or rows of a table with values of `X` or `pool`."""
        if not speaks_table(X):
            return views
        tables = [as_frame(rows) for rows in (X, pool) if rows is not None and speaks_table(rows)]
        known = known_values(self.columns, pd.concat(tables))
        rows = self.decode(views.reshape(-1, views.shape[-1]), known)
        index = pd.MultiIndex.from_product([range(views.shape[0]), range(views.shape[1])], names=["row", "view"])
        return rows.set_index(index)

    def as_dict(self) -> dict[str, Any]:
        """Everything but `arrays` as plain values."""
        columns = []
        for column in self.columns:
            given = {f.name: getattr(column, f.name) for f in dataclasses.fields(column) if f.name != "axes"}
            plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
            columns.append({"role": column.role} | {name: value for name, value in plain.items() if value is not None})
        return {"roles": dict(self.roles), "columns": columns}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TableEncoder:
        """Inverse of `as_dict`; the axes of text are zero until `arrays` are loaded."""
        columns = []
        for each in content["columns"]:
            plain = {name: tuple(value) if isinstance(value, list) else value for name, value in each.items()}
            columns.append(KINDS[str(plain.pop("role"))](**plain))
        return cls(dict(content["roles"]), tuple(columns))

    def arrays(self) -> nn.ModuleDict:
        """The axes of text columns, by the number of the column: modules whose buffers a run saves as weights."""
        from torch import nn

        return nn.ModuleDict({str(i): c.axes for i, c in enumerate(self.columns) if isinstance(c, Text)})


def fit_table(
    frame: pd.DataFrame,
    roles: Mapping[str, Role],
    *,
    rows: Any = slice(None),
    indicators: bool = True,
    source_name: str = "the table",
) -> TableEncoder:
    """Fit an encoder to the training rows of a table."""
    if all(role in LEFT_OUT for role in roles.values()):
        reasons = name_list([f"{name} ({role})" for name, role in roles.items()], 8)
        raise InputError(
            f"{source_name} has no feature, all columns are left out: {reasons}; give roles (columns, --columns)"
        )
    columns: list[Column] = []
    for name, role in roles.items():
        if role in LEFT_OUT:
            continue
        if role == "numeric":
            columns.append(Number.fit(frame[name], source_name, indicators, rows))
        else:
            columns.append(KINDS[role].fit(frame[name].iloc[rows], source_name))
    return TableEncoder(dict(roles), tuple(columns))


def known_values(columns: Sequence[Column], frame: pd.DataFrame) -> dict[str, Any]:
    """Distinct values of the columns of text and dates, by name."""
    of = [column.name for column in columns if isinstance(column, Text | Date)]
    return {name: frame[name].dropna().unique() for name in of}


def facts_for_views(table: TableEncoder) -> dict[str, Any]:
    """What view makers must know of a table, as plain values."""
    spans = [[a, b] for column, (a, b) in zip(table.columns, table.spans, strict=True) if isinstance(column, Category)]
    return {"columns": table.column_of, "categories": spans}


SOURCE = "the DataFrame"


def read_new(X: Any, columns: Mapping[str, str] | None, strict: bool, impute: str) -> Any:
    """Samples to fit on: a table that is not plain numbers as encoded rows, everything else as it is given."""
    if not speaks_table(X):
        return X  # also rows that an encoder has made
    frame = as_frame(X, SOURCE)
    if frame.shape[1] == 0 or len(frame) == 0:
        return X
    if strict:
        kept = [name for name in frame.columns if (columns or {}).get(name) != "drop"]
        return frame[kept] if len(kept) < frame.shape[1] else _original(X, frame)
    roles = choose_roles(frame, columns, SOURCE)
    if is_plain(frame, roles, gaps=impute == "median"):
        return _original(X, frame)
    return fit_table(frame, roles, indicators=impute == "none", source_name=SOURCE).encode(frame, SOURCE)


def read_later(X: Any, table: TableEncoder) -> TableArray:
    """Samples for a model that was fitted on a table: another table, or rows that the encoder has made."""
    if isinstance(X, TableArray) and X.table is not None:
        if X.table.features != table.features:
            raise InputError(
                "the rows were encoded for another model: read them with load_dataset(..., table=model.table_), or "
                "give a DataFrame"
            )
        return X
    if speaks_table(X):
        frame = as_frame(X, SOURCE)
        if len(frame) == 0:
            raise InputError(f"{SOURCE} has no rows: 0 sample(s) while a minimum of 1 is required")
        rows = table.encode(frame, SOURCE)
        table.warn_unseen(frame, SOURCE)
        return rows
    numbers, _ = to_rows(X)
    if numbers.ndim != 2 or numbers.shape[1] != len(table.features):
        raise InputError(
            f"the data are {type(X).__name__} of shape {numbers.shape}, and the model was fitted on a table: give a "
            f"DataFrame with the columns {name_list([column.name for column in table.columns])}"
        )
    check_finite(numbers, table.features)
    return TableArray(numbers, table)


def by_name(X: Any, names: list[str]) -> Any:
    """A table with the columns of the training rows in their order, if it has all of them; else what is given."""
    if not speaks_table(X):
        return X
    frame = as_frame(X, SOURCE)
    if list(frame.columns) == names or not set(names) <= set(frame.columns):
        return _original(X, frame)
    match_columns(list(frame.columns), names, set(names), SOURCE)
    return frame[names]


def by_stored_name(X: Any, names: list[str], n_features: int) -> Any:
    """`by_name` for names that scikit-learn does not check; columns 0, 1, ... have none: a model without `names` takes
    all tables but these in another order."""
    given, numbers = list(getattr(X, "columns", ())), list(range(n_features))
    if not speaks_table(X) or (given == numbers and set(names) != set(map(str, numbers))):
        return X
    if not names:
        if not all(isinstance(name, str) for name in given) and set(given) == set(numbers):
            raise InputError(
                f"the columns of the DataFrame are {name_list(given)}, and the model was fitted on columns without "
                f"names: give X[list(range({n_features}))] to take them by number, or X.to_numpy() by order"
            )
        return X
    frame = as_frame(X, SOURCE)
    advice = ": give these columns, or an array, X.to_numpy(), to take them in order"
    match_columns(list(frame.columns), names, set(names), SOURCE, advice=advice)
    # scikit-learn warns of names of text where the model has none.
    return frame[names].set_axis(numbers, axis=1)


def _original(X: Any, frame: Any) -> Any:
    """What was given if it is a DataFrame of pandas, whose names need not be text; else the converted one."""
    return X if type(X) is type(frame) else frame
