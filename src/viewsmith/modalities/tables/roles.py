"""Roles of the columns of a table, from dtype and content: numbers, also in text (12%, 5 mg), dates, categories,
text."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, join_names, name_list, one_line, pluralize, quoted, suggest, warn
from viewsmith.modalities import frames
from viewsmith.modalities.dna.letters import Alphabet, alphabet_of, letters_of
from viewsmith.modalities.tables.cells import DISTINCT, MOST, Form, form_of, numbers_of, warn_other_units, warn_read

PARTS = ("year", "month", "weekday", "hour", "elapsed")
MICROSECONDS = 86_400e6  # in a day; in nanoseconds dates before 1677 cannot be written
SAMPLE = 1000  # cells by which the format of most is found
DIGITS = "%Y%m%d"  # which may be numbers, too

_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
# Text is tried as these in turn; month/day and day/month can both fit.
FORMATS = (
    "ISO8601",
    *(day + clock for year in ("%Y", "%y") for clock in _CLOCKS for day in (f"%m/%d/{year}", f"%d/%m/{year}")),
    *("%d.%m.%Y" + clock for clock in _CLOCKS[:4]),
    *("%d-%b-%Y", "%b %d %Y", "%B %d %Y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y"),
    *("%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y", DIGITS),
)

_LOOKS_LIKE_DATE = (
    r"\s*(?:\d{1,4}[-/.](?:\d{1,2}|[A-Za-z]{3})[-/.]\d{1,4}(?:[T ,].*)?"
    r"|[A-Za-z]{3,9} \d{1,2},? \d{4}|\d{1,2} [A-Za-z]{3,9} \d{4}|(?:1[89]|20)\d{2}(?:0[1-9]|1[012])[0-3]\d"
    r"|(?:1[89]|20)\d{2}[-/](?:0[1-9]|1[012])|(?:0?[1-9]|1[012])[/.](?:1[89]|20)\d{2}"
    r"|[A-Za-z]{3,9}[ -](?:1[89]|20)\d{2})\s*"
)
# Quarters and weeks of a year, as 2020Q3, Q3 2020 or 2020-W37, are their first days.
_PART_OF_YEAR = (
    r"\s*(?:(?P<year>(?:1[89]|20)\d{2})[ /-]?(?:Q(?P<quarter>[1-4])|W(?P<week>[0-5]\d))"
    r"|Q(?P<before>[1-4])[ /-]?(?P<after>(?:1[89]|20)\d{2}))\s*"
)


def is_date_dtype(column: pd.Series) -> bool:
    """Whether a column has dates, with or without a time zone."""
    return pd.api.types.is_datetime64_any_dtype(column.dtype)


def date_format(values: pd.Series) -> str | None:
    """The format in which all values, text without gaps, are dates, month/day before day/month; None if none fits."""
    text = _date_text(values)
    if len(text) == 0 or not text.head(20).str.fullmatch(_LOOKS_LIKE_DATE).all():
        return None
    digits = text.head(20).str.fullmatch(r"\d{8}").all() and text.str.fullmatch(r"\d{8}").all()
    formats = (DIGITS,) if digits else FORMATS
    # Most formats fail on few cells already, which is known much sooner than for all.
    possible = [each for each in formats if not parse(text.head(SAMPLE), each).isna().any()]
    fitting = [each for each in possible if not parse(text, each).isna().any()]
    if len(fitting) > 1 and fitting[0] != "ISO8601" and (parse(text, fitting[0]) != parse(text, fitting[1])).any():
        warn(
            f"column {one_line(values.name, 60)} has dates like {text.iloc[0]!r}, read as month/day: write "
            "year-month-day if it is day/month"
        )
    return fitting[0] if fitting else None


def are_dates(text: pd.Series) -> pd.Series:
    """Which cells, text without gaps, are dates of the format that most of them have: bool (n,)."""
    alike = frames.by_value(text, lambda cells: cells.str.fullmatch(_LOOKS_LIKE_DATE)).astype(bool)
    if not alike.any():
        return alike
    dates = text[alike]
    some = dates.iloc[:: -(-len(dates) // SAMPLE)]  # every format is tried, which takes long for all
    form = max(FORMATS, key=lambda each: parse(some, each).notna().sum())
    return parse(dates, form).notna().reindex(text.index, fill_value=False)


def parse(column: pd.Series, form: str) -> pd.Series:
    """Dates of a column of dates, or of text in a format, in UTC without time zone; NaT where there is none."""
    if is_date_dtype(column):
        dates = column
    else:
        dates = pd.to_datetime(_date_text(column), format=form, errors="coerce", utc=True)
    if getattr(dates.dtype, "tz", None) is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    return dates.astype("datetime64[us]")


def _date_text(column: pd.Series) -> pd.Series:
    """Cells of a column as text; numbers such as 20000101, which are floating-point with gaps, without a fraction."""
    if column.dtype == object:
        column = column.map(str, na_action="ignore")  # pandas reads no dates from text of numpy
    text = (column.astype("Int64") if pd.api.types.is_float_dtype(column.dtype) else column).astype("string")
    if not text.head(1).str.fullmatch(_PART_OF_YEAR).any():
        return text
    return text.str.replace(f"^{_PART_OF_YEAR}$", _first_day, regex=True)


def _first_day(found: re.Match[str]) -> str:
    """The first day of what `_PART_OF_YEAR` has found, year-month-day; the text itself if there is no such week."""
    year, quarter = int(found["year"] or found["after"]), int(found["quarter"] or found["before"] or 0)
    try:
        return str(date(year, 3 * quarter - 2, 1) if quarter else date.fromisocalendar(year, int(found["week"]), 1))
    except ValueError:
        return found[0]


def are_numbers_of_days(values: pd.Series) -> bool:
    """Whether numbers are dates such as 20000101: of random numbers of eight digits, one in 27 is."""
    some = values.to_numpy(np.float64)
    whole = bool(((some >= FIRST_DAY) & (some <= 20_991_231) & (some % 1 == 0)).all())
    return whole and len(np.unique(some)) >= FEWEST_DAYS and date_format(values) is not None


FEWEST_DAYS = 3  # different ones
FIRST_DAY = 18_000_101


def date_parts(dates: pd.Series, origin: pd.Timestamp) -> np.ndarray:
    """`PARTS` of dates without gaps, float64 (n, 5); the time that has passed is in days."""
    of = dates.dt
    return np.column_stack([of.year, of.month, of.weekday, of.hour, days_since(dates, origin)]).astype(np.float64)


def days_since(dates: pd.Series, origin: pd.Timestamp) -> np.ndarray:
    """Days from a moment to dates, float64; in floating point, because a timedelta may hold 292 years only."""
    since = origin.as_unit("us").to_numpy().astype(np.int64)
    days = dates.to_numpy("datetime64[us]").astype(np.int64) / MICROSECONDS - since / MICROSECONDS
    return np.where(dates.isna(), np.nan, days)


def moments(days: np.ndarray, origin: pd.Timestamp) -> pd.Series:
    """Undo `days_since`; days outside of the years 1 to 9999 become the first or the last one."""
    found = days * MICROSECONDS + float(origin.as_unit("us").to_numpy().astype(np.int64))
    limits = np.array(["0001-01-01", "9999-12-31"], "datetime64[us]").astype(np.float64)
    return pd.Series(np.clip(found, *limits).astype(np.int64).astype("datetime64[us]"))


def outcome(role: str) -> tuple[str, str]:
    """What becomes of a column with an inferred role, for messages, and the role that a user gives to confirm it."""
    return ("left out", "drop") if role == "identifier" else (f"read as {role}", role)


def warn_mostly(column: pd.Series, role: str, source_name: str) -> None:
    """Warn of a text column of which at least half of the cells, but not all, are numbers or dates of one format."""
    cells = column.dropna().astype(str)
    numbers = frames.by_value(cells, frames.to_numbers)
    # Codes with leading zeros stay text, so that numbers beside them are codes, too.
    if numbers.nunique() > DISTINCT and not frames.by_value(cells, lambda each: each.str.fullmatch(r"0\d+")).any():
        kind, others, remedy = "numbers", cells[numbers.isna()], "--columns {} takes the others as missing"
    else:
        others = cells[~are_dates(cells)]
        kind, remedy = "dates", "leave the other cells empty, or write all dates in one format"
    if len(others) == 0 or len(cells) - len(others) < MOST * len(cells):
        return
    name, (taken, given) = one_line(column.name, 60), outcome(role)
    fraction = f"{100 * (1 - len(others) / len(cells)):.0f} %"
    warn(
        f"{source_name}: column {name} has {kind} in {fraction} of its cells, and is {taken} because of the others, "
        f"such as {one_line(repr(others.iloc[0]), 30)}: {remedy.format(quoted(f'{name}=numeric'))}; "
        f"--columns {quoted(f'{name}={given}')} says that it is meant"
    )


_NO_RESIDUE = "[BJOUZbjouz]"  # letters that hardly a peptide has, but words have


def sequences_of(column: pd.Series) -> Alphabet | None:
    """The alphabet of a text column of sequences of DNA or proteins; None for another column. Short ones are told if
    all have one length, as windows around a site, in which its letter may be small and _ stand beyond an end, and if
    the name of the column says what they are, such as peptide."""
    texts = column.dropna().astype(str).iloc[:SAMPLE]
    if not len(texts) or texts.nunique() < len(texts) / 2:
        return None
    length = texts.str.len()
    aligned = len(texts) >= FEW_ROWS and length.nunique() == 1 and length.iloc[0] >= WINDOW
    if aligned:
        texts = texts.str.strip("_").where(lambda text: text.str.count("[a-z]") != 1, lambda text: text.str.upper())
    letters = letters_of("".join(texts).encode("ascii", "replace"))
    alphabet = alphabet_of(letters)
    least = SHORTEST if _OF_LETTERS.search(str(column.name)) else SEQUENCE
    if (length.median() < least and not aligned) or not alphabet.known[letters].all():
        return None
    cases = all(text.isupper() or text.islower() or not text for text in texts)
    words = length.median() < SEQUENCE and (texts.str.islower().any() or texts.str.contains(_NO_RESIDUE).any())
    return alphabet if cases and not words else None


def warn_letters(column: pd.Series, role: str, source_name: str) -> bool:
    """Warn of a text column of sequences of DNA or proteins, which is no feature of a table; whether it is one."""
    alphabet = sequences_of(column)
    if alphabet is None:
        return False
    warn(
        f"{source_name}: column {one_line(column.name, 60)} has sequences ({alphabet.name}), and is "
        f"{outcome(role)[0]}: --modality {alphabet.name} takes them as the samples (in Python, fit that column alone)"
    )
    return True


_NO_MARKS = ".strip('[]()').replace(',', ' ')"
_BOX = re.compile(r"(?i)(.*[\W_])?(bbox|box|boundingbox|bounding[\W_]box|bounds|rect|roi)(es)?([\W_].*)?")
_LIST = r"[\[(]?[\d\s.,;eE+-]+[\])]?"


def numbers_in(column: pd.Series) -> pd.Series | None:
    """How many numbers each of the first cells of a text column has, if all are lists of them; None for others."""
    cells = column.dropna().astype(str).iloc[:SAMPLE]
    if not len(cells) or not cells.str.fullmatch(_LIST).all():
        return None
    counts = cells.str.replace(r"[^\d.eE+-]+", " ", regex=True).str.split().map(len)
    listed = cells.str.match(r"[\[(]").all() or (counts.nunique() == 1 and not cells.str.contains("[,;]").any())
    return counts if listed and counts.median() >= 4 else None


def warn_lists(frame: pd.DataFrame, roles: Mapping[str, str], source_name: str) -> list[str]:
    """Warn of text columns whose cells are lists of numbers, such as the pixels of an image or the points of a
    recording; the names of these columns."""
    counts = {name: found for name in roles if (found := numbers_in(frame[name])) is not None}
    boxes = [name for name in counts if _BOX.fullmatch(str(name)) and (counts[name] == 4).all()]
    for name in boxes:
        warn(
            f"{source_name}: column {one_line(name, 60)} has boxes, four numbers, and is {outcome(roles[name])[0]}: as "
            "features they are four columns; objects in images are cut out of these (--masks)"
        )
        del counts[name]
    if not counts:
        return boxes
    first, numbers = next(iter(counts.items()))
    fewest, most, name = int(numbers.min()), int(numbers.max()), one_line(first, 60)
    plain = _NO_MARKS if str(frame[first].dropna().iloc[0])[:1] in "[(" else ""
    lists, n = f"[cell{plain}.split() for cell in table['{name}']]", f"{fewest:,} to " * (fewest < most) + f"{most:,}"
    said = f"column {name} has lists of {n} numbers, and is"
    if len(counts) > 1:
        said = f"columns {name_list(list(counts), 1)} have lists of {n} numbers, and are"
    way = f"X=np.array({lists}, float)), and give x.npz (square images: --modality images)"
    if fewest < most:
        way = f"X=pd.DataFrame({lists}).to_numpy(float)[:, None]), and give x.npz --modality series"
    warn(f"{source_name}: {said} {outcome(roles[first])[0]}: to use them, np.savez('x.npz', {way}")
    return [*boxes, *counts]


#: Roles that a user can give.
GivenRole = Literal["numeric", "category", "text", "date", "drop"]
Role = Literal["numeric", "category", "text", "date", "identifier", "constant", "drop"]
LEFT_OUT: tuple[Role, ...] = ("identifier", "constant", "drop")
CATEGORIES = 40  # most values of a category, as in skrub
COVERED = 0.9  # of the rows, by the frequent values of a category with more values than that
SEQUENCE = 16  # letters of a sequence at least: shorter ones may be words or codes
SHORTEST = 6  # the same where the column is named so
_OF_LETTERS = re.compile(r"(?i)(^|[\W_])(peptides?|sequences?|seq|cdr3|junction|epitope|primer|s?grna)([\W_]|$)")
WINDOW = 5  # or at least, if all have one length
SENTENCE = 8  # words in the mean, from which on texts that are all different are more than names
FEW_ROWS = 20  # of fewer rows none is taken for an identifier
NEARLY_NUMBERS = 0.9  # of the cells of a text column are numbers: the others are probably mistakes
IDENTIFIER_NAMES = (
    *("id", "index", "key", "uuid", "guid", "rowid", "row_id", "rownames", "row.names", "unnamed: 0", "sample"),
)


@dataclass(frozen=True)
class Rare:
    """From how many rows on a value of a category has a feature of its own: 1 of less than 50 rows, at most 10."""

    rows: int

    @property
    def least(self) -> int:
        return 1 if self.rows < 50 else min(10, max(2, math.ceil(self.rows / 100)))


def choose_roles(
    frame: pd.DataFrame, given: Mapping[str, str] | None = None, source_name: str = "the table"
) -> dict[str, Role]:
    """The role of each column, by name: as given, otherwise inferred.

    - numbers are numeric; whole numbers that are all different and fill their range (or are named like an id) count
      rows: identifier
    - booleans, and text and pandas' categories of few values, are a category
    - dates, and text of dates, are a date
    - other text is text, but an identifier if every value is another one, unless it is sentences or molecules
    - a column with one value, or none, is constant
    """
    given = given or {}
    for name, role in given.items():
        if name not in frame.columns:
            hint = suggest(name, list(frame.columns), "its columns are")
            raise InputError(f"{source_name} has no column {one_line(name, 60)!r}, given in columns; {hint}")
        if role not in get_args(GivenRole):
            raise InputError(
                f"the role of column {one_line(name, 60)} is {one_line(role, 60)!r}, expected "
                f"{join_names(get_args(GivenRole))}"
            )
    roles: dict[str, Role] = {}
    texts: dict[str, Role] = {}
    read: dict[str, tuple[pd.Series, Form]] = {}
    nearly: dict[str, NearlyNumbers] = {}
    known: Mapping[str, str] = dict.fromkeys(_surely_numeric(frame), "numeric") | dict(given)
    for name in frame.columns:
        if name not in known and (form := form_of_numbers(frame[name])) is not None:
            roles[name], read[name] = "numeric", (frame[name], form)
            continue
        try:
            roles[name] = known[name] if name in known else infer_role(frame[name], source_name)  # type: ignore[assignment]
        except NearlyNumbers as error:
            nearly[name] = error
            continue
        if name in given or roles[name] not in ("category", "text", "identifier"):
            continue
        if pd.api.types.is_string_dtype(frame[name].dropna().dtype):
            texts[name] = roles[name]
    if read:
        warn_read(read, source_name)
    lists = warn_lists(frame, texts, source_name)
    for name in [name for name in texts if name not in lists]:
        # One warning of a column is enough.
        role = roles[name]
        letters = warn_letters(frame[name], role, source_name)
        if not letters and not warn_other_units(frame[name], *outcome(role), source_name):
            warn_mostly(frame[name], roles[name], source_name)
    if len(nearly) > 1:
        first, fault = next(iter(nearly.items()))
        roles_given = quoted(",".join(f"{one_line(name, 60)}=numeric" for name in nearly))
        raise InputError(
            f"{source_name}: {len(nearly)} columns are numbers but for some cells: {name_list(list(nearly))} (as "
            f"{fault.cells} of {one_line(first, 60)}); correct them, or give "
            f"--columns {roles_given} (they are then missing), or category in place of numeric"
        )
    for fault in nearly.values():
        raise fault
    warn_codes(frame, {name: role for name, role in roles.items() if name not in (*given, *read)}, source_name)
    return roles


# Numbers that surveys write for no answer, far from all others of their column; of the first rows of so many columns.
CODES = tuple(sign * int(digit * n) for digit in "789" for n in (1, 2, 3, 4) for sign in (-1, 1) if sign < 0 or n > 1)
CODES += (97, 98, -97, -98, 997, 998)
LOOKED_AT = (10_000, 500)


def warn_codes(frame: pd.DataFrame, roles: Mapping[str, Role], source_name: str) -> None:
    """Warn of numbers that probably stand for missing values, in two columns or more: they would be distances."""
    found: dict[int, list[str]] = {}
    for name in [name for name, role in roles.items() if role == "numeric"][: LOOKED_AT[1]]:
        values = np.unique(frame[name].head(LOOKED_AT[0]).to_numpy(np.float64, na_value=np.nan))
        coded = np.isin(values, CODES)
        others = values[~coded & np.isfinite(values)]
        if len(others) < 3 or not coded.any():
            continue
        span = others[-1] - others[0]
        for code in values[coded]:
            if max(others[0] - code, code - others[-1]) > span:
                found.setdefault(int(code), []).append(name)
    if shared := {code: names for code, names in found.items() if len(names) > 1}:
        code, names = max(shared.items(), key=lambda item: len(item[1]))
        warn(
            f"{source_name}: {' and '.join(map(str, shared))} may stand for missing values, such as {code} in "
            f"{name_list(names, 3)}: they are read as numbers, so leave these cells empty if they do"
        )


class NearlyNumbers(InputError):
    """A text column in which nearly all cells are numbers, and the `wrong` others."""

    def __init__(self, column: pd.Series, wrong: pd.Series, source_name: str) -> None:
        self.cells = list_cells(column, wrong)
        name = one_line(column.name, 60)
        super().__init__(
            f"{source_name}: column {name} is numbers but for {pluralize(len(wrong), 'cell')}: {self.cells}; "
            f"correct {'it' if len(wrong) == 1 else 'them'}, or give "
            f"--columns {quoted(f'{name}=numeric')} (they are then missing) or {name}=category"
        )


def infer_role(column: pd.Series, source_name: str = "the table") -> Role:
    """The role of a column by dtype and content, see `choose_roles`."""
    values = column.dropna()
    if column.dtype != object and frames.is_numeric(column) and not pd.api.types.is_bool_dtype(column.dtype):
        return _role_of_numbers(values, column)
    if len(values) and isinstance(first := values.iloc[0], list | tuple | dict | set | np.ndarray):
        name = one_line(column.name, 60)
        listed = f", or take it alone, as an array: numpy.stack(frame[{name!r}])"
        raise InputError(
            f"{source_name}: column {name} holds {type(first).__name__} objects, expected numbers, text, booleans or "
            f"dates; leave it out (--columns NAME=drop){listed * isinstance(first, list | tuple | np.ndarray)}"
        )
    given = values.astype(object)
    if pd.api.types.infer_dtype(given, skipna=False) != "string":
        given = given.map(frames.category_text)
    counts = given.value_counts()
    if len(counts) == 0 or (len(counts) == 1 and len(values) == len(column)):
        return "constant"
    if is_date_dtype(column):
        return "date"
    if pd.api.types.is_bool_dtype(values.infer_objects()):
        return "category"
    if frames.is_numeric(column):
        return _role_of_numbers(values, column)
    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        _check_nearly_numbers(column, source_name)
        if date_format(values) is not None:
            return "date"
    elif not isinstance(column.dtype, pd.CategoricalDtype):
        raise InputError(
            f"{source_name}: column {one_line(column.name, 60)} is {column.dtype}, expected numbers, text, booleans or "
            "dates; convert it, or leave it out (--columns NAME=drop)"
        )
    if len(counts) == len(values) and (len(column) >= FEW_ROWS or is_named_like_id(str(column.name))):
        sentences = values.map(lambda text: len(str(text).split())).mean() >= SENTENCE
        return "text" if sentences or "smiles" in str(column.name).lower() else "identifier"
    frequent = counts[counts >= Rare(len(column)).least]
    few = len(counts) <= CATEGORIES
    return "category" if few or (len(frequent) <= CATEGORIES and frequent.sum() >= COVERED * len(values)) else "text"


def is_plain(frame: pd.DataFrame, roles: Mapping[str, Role], gaps: bool = False) -> bool:
    """Whether all columns are numbers, with or without `gaps`, or constant: then they need no encoder."""
    if not set(roles.values()) <= {"numeric", "constant"}:
        return False
    used = frame if list(roles) == list(frame.columns) else frame[list(roles)]  # a copy
    return not frames.no_numbers(used, roles) and (gaps or not bool(used.isna().to_numpy().any()))


def describe_roles(roles: Mapping[str, Role]) -> str:
    """The roles of all columns in a line."""
    parts = []
    for role in ("numeric", "category", "text", "date"):
        if named := [name for name, its in roles.items() if its == role]:
            parts.append(f"{role} {name_list(named, 8)}")
    if left := [f"{name} ({its})" if its != "drop" else name for name, its in roles.items() if its in LEFT_OUT]:
        parts.append(f"left out {name_list(left, 8)}")
    return f"{pluralize(len(roles), 'column')}: {'; '.join(parts)}"


def form_of_numbers(column: pd.Series) -> Form | None:
    """The form of a text column of numbers that are no dates and count no rows; None for another."""
    if frames.is_numeric(column) or not (column.dtype == object or pd.api.types.is_string_dtype(column.dtype)):
        return None
    if (form := form_of(column)) is None or date_format(column.dropna().map(str)) is not None:
        return None
    numbers = pd.Series(numbers_of(column, form)[0]).dropna()
    return form if _role_of_numbers(numbers - numbers.min(), column) == "numeric" else None


def _role_of_numbers(values: pd.Series, column: pd.Series) -> Role:
    """Identifier if the numbers count rows: whole, all different, and dense in their range or named like an id."""
    numbers, n, name = values.to_numpy(np.float64), len(column), str(column.name)
    if len(numbers) == 0 or (len(numbers) == n and numbers.min() == numbers.max()):
        return "constant"
    with np.errstate(invalid="ignore"):  # infinity is refused later
        whole = not numbers[0] % 1 and not (numbers % 1).any()
    if whole and are_numbers_of_days(values):
        return "date"
    if n < FEW_ROWS or len(numbers) < n or not whole or len(np.unique(numbers)) < n:
        return "numeric"
    return "identifier" if is_named_like_id(name) or numbers.max() - numbers.min() < 2 * n else "numeric"


TOGETHER = 2**22  # values of columns whose roles are found together


def _surely_numeric(frame: pd.DataFrame) -> list[str]:
    """Columns for which `_role_of_numbers` says numeric and no date is tried; of thousands, each alone takes long."""
    n, found = len(frame), []
    places = [i for i, dtype in enumerate(frame.dtypes) if isinstance(dtype, np.dtype) and dtype.kind in "iuf"]
    for part in np.array_split(np.array(places, dtype=int), -(-n * len(places) // TOGETHER) or 1) if n else ():
        x = frame.iloc[:, part].to_numpy(np.float64)
        with np.errstate(invalid="ignore"):  # infinity is refused later
            missing, whole = np.isnan(x).any(axis=0), (np.isnan(x) | (x % 1 == 0)).all(axis=0)
            low, high = x.min(axis=0), x.max(axis=0)
        repeated, few = np.zeros(len(part), dtype=bool), whole & ~missing & (low < FIRST_DAY)
        repeated[few] = n < FEW_ROWS or (np.diff(np.sort(x[:, few], axis=0), axis=0) == 0).any(axis=0)
        found += [frame.columns[i] for i in part[(missing | (low < high)) & (~whole | repeated)]]
    return found


_ENDS_LIKE_ID = re.compile(r".*[_\s.-](id|key|uuid|guid)|.*[a-z](Id|ID|UUID|Key)", re.DOTALL)
_UPPER_ID = re.compile(r"(PATIENT|SUBJECT|RESPONDENT|SAMPLE|CUSTOMER|USER|RECORD|CASE|PERSON|PARTICIPANT|CELL|ROW)ID")


def is_named_like_id(name: str) -> bool:
    """Whether a column is named like an identifier: ``id``, ``patient_id``, ``Patient ID``, ``PatientID``."""
    low = name.lower()
    return (
        low in IDENTIFIER_NAMES
        or bool(_ENDS_LIKE_ID.fullmatch(name) or _ENDS_LIKE_ID.fullmatch(low))
        or bool(_UPPER_ID.fullmatch(name))
    )


def _check_nearly_numbers(column: pd.Series, source_name: str) -> None:
    """Refuse a text column in which nearly all cells are numbers, and name the others."""
    values = column.dropna().astype(str)
    numbers = frames.to_numbers(values)
    wrong = values[numbers.isna()]
    if 0 < len(wrong) <= (1 - NEARLY_NUMBERS) * len(values) and numbers.nunique() > DISTINCT:
        raise NearlyNumbers(column, wrong, source_name)


def list_cells(column: pd.Series, cells: pd.Series) -> str:
    """Cells of a column with the numbers of their rows, counted from 1 below the header."""
    rows: Any = column.index.get_indexer(cells.index) + 1
    return name_list([f"{one_line(repr(cell), 30)} in row {row:,}" for cell, row in zip(cells, rows, strict=True)], 3)
