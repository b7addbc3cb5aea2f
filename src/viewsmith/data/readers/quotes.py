"""Quotes that are not closed in text tables: all lines up to the next quote become one cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewsmith.core.messages import one_line, warn

if TYPE_CHECKING:
    import pandas as pd

MANY = 10  # line breaks, which hardly a cell has that was meant so


def warn_open_quotes(frame: pd.DataFrame, what: str) -> None:
    """Warn of a text table with a cell or a column name of many lines: a quote may not be closed."""
    most, found = max((str(name).count("\n"), "the header line has a column name") for name in frame.columns)
    place = ""
    for name in frame.select_dtypes(exclude=["number", "bool"]).columns:
        breaks = frame[name].astype(str).str.count("\n").to_numpy()
        if len(breaks) and breaks.max() > most:
            most, found = int(breaks.max()), f"column {one_line(name, 60)} has a cell"
            place = f", in row {int(breaks.argmax()) + 1:,} (counted from 1, without the header)"
    if most >= MANY:
        warn(
            f"{what}: {found} of {most + 1:,} lines{place}; a quote may not be closed, which makes one cell of all "
            "lines up to the next quote: correct the file if these lines are rows"
        )
