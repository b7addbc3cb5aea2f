"""Columns that say the label."""

from __future__ import annotations

import numpy as np
import pandas as pd

from viewsmith.core.errors import name_list, one_line, warn
from viewsmith.data.labels import LEAK_ROWS, repeated_by

PURE = 0.999  # of the rows whose value occurs again have the most frequent label of the value

SAME = 0.9999  # correlation with a target that a column repeats

REPEATED = 0.5  # of the rows must have a value that occurs again


def leaking_columns(frame: pd.DataFrame, y: np.ndarray) -> list[str]:
    """Columns whose value determines the label, though most values occur in several rows; if there are none, columns
    that do so together: indicators of the classes, for instance.
    """
    labels = pd.factorize(y)[0]
    if len(labels) == 0:
        return []
    base = np.bincount(labels).max() / len(labels)
    found, all_codes = [], {str(name): pd.factorize(frame[name])[0] for name in frame.columns}
    # Of values that hardly occur again nothing can be said: they determine everything.
    all_codes = {name: codes for name, codes in all_codes.items() if len(np.unique(codes)) <= len(codes) // 2}
    for name, codes in all_codes.items():
        table = pd.crosstab(codes, labels).to_numpy()
        table = table[table.sum(axis=1) > 1]
        rows = table.sum()
        if rows < REPEATED * len(labels) or base > 1 - 5 * (1 - PURE):
            continue
        if table.max(axis=1).sum() >= PURE * rows and len(table) > 1:
            found.append(name)
    if found or len(labels) < LEAK_ROWS or not all_codes:
        return found
    names = list(all_codes)
    return [names[column] for column in repeated_by(np.column_stack(list(all_codes.values())), labels)]


def warn_leaks(frame: pd.DataFrame, y: np.ndarray, label: str, source_name: str) -> None:
    """Warn of columns that say the label (`leaking_columns`)."""
    if found := leaking_columns(frame, y):
        one = len(found) == 1
        option = ",".join(f"{one_line(name, 60)}=drop" for name in found[:5])
        warn(
            f"{source_name}: {'column' if one else 'columns'} {name_list(found)} {'says' if one else 'say'} the label "
            f"{one_line(label, 60)} (rows with equal values have one label): leave {'it' if one else 'them'} out with "
            f"--columns {option!r} unless new rows have {'it' if one else 'them'}, too"
        )


def warn_leaks_of_numbers(frame: pd.DataFrame, y: np.ndarray, label: str, source_name: str) -> None:
    """Warn of numeric columns that are the target but for scale and offset: their correlation is nearly 1 or -1."""
    target = pd.Series(y, index=frame.index)
    same = [str(name) for name in frame.columns if abs(_correlation(frame[name], target)) > SAME]
    if same:
        option = ",".join(f"{one_line(name, 60)}=drop" for name in same[:5])
        warn(
            f"{source_name}: {'column' if len(same) == 1 else 'columns'} {name_list(same)} repeat the target "
            f"{one_line(label, 60)} (correlation above {SAME}): leave out with --columns {option!r} unless new rows "
            "have it, too"
        )


def _correlation(column: pd.Series, target: pd.Series) -> float:
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    if numbers.nunique() < 3 or (numbers.notna() & target.notna()).sum() < LEAK_ROWS:
        return 0.0
    return float(numbers.corr(target))
