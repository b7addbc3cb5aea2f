"""Tables of labels and groups that are beside the samples: a row for each file or cell, found by its name."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, one_line, suggest
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import reading


def table_of_names(names: list[str], request: DataOptions, folder: Path | None) -> Any:
    """The table of labels, in the order of the names: the given file, or the one of the folder that has all names."""
    asked = request.labels is not None
    files = [request.labels] if asked else [] if folder is None else sorted(folder.glob("*.csv"))
    for file in files:
        assert file is not None
        with reading(str(file), "a table of labels"):
            table = pd.read_csv(file, sep=None, engine="python")
        for column in table.columns:
            keys = table[column].astype(str)
            for known in (names, [Path(name).name for name in names], [Path(name).stem for name in names]):
                if keys.is_unique and set(known) <= set(keys):
                    return table.set_index(keys).loc[known].reset_index(drop=True)
        if asked:
            raise InputError(
                f"{file} has no column with the names of all samples, such as {names[0]}: expected a table with one "
                "row for each, and labels in other columns"
            )
    return None


def column_of(table: Any, option: str, name: str, source_name: str) -> np.ndarray:
    """A column of a table of labels, which an option names."""
    if table is None:
        raise InputError(
            f"{source_name} has no table of labels for {option}={one_line(name, 60)}: give one with a column of the "
            "names of samples (--labels FILE.csv)"
        )
    columns = [str(column) for column in table.columns]
    if name not in columns:
        hint = suggest(name, columns, "the columns of the table of labels are")
        raise InputError(f"{source_name} has no column {one_line(name, 60)!r}, given as {option}; {hint}")
    found: np.ndarray = table[name].to_numpy()
    return found.astype(str) if found.dtype == object and all(isinstance(each, str) for each in found) else found
