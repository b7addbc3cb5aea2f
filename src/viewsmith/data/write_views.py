"""Writing views of tables as rows that a person can read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.files import atomic_path
from viewsmith.core.messages import join_names
from viewsmith.domains.tables.array import TableArray

TABLES = (".csv", ".tsv", ".parquet")


def check_views_path(path: Path) -> None:
    """Raise InputError unless views can be written to a file of this name."""
    if path.suffix.lower() not in (".npz", *TABLES):
        raise InputError(
            f"--out is {str(path)!r}, expected a file name that ends in .npz, or in {join_names(TABLES)} for a table"
        )
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: create it first")
    if path.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing parquet files")


def write_views_table(path: Path, arrays: dict[str, Any], rows: Any, names: list[str] | None) -> None:
    """Write views of vectors as a table, atomically: a line for each view, with the columns of the data.

    Parameters
    ----------
    path : Path
        ``.csv``, ``.tsv`` or ``.parquet``.
    arrays : dict
        ``views``, (n, K, d), and ``index``, (n,): see `viewsmith.workflows.views.views_of_model`. The columns ``row``
        and ``view`` (from 0) say of which row a line is a view; names that the table has get a "_".
    rows : ndarray, shape (m, d)
        The data set's rows. Those of a table (`TableArray`) are written with its columns and values.
    names : list of str, optional
        Names of the features of other rows.

    Raises
    ------
    InputError
        The views are not rows of features.
    """
    import pandas as pd

    views = arrays["views"]
    if isinstance(views, tuple):
        raise InputError(f"the views of rows on disk are not written to {path.suffix}: write them to a .npz file")
    letters = views.dtype == np.uint8  # of sequences
    if letters or views.ndim != 3 or rows.ndim != 2 or views.shape[2] != rows.shape[1]:
        given = "of letters" if letters and views.ndim == 3 else f"of shape {views.shape[2:]}"
        raise InputError(f"views {given} are not rows of a table: write them to a .npz file")
    flat = views.reshape(-1, views.shape[2])
    if isinstance(rows, TableArray) and rows.table is not None:
        frame = rows.table.decode(flat, rows.known)
    else:
        frame = pd.DataFrame(flat, columns=names or [f"x{i}" for i in range(flat.shape[1])])
    for place, (name, values) in enumerate(
        (
            ("row", np.repeat(arrays["index"], views.shape[1])),
            ("view", np.tile(np.arange(views.shape[1]), views.shape[0])),
        )
    ):
        while name in frame.columns:
            name += "_"
        frame.insert(place, name, values)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        else:
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
            frame.to_csv(temporary, index=False, sep=separator, float_format="%.7g")
