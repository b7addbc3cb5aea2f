"""Numbers in cells of text: a unit beside them, a limit, an error, a range, a time or an angle, in all cells of a
column alike."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import time
from numbers import Real
from typing import NamedTuple

import numpy as np
import pandas as pd

from viewsmith.core.errors import name_list, one_line, quoted, warn
from viewsmith.modalities import frames

CURRENCIES = "[€$£¥]"
_LETTERS = r"(?:years?|months?|weeks?|hours?|minutes?|seconds?|[^\W\d_]{1,4}(?:\^?[23²³])?)"
_UNIT = rf"(?:%|‰|°[CF]?|{CURRENCIES}|{_LETTERS}(?:/{_LETTERS})?|)"
_SIGN = r"[+\-−]?"
_ERROR = r"(?:±|\+/?[-−])"
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
# Without a number: below a limit of detection that is not said, or an error of a spreadsheet.
_WITHOUT = re.compile(
    r"(?i)\s*(?:[<≤]\s*(?:LOD|LOQ|LLOQ|MDL|DL)|BDL|BLD|BLOQ|BLQ|BQL|N\.?D\.?|not detected|below detection|"
    r"#(?:DIV/0!|VALUE!|REF!|NAME\?|NUM!|NULL!|N/A))\s*"
)
_BELOW, _ABOVE = ("<", "<=", "≤"), (">", ">=", "≥", "+")
LONGEST = 80  # characters of a cell that is a number; of others the patterns take long
DISTINCT = 10  # numbers, up to which they may be codes themselves
MOST = 0.5  # of the cells, from which on the others are probably codes: n.d., ?


class Form(NamedTuple):
    """How the cells of a column write numbers."""

    kind: str  #: number, range, time or angle
    decimal: str = "."  #: the mark before decimals
    unit: str = ""  #: beside each number, such as "$" or "mg/dL"


def _digits(decimal: str, thousands: str) -> str:
    """The pattern of a number without a sign; codes such as 007 are none."""
    groups = "|".join(rf"(?:{mark}\d{{3}})+" for mark in (f"[{thousands}]", "'", "’", r"\s"))
    whole = rf"(?:[1-9]\d{{0,2}}(?:{groups})|0|[1-9]\d*)"
    # 3x104 without a mark of the power has two numbers, as 2x100.
    power = r"(?:[eE][+-]?\d+|\s?[x×·*]\s?10\s?(?:(?:\^[-−]?|[-−])\d+|[⁻−]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
    return rf"(?:{whole}(?:[{decimal}]\d+)?|[{decimal}]\d+){power}?"


def _number_pattern(digits: str) -> re.Pattern[str]:
    """A number with limit, sign and unit, and an error, stars or a bracket behind it."""
    rest = rf"\*{{1,3}}|\+|\s*{_ERROR}\s*{digits}\s*{_UNIT}|\s*\([\d.,;:%±\s+\-−–]*\d[\d.,;:%±\s+\-−–]*\)"
    return re.compile(
        rf"\s*(?P<limit>[<>]=?|[≤≥~≈]|)\s*(?P<sign>{_SIGN})(?P<before>{CURRENCIES}?)\s*(?P<inner>{_SIGN})"
        rf"(?P<number>{digits})\s*(?P<after>{_UNIT})(?P<rest>{rest}|)\s*"
    )


def _range_pattern(digits: str) -> re.Pattern[str]:
    """Two numbers with a dash or a word between them, and a unit."""
    return re.compile(rf"\s*(?P<low>{digits})\s*(?:[-−–]|to|bis|\.\.)\s*(?P<high>{digits})\s*(?P<after>{_UNIT})\s*")


_DIGITS = {".": _digits(".", ","), ",": _digits(",", ".")}
_NUMBERS = {mark: _number_pattern(digits) for mark, digits in _DIGITS.items()}
_RANGES = {mark: _range_pattern(digits) for mark, digits in _DIGITS.items()}
_CLOCK = re.compile(
    r"\s*(?P<h>\d{1,3}):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d(?:[.,]\d+)?))?\s*(?:(?P<half>[AaPp])\.?[Mm]\.?)?\s*"
)
_SPAN = re.compile(
    r"(?i)\s*(?:(?P<d>\d+)\s*(?:d|days?))?\s*(?:(?P<h>\d+)\s*(?:h|hrs?|hours?|std))?\s*"
    r"(?:(?P<m>\d+)\s*(?:m|mins?|minutes?|′))?\s*(?:(?P<s>\d+(?:[.,]\d+)?)\s*(?:s|secs?|seconds?|″))?\s*"
)
_ANGLE = re.compile(
    rf"\s*(?P<sign>{_SIGN})(?P<d>\d{{1,3}}(?:[.,]\d+)?)\s*(?P<mark>[°º]?)\s*"
    r"(?:(?P<m>[0-5]?\d(?:[.,]\d+)?)\s*['’′]\s*)?(?:(?P<s>[0-5]?\d(?:[.,]\d+)?)\s*(?:[\"”″]|''))?\s*(?P<side>[NSEW]?)\s*"
)


def _float(text: str, decimal: str) -> float:
    """The value of the pattern `_digits`."""
    base, *power = re.split(r"\s?[x×·*]\s?10\s?\^?", text)
    plain = re.sub(r"[,'’\s]" if decimal == "." else r"[.'’\s]", "", base).replace(",", ".")
    return float(plain + "".join(f"e{each.translate(_RAISED)}" for each in power))


def _at_limit(value: float, limit: str) -> float:
    """What stands for a value: below a limit of detection half of it, above one the limit itself."""
    return value / 2 if limit in _BELOW and value > 0 else value


def _read_number(cell: str, form: Form) -> tuple[float, str] | None:
    """The number of a cell, and its unit."""
    found = _NUMBERS[form.decimal].fullmatch(cell)
    if found is None or (found["sign"] and found["inner"]):
        return None
    value = _at_limit(_float(found["number"], form.decimal), found["limit"])
    signed = -value if set(found["sign"] + found["inner"]) & {"-", "−"} else value
    return signed, found["before"] + found["after"]


def _read_range(cell: str, form: Form) -> tuple[float, str] | None:
    """The middle of a range; of a limit as `_read_number`."""
    found = _RANGES[form.decimal].fullmatch(cell)
    if found is None:
        return _read_number(cell, form)
    low, high = _float(found["low"], form.decimal), _float(found["high"], form.decimal)
    return ((low + high) / 2, found["after"]) if low <= high else None


def _read_time(cell: str, form: Form) -> tuple[float, str] | None:
    """Hours of a time of day or of a duration."""
    found = _CLOCK.fullmatch(cell) or _SPAN.fullmatch(cell)
    if found is None:
        return None
    parts = {key: float(value.replace(",", ".")) for key, value in found.groupdict().items() if value and key != "half"}
    half = found.groupdict().get("half")
    if not parts or (half and parts["h"] > 12):
        return None
    hours = parts.get("h", 0) % 12 + 12 * (half in "Pp") if half else parts.get("h", 0)
    return 24 * parts.get("d", 0) + hours + parts.get("m", 0) / 60 + parts.get("s", 0) / 3600, ""


def _read_angle(cell: str, form: Form) -> tuple[float, str] | None:
    """Degrees of an angle, such as a latitude; south and west are negative."""
    found = _ANGLE.fullmatch(cell)
    if found is None or not (found["mark"] or (found["side"] and {*found["d"]} & {".", ","})):  # 3W is a name
        return None
    if found["side"] and found["sign"]:
        return None
    d, m, s = (float((found[key] or "0").replace(",", ".")) for key in "dms")
    down = found["side"] in ("S", "W") or found["sign"] in ("-", "−")
    return (-1 if down else 1) * (d + m / 60 + s / 3600), ""


_READ: dict[str, Callable[[str, Form], tuple[float, str] | None]] = {
    "number": _read_number,
    "range": _read_range,
    "time": _read_time,
    "angle": _read_angle,
}


def _read(cell: str, form: Form) -> tuple[float, str] | None:
    """The number of a cell in a form, and its unit; None for another cell, also for one whose number is infinite."""
    cell = " ".join(cell.split())  # long spaces take long
    found = _READ[form.kind](cell, form) if len(cell) <= LONGEST else None
    return found if found is not None and np.isfinite(found[0]) else None


def number_in(cell: str, form: Form) -> float | None:
    """The number of a cell that is written in a form; NaN if it is below a limit that is not said, or an error; None
    for another cell."""
    if _WITHOUT.fullmatch(cell):
        return float("nan")
    found = _read(cell, form)
    if found is None or (found[1] != form.unit and found[1]):
        return None
    return found[0]


def numbers_of(column: pd.Series, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a text column, float64 with gaps as NaN, and which cells are something else, both (n,)."""
    codes, cells = pd.factorize(column)
    found = [number_in(str(cell), form) for cell in cells]
    numbers = np.array([np.nan if each is None else each for each in found] + [np.nan])
    return numbers[codes], np.array([each is None for each in found] + [False])[codes]


def form_of(column: pd.Series) -> Form | None:
    """The form in which all cells of a text column have numbers; None if some have not, if they are plain numbers, or
    if a comma may stand before decimals and between thousands."""
    given = column.dropna()
    if not len(given) or not isinstance(given.iloc[0], str | time | Real):  # lists, which have no hash
        return None
    distinct = given.unique()
    cells = [str(cell) for cell in distinct if isinstance(cell, str | time | Real)]
    if len(cells) < len(distinct):
        return None
    numbers = [cell for cell in cells if not _WITHOUT.fullmatch(cell)]
    plain = frames.to_numbers(pd.Series(numbers, dtype=object))
    if not numbers or (len(numbers) == len(cells) and plain.notna().all()):
        return None
    if len(numbers) < len(cells) and (
        len(numbers) <= DISTINCT or given.map(str).isin(numbers).mean() < MOST  # such codes are categories
    ):
        return None
    by_mark = {mark: found for mark in (".", ",") if (found := _common(numbers, Form("number", mark)))}
    if len(by_mark) == 2:
        same = all(number_in(cell, by_mark["."]) == number_in(cell, by_mark[","]) for cell in numbers)
        return by_mark["."] if same else None
    if by_mark:
        return next(iter(by_mark.values()))
    forms = [Form("time"), Form("angle")]
    if 2 * len(cells) <= len(given):  # bins come again; numbers of telephones, of pages and of houses do not
        forms += [Form("range", mark) for mark in (".", ",")]
    return next((found for form in forms if (found := _common(numbers, form))), None)


def _common(cells: Iterable[str], form: Form) -> Form | None:
    """A form with the unit of all cells; None if a cell has another form or unit, or none beside a number other
    than 0."""
    units: set[str] = set()
    for cell in cells:
        found = _read(cell, form)
        if found is None:
            return None
        if found[0] or found[1]:
            units.add(found[1])
        if len(units) > 1:
            return None
    return form._replace(unit=units.pop() if units else "")


def warn_read(columns: dict[str, tuple[pd.Series, Form]], source_name: str) -> None:
    """Say which numbers are read from the text of columns, with a cell of each."""
    said, below, above, gaps = [], [], [], []
    for name, (column, form) in columns.items():
        cells, title = [str(cell) for cell in column.dropna().unique()], one_line(name, 60)
        limits = [cell for cell in cells if cell.lstrip().startswith(_BELOW)]
        without = [cell for cell in cells if _WITHOUT.fullmatch(cell)]
        beyond = [cell for cell in cells if cell.lstrip().startswith(_ABOVE[:3]) or cell.rstrip().endswith("+")]
        others = [cell for cell in cells if cell not in (*limits, *without, *beyond) and not _is_plain(cell)]
        if others:
            said.append(f"{title} ({one_line(repr(others[0]), 30)} as {number_in(others[0], form):.6g})")
        below += [f"{title} ({limits[0].strip()})"] if set(limits) - set(without) else []
        above += [f"{title} ({beyond[0].strip()})"] if beyond else []
        gaps += [f"{title} ({without[0].strip()})"] if without else []
    parts = {
        "numbers are read from text in": said,
        "half of the limit stands for values below it (below detection) in": below,
        "the limit stands for values above it in": above,
        "cells without a number are missing in": gaps,
    }
    told = "; ".join(f"{text} {name_list(names)}" for text, names in parts.items() if names)
    first = one_line(next(iter(columns)), 60)
    warn(f"{source_name}: {told}; --columns {quoted(f'{first}=text')} keeps the text")


def _is_plain(cell: str) -> bool:
    """Whether pandas reads a cell as a number."""
    return re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", cell) is not None


def warn_other_units(column: pd.Series, taken: str, given: str, source_name: str) -> bool:
    """Warn of a text column of which nearly all cells are numbers, but not of one form; whether it is one."""
    cells = Counter(str(cell) for cell in column.dropna())
    pairs = [cell for cell in cells if _PAIR.fullmatch(cell)]
    if len(pairs) > DISTINCT and sum(cells[cell] for cell in pairs) >= NEARLY * cells.total():
        name, pair = one_line(column.name, 60), one_line(repr(pairs[0]), 30)
        warn(
            f"{source_name}: column {name} has two numbers in each cell, such as {pair}, and is {taken}: write two "
            f"columns to have them, or give the role (--columns {quoted(f'{name}={given}')})"
        )
        return True
    readings = {cell: _loose(cell) for cell in cells}
    numbers = {cell: unit for cell, unit in readings.items() if unit is not None}
    example = next((cell for cell in numbers if not _is_plain(cell)), None)
    if example is None or sum(cells[cell] for cell in numbers) < NEARLY * cells.total():
        return False
    units = sorted({unit or "none" for unit in numbers.values()})
    if len(units) > 1 and max(len(unit) for unit in numbers.values()) == 1 < len({*units} - {"none"}):
        return False  # numbers of houses: 1a, 2b
    name = one_line(column.name, 60)
    what = f"of different units ({name_list(units, 4)})" if len(units) > 1 else "with other characters"
    warn(
        f"{source_name}: column {name} has numbers {what}, such as {one_line(repr(example), 30)}, and is {taken}: "
        f"write plain numbers of one unit to have them, or give the role (--columns {quoted(f'{name}={given}')})"
    )
    return True


NEARLY = 0.9  # of the cells
_PAIR = re.compile(r"\s*\(?[+-]?\d+(\.\d+)?\s*(/|[;x×]|,\s)\s*[+-]?\d+(\.\d+)?\)?\s*")


def _loose(cell: str) -> str | None:
    """The unit of a number in either form, also in parentheses; None for another cell."""
    bare = re.sub(r"\s*\((.*)\)\s*", r"\1", cell)
    found = _read(bare, Form("number")) or _read(bare, Form("number", ","))
    return None if found is None else found[1]
