"""Tables given to an estimator in Python: encoded if they are new, and by the fitted encoder if they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, warn
from viewsmith.modalities.checks import check_finite, to_rows
from viewsmith.modalities.frames import as_frame
from viewsmith.modalities.tables.array import TableArray, speaks_table
from viewsmith.modalities.tables.encoder import TableEncoder, fit_table
from viewsmith.modalities.tables.roles import choose_roles, is_plain


def read_new(X: Any, columns: Mapping[str, str] | None, strict: bool, impute: str) -> Any:
    """Samples to fit on: a table that is not plain numbers as encoded rows, everything else as it is given."""
    if not speaks_table(X):
        return X  # also rows that an encoder has made
    frame = as_frame(X, "the DataFrame")
    if frame.shape[1] == 0 or len(frame) == 0:
        return X
    if strict:
        kept = [name for name in frame.columns if (columns or {}).get(name) != "drop"]
        return frame[kept] if len(kept) < frame.shape[1] else _original(X, frame)
    roles = choose_roles(frame, columns, "the DataFrame")
    if is_plain(frame, roles, gaps=impute == "median"):
        return _original(X, frame)
    return fit_table(frame, roles, indicators=impute == "none", source_name="the DataFrame").encode(
        frame, "the DataFrame"
    )


def read_later(X: Any, table: TableEncoder) -> TableArray:
    """Samples for a model that was fitted on a table: another table, or rows that the encoder has made."""
    source_name = "the DataFrame"
    if isinstance(X, TableArray) and X.table is not None:
        if X.table.features != table.features:
            raise InputError(
                "the rows were encoded for another model: read them with load_dataset(..., table=model.table_), or "
                "give a DataFrame"
            )
        return X
    if speaks_table(X):
        frame = as_frame(X, source_name)
        if len(frame) == 0:
            raise InputError(f"{source_name} has no rows: 0 sample(s) while a minimum of 1 is required")
        rows = table.encode(frame, source_name)
        table.warn_unseen(frame, source_name)
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
    """A table with the columns of the training rows in their order; everything else as it is given.

    Columns that the model does not know are left out with a warning; where one is missing nothing is changed.
    """
    if not speaks_table(X):
        return X
    frame = as_frame(X, "the DataFrame")
    if list(frame.columns) == names or not set(names) <= set(frame.columns):
        return _original(X, frame)
    return _known(frame, names)


def by_stored_name(X: Any, names: list[str], n_features: int) -> Any:
    """`by_name` for names that scikit-learn does not check: those of a file, an AnnData, or names that are no text.

    Columns 0, 1, ... in order have no names: such a table is as it is given. For a model without names (empty `names`)
    every table is, unless its columns are these numbers in another order.
    """
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
    frame = as_frame(X, "the DataFrame")
    found = set(frame.columns)
    if missing := [name for name in names if name not in found]:
        raise InputError(
            f"the DataFrame lacks {pluralize(len(missing), 'column')} that the model was fitted on: "
            f"{name_list(missing)}; it has {name_list(list(frame.columns))}: give these columns, or an array, "
            "X.to_numpy(), to take them in order"
        )
    # scikit-learn warns of names of text where the model has none.
    return _known(frame, names).set_axis(numbers, axis=1)


def _known(frame: Any, names: list[str]) -> Any:
    """The columns with these names in their order; others are left out with a warning."""
    if extra := [one_line(name, 60) for name in frame.columns if name not in set(names)]:
        warn(
            f"the DataFrame: {pluralize(len(extra), 'column')} that the model does not know, ignored: "
            f"{name_list(extra)}"
        )
    return frame[names]


def _original(X: Any, frame: Any) -> Any:
    """What was given if it is a DataFrame of pandas, whose names need not be text; else the converted one."""
    return X if type(X) is type(frame) else frame
