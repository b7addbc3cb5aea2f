"""Tables of mixed columns: which objects are tables, and rows that keep the encoder that made them.

Only this file is imported without pandas.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np


def speaks_table(X: Any) -> bool:
    """Whether samples are a table: a pandas DataFrame, or one by `__dataframe__` or by Arrow, but not one column."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return True
    if isinstance(X, type):
        return False
    if hasattr(X, "__dataframe__"):
        return True
    return hasattr(X, "__arrow_c_stream__") and (hasattr(X, "schema") or len(getattr(X, "shape", ())) == 2)


class TableArray(np.ndarray):
    """Encoded rows of a table, float32 (n, d), which keep their encoder, `table`, and the `known` values of text and
    dates, when rows are taken; numpy's results do not."""

    table: Any  # imported here, the encoder would import this file
    known: Mapping[str, Any]

    def __new__(cls, rows: np.ndarray, table: Any, known: Mapping[str, Any] | None = None) -> "TableArray":
        made = np.ascontiguousarray(rows, dtype=np.float32).view(cls)
        made.table, made.known = table, known or {}
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.table, self.known = getattr(source, "table", None), getattr(source, "known", {})


def table_of(rows: Any) -> Any:
    """The encoder that made rows; None for other rows."""
    return rows.table if isinstance(rows, TableArray) else None


def is_anndata(X: Any) -> bool:
    """Whether an object is an AnnData, or has its attributes; anndata is not imported."""
    return is_mudata(X) or all(hasattr(X, name) for name in ("obsm", "obsp", "layers", "var_names"))


def is_mudata(X: Any) -> bool:
    """Whether an object is a MuData, of several modalities, or has its attributes."""
    return all(hasattr(X, name) for name in ("mod", "obsmap", "obsm", "var_names"))
