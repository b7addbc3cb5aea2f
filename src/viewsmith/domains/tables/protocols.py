"""Which objects are tables."""

from __future__ import annotations

import sys
from typing import Any


def speaks_table(X: Any) -> bool:
    """Whether samples are a table: a pandas DataFrame, or one by a protocol for the exchange of tables.

    The protocols are the dataframe interchange protocol (``__dataframe__``) and Arrow's (``__arrow_c_stream__``); a
    single column, which may speak the latter, too, is not a table.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return True
    if isinstance(X, type):
        return False
    if hasattr(X, "__dataframe__"):
        return True
    return hasattr(X, "__arrow_c_stream__") and (hasattr(X, "schema") or len(getattr(X, "shape", ())) == 2)
