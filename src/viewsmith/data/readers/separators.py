"""What differs between text tables of different programs: separators, commas in numbers, compression."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection
from pathlib import Path
from typing import IO, TYPE_CHECKING

from viewsmith.core.messages import name_list, warn

if TYPE_CHECKING:
    import pandas as pd

# Numbers as spreadsheets write them where the comma is the decimal mark, and the columns therefore have another
# separator; and numbers with commas between thousands.
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d+)?\s*")
_PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([,;|\t])"?\s*', re.IGNORECASE)
_NEARLY = 0.9  # of the cells are numbers: the others are named later


def open_table(path: Path) -> IO[bytes]:
    """A text table, plain or compressed by gzip."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def given_separator(path: Path) -> str | None:
    """The separator in the first line of a text table, ``sep=;``, which Excel reads and does not take for a header."""
    with open_table(path) as file:
        found = _SEPARATOR_LINE.fullmatch(file.readline(64))
    return None if found is None else found[1].decode()


def find_separator(names: list[str], separator: str) -> str:
    """The separator of a header that was split at `separator`: another one if it gave one name with that in it.

    Only semicolons and tabs of a table that should have commas; what else it can be is the reader's to refuse.
    """
    found = {mark for mark in ";\t" if mark in names[0]}
    return found.pop() if separator == "," and len(names) == 1 and len(found) == 1 else separator


def read_commas(frame: pd.DataFrame, separator: str, leave: Collection[str], what: str) -> pd.DataFrame:
    """Read commas in numbers: before decimals, or where columns are separated by commas, between thousands.

    Columns with other text in more than a tenth of their cells are unchanged. A warning names the columns.

    Parameters
    ----------
    frame : DataFrame
        As pandas reads it: such columns are text.
    separator : str
        Of the columns.
    leave : collection of str
        Columns that are not numbers.
    what : str
        Name of the table in messages.
    """
    import pandas as pd

    pattern, mark, means = (_THOUSANDS, "", "thousands") if separator == "," else (_DECIMAL_COMMA, ".", "decimals")
    changed = {}
    for name in frame.columns:
        if name in leave or not (frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name].dtype)):
            continue
        text = frame[name].dropna().astype(str)
        commas = text.map(lambda cell: bool(pattern.fullmatch(cell)))
        others = text[~commas].map(lambda cell: bool(_PLAIN.fullmatch(cell)))
        if not commas.any() or commas.sum() + others.sum() < _NEARLY * len(text):
            continue
        text = text.where(~commas, text.str.replace(",", mark, regex=False))
        changed[name] = (pd.to_numeric(text) if others.all() else text).reindex(frame.index)
    if changed:
        warn(f"{what}: commas are read as marks of {means} in {name_list(list(changed))}")
    return frame.assign(**changed) if changed else frame
