"""Text columns whose cells are numbers with other characters: 12%, 5 mg, 1.234,5, (12.5)."""

from __future__ import annotations

import re

import pandas as pd

from viewsmith.core.messages import one_line, warn

# Thousands may be separated by commas, dots, apostrophes or spaces, of any kind; decimals by a comma or a dot.
_NUMBER = r"(?:\d{1,3}(?P<mark>[,.'’\s])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d+)?|\d+(?:[.,]\d+)?|[.,]\d+)"
_SIGN = r"[+\-−]?"
_BEFORE, _AFTER = r"(?P<before>[€$£¥]?)", r"(?P<after>%|[€$£¥]|[^\W\d_]{1,4}(?:/[^\W\d_]{1,4})?|)"
_CELL = re.compile(rf"\s*\(?{_SIGN}{_BEFORE}\s*{_SIGN}{_NUMBER}\s*{_AFTER}\s*\)?\s*")
_PLAIN = re.compile(r"\s*[+-]?(\d+(\.\d+)?|\.\d+)\s*")
_MOST = 0.9  # of the cells have the same characters beside their number


def outcome(role: str) -> tuple[str, str]:
    """What becomes of a column with an inferred role, for messages, and the role that a user gives to confirm it."""
    return ("left out", "drop") if role == "identifier" else (f"read as {role}", role)


def warn_decorated(column: pd.Series, role: str, what: str) -> bool:
    """Warn of a text column whose cells are numbers with the same characters before or after them, or with marks.

    Parameters
    ----------
    column : Series
        Of text.
    role : str
        The inferred role, category, text or identifier.
    what : str
        Name of the table in messages.

    Returns
    -------
    bool
        Whether there is a warning.
    """
    cells = [cell for cell in column.dropna() if isinstance(cell, str)]
    decorated: dict[str, list[str]] = {}
    for cell in cells:
        if found := _CELL.fullmatch(cell):
            decorated.setdefault(found["before"] + found["after"], []).append(cell)
    marks, most = max(decorated.items(), key=lambda item: len(item[1]), default=("", []))
    example = next((cell for cell in most if marks or not _PLAIN.fullmatch(cell)), None)
    if example is None or len(most) < _MOST * len(cells):
        return False
    name, (taken, given) = one_line(column.name, 60), outcome(role)
    warn(
        f"{what}: column {name} has numbers with other characters, such as {one_line(repr(example), 30)}, and is "
        f"{taken}: leave the characters out to have numbers, or give the role (--columns {name}={given})"
    )
    return True
