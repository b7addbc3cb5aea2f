"""Lines of tables that are text: their fields, and the separator between them."""

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from viewsmith.data.places import open_packed

#: Bytes in which a text table has its first lines.
WIDEST = 2**24

# A number with a mark of decimals, and maybe some of thousands.
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[\d.]*,\d+([eE][+-]?\d+)?\s*")


def fields_of(lines: Iterable[str], mark: str, **options: Any) -> list[list[str]]:
    """Fields of lines by a separator; those in quotes may have it."""
    # A line of 20,000 columns is one field by another separator than its own, longer than csv allows.
    limit = csv.field_size_limit(2**31 - 1)
    try:
        return list(csv.reader(lines, delimiter=mark, **options))
    finally:
        csv.field_size_limit(limit)


def _fields(mark: str, line: str) -> list[str]:
    return next(iter(fields_of([line], mark, skipinitialspace=True)), [])


def has_decimal_commas(lines: list[str]) -> bool:
    """Whether lines are of a table with semicolons, in which all commas are marks of decimals: without this rule it
    would be one with commas if all columns are numbers."""
    lines = [line for line in lines if line.strip()]
    if not lines or ";" not in lines[-1] or "," not in lines[-1]:
        return False
    rows = fields_of(lines, ";")
    widths = [len(row) for row in rows]
    above = max((i + 1 for i, width in enumerate(widths) if width != widths[-1]), default=0)
    named_by_commas = above > 0 and lines[above - 1].count(",") == lines[-1].count(",")
    cells = [cell for row in rows[above + 1 :] or rows[-1:] for cell in row if "," in cell]  # names may have commas
    return len(rows) == len(lines) and not named_by_commas and all(map(_DECIMAL_COMMA.fullmatch, cells))


@dataclass(frozen=True)
class TextLines:
    """The first lines of a table that is text: its separator, fields of lines, and comments before them."""

    separator: str  #: as pandas takes it
    rows: list[list[str]]
    comments: list[str]

    def split(self, line: str) -> list[str]:
        return _SEPARATED[self.separator](line)


#: Fields of a line by the separator.
_SEPARATED: dict[str, Callable[[str], list[str]]] = {
    **{mark: partial(_fields, mark) for mark in "\t,;"},
    r"\s+": lambda line: [cell.strip('"') for cell in re.findall(r'"[^"]*"|\S+', line)],
}


def lines_of_text(path: Path, fewest: int = 2) -> TextLines | None:
    """The first lines of a text file if they have equal numbers of fields, at least `fewest`, in the first one
    of them one less at most; by the separator that gives the most."""
    try:
        with open_packed(path) as file:
            content = file.read(100_000)
            while content.count(b"\n") < 3 and len(content) < WIDEST and (more := file.read(len(content))):
                content += more  # lines of many columns
        text = content.decode("utf-8", "ignore")
    except Exception:  # damaged, of any library that unpacks
        return None
    lines = [line for line in (text if text.endswith("\n") else text.rpartition("\n")[0]).splitlines() if line.strip()]
    comments = list(takewhile(lambda line: line.startswith("#"), lines))
    lines, most = [line for line in lines[len(comments) :] if not line.startswith("#")], None
    decimals, alone = has_decimal_commas(lines), _are_decimals(lines[1:])
    for separator, fields in _SEPARATED.items():
        if (decimals and separator != ";") or (alone and separator == ","):
            continue
        rows = [fields(line) for line in lines]
        counts = {len(row) for row in rows[1:]}
        if len(counts) != 1 or "\0" in text:
            continue
        width, before = counts.pop(), fewest - 1 if most is None else len(most.rows[-1])
        if width > before and width - len(rows[0]) in (0, 1) and not (most and _splits_words(most.rows, rows)):
            most = TextLines(separator, rows, comments)
    return most


def _are_decimals(lines: list[str]) -> bool:
    """Whether all words of lines are numbers with a comma before decimals, of which some begin with 0, as in 3,07."""
    cells = (cell for line in lines for cell in line.split())
    return any(re.search(r",0\d", line) for line in lines) and all(map(_DECIMAL_COMMA.fullmatch, cells))


def _splits_words(whole: list[list[str]], split: list[list[str]]) -> bool:
    """Whether the fields that another separator splits are words, as in ``Escherichia coli``, rather than numbers."""
    if len(whole[-1]) == 1:
        return False
    fields = (field for row, parts in zip(whole[1:], split[1:], strict=True) for field in row if field not in parts)
    words = [word for field in fields for word in field.split()]
    return 2 * sum(map(is_numeral, words)) <= len(words)


def is_numeral(cell: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
