"""Tables of any library as pandas DataFrames, with names as text."""

from __future__ import annotations

import importlib.util
from typing import Any

import pandas as pd

from viewsmith.core.errors import InputError
from viewsmith.core.messages import duplicates, name_list, one_line


def as_frame(X: Any, what: str = "the table") -> pd.DataFrame:
    """A table (`speaks_table`) as a DataFrame whose column names are text and different; values are not copied.

    Raises
    ------
    InputError
        The table cannot be converted, or columns have equal names.
    """
    frame = X if isinstance(X, pd.DataFrame) else _converted(X, what)
    names = [str(name) for name in frame.columns]
    if twice := duplicates(names):
        raise InputError(f"{what} has columns with equal names: {name_list(twice)}; rename them")
    return frame.set_axis(names, axis=1)


def _converted(X: Any, what: str) -> pd.DataFrame:
    try:
        if hasattr(X, "__arrow_c_stream__") and importlib.util.find_spec("pyarrow") is not None:
            import pyarrow

            frame: pd.DataFrame = pyarrow.table(X).to_pandas()
            return frame
        if hasattr(X, "__dataframe__"):
            return pd.api.interchange.from_dataframe(X)
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"cannot convert {what}, a {type(X).__name__}, to a DataFrame of pandas ({reason})") from error
    raise InputError(f"{what} is a {type(X).__name__}: give X.to_pandas(), or install pyarrow")
