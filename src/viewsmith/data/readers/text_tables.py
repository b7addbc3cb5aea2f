"""Readers of tables that are text: separators, header lines, encodings, commas in numbers."""

import codecs
import dataclasses
import io
import itertools
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, pluralize, say, warn
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.data.headers import DECIMAL_COMMA, LOOKED_AT, has_header, numbers_of
from viewsmith.data.layouts import MOST_CHANNELS, READ
from viewsmith.data.options import DataOptions
from viewsmith.data.places import CSV, TEXTS, TSV, extension_of, open_packed
from viewsmith.data.readers import tables
from viewsmith.data.readers.moments import RATE
from viewsmith.data.readers.spectra import holds_one, read_spectra
from viewsmith.data.reading import FileContents, open_text, reader, reading
from viewsmith.data.text_lines import fields_of, has_decimal_commas, lines_of_text
from viewsmith.data.unread import fixed_width_way, named, refuse, sentence
from viewsmith.modalities import frames
from viewsmith.modalities.tables.columns import Category, Text

_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3}){1,5}(\.\d+)?\s*")  # numbers with commas; more are a list
_PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_DECIMAL = re.compile(f"{DECIMAL_COMMA.pattern}|{_PLAIN.pattern}")
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([,;|\t])"?\s*', re.IGNORECASE)
_BLANK = [" " * n for n in range(1, 9)]  # cells of spaces alone are empty
_NEARLY = 0.9  # of the cells are numbers: the others are named later
_LARGE = "save it as .parquet, of which a part at a time is read"


def open_table(path: Path) -> IO[bytes]:
    """A text table, plain or packed."""
    return open_text(path, _LARGE)


def given_separator(path: Path) -> str | None:
    """The separator in the first line of a text table, ``sep=;``, which Excel reads and does not take for a header."""
    with open_table(path) as file:
        return _separator_of(file.readline(64))


def _separator_of(line: bytes) -> str | None:
    found = _SEPARATOR_LINE.fullmatch(line)
    return None if found is None else found[1].decode()


def text_of(path: Path, request: DataOptions) -> tuple[str, str] | None:
    """The text of a table in another encoding than UTF-8, and that encoding: the given one, that of a byte order mark,
    or that of the run if the file is not UTF-8; None for UTF-8."""
    with reading(str(path), f"a {path.suffix.lower()} table in UTF-8"), open_table(path) as file:
        first = file.read(2)
    encoding = request.encoding or ("utf-16" if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None)
    fitted = None if request.schema is None else request.schema.get("encoding")
    if encoding is None and (fitted is None or _is_utf8(path)):
        return None
    used = str(encoding or fitted)
    with reading(str(path), f"a table in {used}"), open_table(path) as file:
        return file.read().decode(used).removeprefix("\ufeff"), used


def _is_utf8(path: Path) -> bool:
    with reading(str(path), "a table"), open_table(path) as file:
        try:
            for line in file:
                line.decode("utf-8")
        except UnicodeDecodeError:
            return False
    return True


def find_separator(names: list[str], separator: str) -> str:
    """The separator of a header that was split at commas: another one if it gave one name with that in it."""
    found = {mark for mark in ";\t" if mark in names[0]}
    return found.pop() if separator == "," and len(names) == 1 and len(found) == 1 else separator


COMMAS = "commas"  # in `attrs` of a table: the option of pandas that reads those in its numbers


def read_commas(frame: pd.DataFrame, separator: str, leave: Collection[str], source_name: str) -> pd.DataFrame:
    """Read commas in numbers, before decimals or between thousands, of columns that have hardly anything else."""
    pattern, mark, means = (_THOUSANDS, "", "thousands") if separator == "," else (DECIMAL_COMMA, ".", "decimals")
    changed = {}
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):  # a column alone takes long, if there are many
        if name in leave or not (dtype.kind == "O" and (dtype.name == "object" or pd.api.types.is_string_dtype(dtype))):
            continue
        text = frame[name].dropna().astype(str)
        if not any("," in cell for cell in text):
            continue
        commas, others = (frames.by_value(text, partial(_matching, form)).astype(bool) for form in (pattern, _PLAIN))
        others = others[~commas]
        if not commas.any() or commas.sum() + others.sum() < _NEARLY * len(text):
            continue
        text = text.where(~commas, text.str.replace(",", mark, regex=False))
        changed[name] = (pd.to_numeric(text) if others.all() else text).reindex(frame.index)
    if changed:
        frame.attrs[COMMAS] = f", {'thousands' if separator == ',' else 'decimal'}=','"
        warn(f"{source_name}: commas are read as marks of {means} in {name_list(list(changed))}")
    for name, column in changed.items():
        frame[name] = column
    return frame


def _matching(pattern: re.Pattern[str], cells: Iterable[str]) -> list[bool]:
    """Which cells a pattern matches from their beginning to their end."""
    return [pattern.fullmatch(cell) is not None for cell in cells]


MANY = 10  # line breaks, which hardly a cell has that was meant so


def warn_open_quotes(frame: pd.DataFrame, source_name: str) -> None:
    """Warn of a text table with a cell or a column name of many lines: a quote may not be closed."""
    most, found = max((str(name).count("\n"), "the header line has a column name") for name in frame.columns)
    place = ""
    for name in frame.select_dtypes(exclude=["number", "bool"]).columns:
        breaks = frames.by_value(frame[name].map(str), lambda cells: cells.str.count("\n")).to_numpy()
        if len(breaks) and breaks.max() > most:
            most, found = int(breaks.max()), f"column {one_line(name, 60)} has a cell"
            place = f", in row {int(breaks.argmax()) + 1:,} (counted from 1, without the header)"
    if most >= MANY:
        warn(
            f"{source_name}: {found} of {most + 1:,} lines{place}; a quote may not be closed, which makes one cell of "
            "all lines up to the next quote: correct the file if these lines are rows"
        )


SAMPLE = 1000  # lines in which codes are looked for
_HASH = re.compile(r"\d[eE][+-]?\d{5}")
_CODE = re.compile(rf"(?<![\w.+-])0\d|{_HASH.pattern}")
TOP = 20  # lines, among which the header is


def text_columns(
    read: Callable[..., pd.DataFrame], layout: Mapping[str, Any], request: DataOptions, lines: Iterable[str]
) -> Iterable[str]:
    """Columns of a text file, of these lines, that must not be read as numbers: given or fitted as such, codes such as
    01234, and hashes."""
    found = {name for name, role in tables.given_roles(request).items() if role in ("category", "text")}
    as_given = request.schema is not None or request.strict or request.table is not None
    if request.table is not None:
        of = request.table.columns
        found = {c.name for c in of if isinstance(c, Text) or (isinstance(c, Category) and c.dtype == "text")}
    if not _may_have_codes(lines, SAMPLE + 1 + layout["skiprows"]):  # text of many columns takes long
        return found
    first, code = read(dtype=str, nrows=SAMPLE, **layout), frames.HUGE if as_given else re.compile(r"0\d+")
    columns = zip(first.columns, first.to_numpy(dtype=object).T, strict=True)
    of_text = {n: [c for c in cells if type(c) is str] for n, cells in columns}
    return found | {n for n, cells in of_text.items() if any(code.fullmatch(c) or frames.HUGE.match(c) for c in cells)}


def _may_have_codes(lines: Iterable[str], most: int) -> bool:
    """Whether one of the first lines, without empty ones, has a code; quotes may hold several lines of a cell."""
    some = itertools.islice((line for line in lines if line.strip()), most)
    return any('"' in line or _CODE.search(line) is not None for line in some)


_BLANKS = b" \t\r\n,;"


def refuse_encoding(path: Path) -> int:
    """Number of lines of a file; raise InputError if some are not UTF-8, or if there is another table after an empty
    line; the message names the first one."""
    bad: list[int] = []
    example, lines, empty, before = b"", 0, 0, b""
    with reading(str(path), "a table"), open_table(path) as file:
        for lines, line in enumerate(file, 1):
            blank = line[:1] in _BLANKS and not line.strip(_BLANKS)
            if empty and not blank and _begins_table(before, line):
                raise InputError(
                    f"{path}: line {lines:,} begins another table after an empty line: expected one table, so put this "
                    "one into a file of its own"
                )
            empty, before = (lines, before) if blank and lines > 1 else (0, line)
            if line.isascii():
                continue
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                example = example or line[max(0, error.start - 10) : error.start + 10]
                bad.append(lines)
    if not bad:
        return lines
    shown = one_line(example.decode("latin-1"), 30)
    others = "" if len(bad) == 1 else f", as {pluralize(len(bad), 'line')} of {lines:,}"
    raise InputError(
        f"{path}: line {bad[0]:,} is not UTF-8{others} (near {shown!r}, if it is Latin-1); expected a table in UTF-8: "
        "give its encoding (--encoding latin-1), or correct these lines if encodings are mixed"
    )


def _begins_table(before: bytes, line: bytes) -> bool:
    """Whether a line is a header where the line before has numbers: it has texts alone, and at least two."""
    fields, rows = ([cell.strip(b' "\r\n') for cell in re.split(rb"[,;\t]", each)] for each in (line, before))
    numbers = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
    texts = len(fields) > 1 and all(cell and not numbers.fullmatch(cell) for cell in fields)
    return texts and any(numbers.fullmatch(cell) for cell in rows)


def _refuse_repeated_header(frame: pd.DataFrame, source_name: str) -> None:
    """Raise InputError for a row that repeats the header, as in tables that were joined."""
    first = frame.iloc[:, 0]
    if frames.is_numeric(first):
        return
    names = np.array(list(map(str, frame.columns)))
    for row in np.flatnonzero(first.astype(str).to_numpy() == names[0])[:1]:
        if (frame.iloc[row].astype(str).to_numpy() == names).all():
            raise InputError(
                f"{source_name}: row {row + 1:,} (counted from 1, without the header) repeats the header, as in files "
                "that were joined: delete such lines"
            )


# Decorators are applied from the last one on, which is the first one of lists.
of_text = partial(reader, options=("header", "encoding"), table=True, once=True)


@of_text(
    "text",
    *TEXTS,
    help="a table separated by spaces, tabs, commas or semicolons; comments (#) before it may name its columns",
    noun="a text table",
    example="iris.data --label 4",
)
@of_text("tsv", *TSV, help="a table separated by tabs", noun="a .tsv table", example="genes.tsv --drop id")
@of_text(
    "csv",
    *CSV,
    help="a table separated by commas, semicolons or tabs",
    noun="a .csv table",
    example="patients.csv --label diagnosis",
)
def read_text_table(path: Path, request: DataOptions) -> FileContents:
    """Table separated by what its ending says, or by what gives its lines equal numbers of fields."""
    if request.modality == "spectra" and holds_one(path, request):
        return read_spectra(path, request)
    frame, options = text_frame(path, request)
    found = tables.table_rows(frame, request, str(path))
    return dataclasses.replace(found, options=found.options | options)


def text_frame(path: Path, request: DataOptions) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The columns of a text table of any ending, and with which options it was read."""
    ending = extension_of(path).lower()
    if ending in (*CSV, *TSV):
        return _frame(path, request, "," if ending in CSV else "\t")
    refuse(path, ending, texts=False)
    found = lines_of_text(path, 1 if request.modality == "series" else 2)
    if found is None:
        with reading(str(path), "a table"), open_packed(path) as file:
            if file.read(1) == b">":
                raise InputError(f"{path} has sequences, by its first letter: rename it to {path.stem}.fasta")
        if (one := lines_of_text(path, 1)) is not None and _PLAIN.fullmatch(one.rows[-1][0]):
            raise InputError(
                f"{path} has one column of numbers, expected several: if it is a recording, give --modality series"
            )
        raise InputError(
            f"{path} is not a table: expected lines with equal numbers of fields, separated by spaces, tabs, commas or "
            f"semicolons{fixed_width_way(path)}"
        )
    skipped, width, names = len(found.comments), len(found.rows[-1]), None
    if len(found.rows[0]) < width:  # as R writes it: the column of row names has none
        names, skipped = ["row", *found.rows[0]], skipped + 1
    elif found.comments:
        last = found.split(found.comments[-1].strip("# "))
        if len(last) != width:  # as "#X		#Y", where two tabs separate what one does below
            last = [each.strip("# ") for each in last if each.strip("# ")]
        names = last if len(last) == width and not last[0].endswith(("=", ":")) else None  # a setting and its value
    return _frame(path, request, found.separator, skipped, names)


def first_rows(path: Path, encoding: str | None = None) -> pd.DataFrame:
    """The first rows of a table with all columns, as text where they are not numbers."""
    with reading(str(path), "a table"):
        if path.suffix.lower() == ".parquet":
            return tables.open_parquet(path).read().to_pandas().head(tables.HEAD_ROWS)
        given, text = given_separator(path), lines_of_text(path)
        if text is None and (single := lines_of_text(path, 1)) and _DECIMAL.fullmatch(single.rows[-1][0]):
            text = single  # a column of numbers, in which pandas would find another separator, such as a point
        separator = given or ("\t" if ".tsv" in path.name.lower() else None if text is None else text.separator)
        options: dict[str, Any] = {"sep": separator, "nrows": tables.HEAD_ROWS, "skiprows": int(given is not None)}
        if text is not None and not has_header(pd.DataFrame(text.rows[:LOOKED_AT])):
            options |= {"header": None, "names": [str(i) for i in range(len(text.rows[-1]))]}
        options |= {"encoding": encoding or "utf-8", "encoding_errors": "replace"}
        return pd.read_csv(_unzipped(path), engine="python", **options)


def _unzipped(path: Path) -> Any:
    """What pandas reads: a path, or the only table in a zip, beside which it takes no hidden file."""
    return open_table(path) if path.suffix.lower() == ".zip" else path


def _frame(
    path: Path, request: DataOptions, separator: str, skipped: int = 0, names: list[str] | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The columns of a text table after `skipped` lines, with names of its columns where no line has them."""
    decoded = text_of(path, request)
    text = None if decoded is None else decoded[0]
    options = {} if decoded is None else {"encoding": decoded[1]}
    n_lines = refuse_encoding(path) if text is None else text.count("\n") + 1

    # A header line is text; pandas takes its fields for numbers, and may not survive that (`frames.HUGE`).
    hashes = any(map(_HASH.search, itertools.islice(_lines(path, text), TOP)))

    def read(**options: Any) -> pd.DataFrame:
        if hashes and options.get("nrows", TOP) <= 2:
            options = {"dtype": str} | options
        return pd.read_csv(_unzipped(path) if text is None else io.StringIO(text), **options)

    points, rate = None, None
    with reading(str(path), f"a {path.suffix.lower()} table in UTF-8"):
        given = given_separator(path) if text is None else _separator_of(text[:64].partition("\n")[0].encode())
        if given not in (None, separator):
            warn(f"{path}: columns are separated by {given!r}")
        if given is None and extension_of(path).lower() in (*CSV, *TSV):
            lines = _first_lines(path, text)
            if (points := _names_of_keypoints(lines)) is not None:
                separator, (skipped, names) = ",", points
            if separator == "," and has_decimal_commas(lines):
                separator = ";"
                warn(f"{path}: columns are separated by ';'")
            if not skipped:
                skipped, rate = _titles(lines, separator, request, str(path))
        layout: dict[str, Any] = {"sep": given or separator, "skiprows": skipped + (given is not None)}
        # After commas; a .csv file may have meant them.
        layout["skipinitialspace"] = extension_of(path).lower() in TEXTS
        if names is None:
            names = _names(read, layout, request, str(path), given is None)
        else:
            layout |= {"header": None, "names": names}
        if "names" in layout:
            options["header"] = "no"
        parts = partial(_read_parts, read, -(-n_lines * len(names) // VALUES), str(path), max(1, VALUES // len(names)))
        frame = _text_table(read, parts, layout, request, names, str(path), _lines(path, text))
        frame = frame if points is None else _places(frame, str(path))
        if points is not None or (rate is not None and len(names) <= MOST_CHANNELS):  # of more, rows are recordings
            frame.attrs[RATE] = rate
        if "names" not in layout and text is None:
            commas = frame.attrs.get(COMMAS, "")
            frame.attrs[READ] = f"pd.read_csv({{path}}, sep={layout['sep']!r}, skiprows={layout['skiprows']}{commas})"
        return frame, options


_FRAME, _LIKELIHOOD = "frame", "_likelihood"
LIKELY = 0.6  # as in DeepLabCut: a place of less is not used


def _names_of_keypoints(lines: list[str]) -> tuple[int, list[str]] | None:
    """How many header lines a table of DeepLabCut has, and the names that they give its columns, such as nose_x; None
    for another table."""
    rows = fields_of([line.lstrip("\ufeff") for line in lines[:4]], ",")
    first = [row[0] if row else "" for row in rows]
    if first[:2] not in (["scorer", "bodyparts"], ["scorer", "individuals"]) or "coords" not in first:
        return None
    end = first.index("coords") + 1
    return end, [_FRAME, *("_".join(parts) for parts in zip(*(row[1:] for row in rows[1:end]), strict=False))]


def _places(frame: pd.DataFrame, source_name: str) -> pd.DataFrame:
    """The places of keypoints, missing where they are not likely."""
    of = {name: name.removesuffix(_LIKELIHOOD) for name in frame.columns if name.endswith(_LIKELIHOOD)}
    kept = [name for name in frame.columns if name not in of and name != _FRAME]
    places = frame[kept].astype("float64")
    for likelihood, point in of.items():
        axes = [name for name in kept if name.rpartition("_")[0] == point]
        places[axes] = places[axes].mask(frame[likelihood] < LIKELY)
    missing = places.isna().to_numpy().mean() if len(places) else 0.0
    say(
        f"{source_name}: {pluralize(len(kept), 'place')} of keypoints (DeepLabCut), of which {100 * missing:.1f} % are "
        f"missing, below a likelihood of {LIKELY}"
    )
    return places


def _first_lines(path: Path, text: str | None) -> list[str]:
    """The first lines of a file, or of its text if that is not in UTF-8."""
    lines = iter(_lines(path, None) if text is None else text[:100_000].splitlines())
    found = list(itertools.islice(lines, LOOKED_AT))
    cells = [len(re.findall(r"[^,;\t\s][^,;\t]*", line)) for line in found]
    if len(found) == LOOKED_AT and np.median(cells) <= 2:  # titles may be longer
        found += itertools.islice(lines, 3 * LOOKED_AT)
    return found


def _lines(path: Path, text: str | None) -> Iterator[str]:
    """The lines of a file, or of its text if that is not in UTF-8."""
    if text is not None:
        yield from io.StringIO(text)
        return
    with open_table(path) as file:
        for line in file:
            yield line.decode("utf-8", "replace")


def _titles(lines: list[str], separator: str, request: DataOptions, source_name: str) -> tuple[int, float | None]:
    """How many lines stand above the names of the columns, which is said, and the rate that they tell."""
    rows = (fields_of(lines, mark) for mark in dict.fromkeys((separator, ";", "\t")))
    cells = max(rows, key=lambda rows: sum(len(row) for row in rows[len(rows) // 2 :]))
    if len(cells) != len(lines):  # cells with line breaks
        return 0, None
    if sum(_SECTION.fullmatch("".join(row).strip()) is not None for row in cells) > 1:
        raise InputError(sentence(Path(source_name), named("actiware")))
    above, rate = 2, _rate_of_wristband(cells)
    said = "the first two lines are the start and the rate of a wristband (Empatica E4), and are left out"
    if rate is None:
        above = tables.lines_above([sum(cell.strip() != "" for cell in row) for row in cells])
        first = next((row for row in cells[:above] if any(row)), ["0"])
        if numbers_of(pd.Series(first[:1])).notna().all():  # a row of values of which most are missing
            return 0, None
        said, rate = tables.titles(above, first[0]), _rate_in("\n".join(lines[:above]))
    if request.schema is None:
        say(f"{source_name}: {said}" + ("" if rate is None else f": {rate:.4g} Hz"))
    return above, rate


_SECTION = re.compile(r"-{5,} ?[^-].*[^-] ?-{5,}")  # the title of one of several tables
_HERTZ = re.compile(r"(?i)\bat (\d+(?:\.\d+)?) ?Hz\b")
_EPOCH = re.compile(r"(?i)\bEpoch Period \(hh:mm:ss\)\W*(\d+):(\d\d):(\d\d)\b")


def _rate_in(titles: str) -> float | None:
    """Points per second, as ActiGraph writes them above a recording, or the period from one to the next."""
    hertz, period = _HERTZ.search(titles), _EPOCH.search(titles)
    hours, minutes, seconds = (0, 0, 0) if period is None else map(int, period.groups())
    lasting = 3600 * hours + 60 * minutes + seconds
    return float(hertz[1]) if hertz is not None else 1 / lasting if lasting else None


def _rate_of_wristband(cells: list[list[str]]) -> float | None:
    """The rate of a file of an Empatica E4, whose first line has the seconds since 1970 at which it starts, and the
    second one the rate, for each channel; None for another."""
    rows = [numbers_of(pd.Series(row)) for row in cells[:3]]
    if len(cells) < 10 or any(row.isna().any() or row.empty for row in rows):
        return None
    start, rate, value = (row.iloc[0] for row in rows)
    alike = (rows[0] == start).all() and (rows[1] == rate).all()
    return float(rate) if alike and start > 1e9 and abs(value) < 1e6 and rate in (1, 4, 32, 64) else None


def _names(
    read: Callable[..., pd.DataFrame], layout: dict[str, Any], request: DataOptions, source_name: str, seek: bool
) -> list[str]:
    """Names of the columns: the first line, or numbers from 0 where it has values; `layout` is completed by these, and
    by the separator if one is to be sought."""
    first: dict[str, Any] = {"header": None, "nrows": 1, "keep_default_na": False}
    try:
        # pandas renames columns with equal names, so the header is read separately first.
        line = read(**first, **layout).iloc[0].tolist()
        if not all(type(name) is str for name in line):  # as text from the first is slow with many columns
            line = read(dtype=str, **first, **layout).iloc[0].tolist()
        if seek and (found := find_separator(line, layout["sep"])) != layout["sep"]:
            warn(f"{source_name}: columns are separated by {found!r}")
            layout["sep"] = found
            line = read(dtype=str, **first, **layout).iloc[0].tolist()
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{source_name} is empty; expected a header line and rows") from error
    numbers = [str(i) for i in range(len(line))]
    header = request.or_fitted("header") if line != numbers else "yes"
    if header in (None, "auto"):
        fitted = request.schema is not None
        header = "yes" if fitted or _has_header(read, first | layout, len(line)) else "no"
        if header == "no":
            say(
                f"{source_name}: the first line has values, as the others: columns are named {numbers[0]} to "
                f"{numbers[-1]} (--header yes takes it for their names)"
            )
    if header == "no":
        layout |= {"header": None, "names": numbers}
        return numbers
    _check_header(line, layout["sep"], source_name, of_points=request.modality == "spectra")
    return line


WIDE = 1000  # columns that tell whether there is a header


def _has_header(read: Callable[..., pd.DataFrame], layout: dict[str, Any], width: int) -> bool:
    some = {"usecols": range(WIDE)} if width > WIDE else {}
    try:
        return has_header(read(**layout | {"nrows": LOOKED_AT, "dtype": str} | some))
    except pd.errors.ParserError:  # of lines of different lengths, which is said when all are read
        return True


VALUES = 2**22  # of a text table that are read at once: pandas takes much memory for more, and is not interrupted
#: What columns of several types may have, parts of which have numbers or nothing, and are read as the whole is.
_ONE_TYPE = ("string", "boolean", "empty")


def _read_parts(read: Callable[..., Any], number: int, source_name: str, rows: int, **options: Any) -> pd.DataFrame:
    """All rows of a text table, read in a number of parts; at once, if a column has numbers in some and texts in
    others, because texts such as 01 were read as numbers there, or has true and false or very large numbers in some."""
    if number > 1:
        with read(chunksize=rows, **options) as reader:
            parts = list(with_progress(reader, f"read {source_name}", number, "parts", told=TOLD))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of parts in which all cells of a column are missing
            frame = pd.concat(parts)
        kinds = np.array([[dtype.kind for dtype in part.dtypes] for part in parts])
        changed = (kinds != kinds[0]).any(axis=0) & np.isin(kinds, ["b", "u"]).any(axis=0)
        texts = [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if dtype.kind == "O"]
        if not changed.any() and all(pd.api.types.infer_dtype(frame[name], skipna=True) in _ONE_TYPE for name in texts):
            return frame
    whole: pd.DataFrame = read(**options)
    return whole


def _text_table(
    read: Callable[..., pd.DataFrame],
    read_all: Callable[..., pd.DataFrame],
    layout: dict[str, Any],
    request: DataOptions,
    names: list[str],
    source_name: str,
    lines: Iterable[str],
) -> pd.DataFrame:
    """The columns of a text table of these lines, of which some or all are read."""
    as_text = [*request.one_hot, *(request.schema or {}).get("one_hot", {})]
    # Categories are read as text; otherwise 01 would become 1 if all categories look like numbers.
    as_text += [name for name in text_columns(read, layout, request, lines) if name not in as_text]
    types = dict.fromkeys(as_text, str) or None
    try:
        with warnings.catch_warnings():
            # Further fields would be the names of the rows, or, without such, be left out.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = read_all(dtype=types, low_memory=False, na_values=_BLANK, index_col=False, **layout)
        more = _has_more_fields(read, layout, len(names))
    except pd.errors.ParserWarning:
        more = True
    if more:
        raise InputError(
            f"{source_name}: rows have more fields than the header line has names ({one_line(names[0], 40)}, ...): "
            "name every column, and delete lines above the header"
        )
    warn_open_quotes(frame, source_name)
    label = request.or_fitted("label")
    if label in frame.columns and frame[label].isna().any():
        written = read(usecols=[label], dtype=str, keep_default_na=False, **layout)[label]
        frame = tables.with_none(frame, str(label), written, source_name)
    if len(frame):
        _refuse_repeated_header(frame, source_name)
    return read_commas(frame, layout["sep"], {*as_text, str(request.label), str(request.groups)}, source_name)


def _has_more_fields(read: Callable[..., pd.DataFrame], layout: dict[str, Any], width: int) -> bool:
    """Whether the first row has a field beyond the header that says that nothing is there, as NA of a last column in a
    table with names of rows; that of a separator at its end is empty."""
    if "names" in layout:
        return False
    wider = layout | {"header": None, "names": range(width + 1), "nrows": 2}
    return any(str(cell).strip() for cell in read(**wider, keep_default_na=False).iloc[1:, -1])


def _check_header(names: list[str], separator: str, source_name: str, of_points: bool) -> None:
    check_unique([name for name in names if name], f"{source_name} has columns with equal names", tables.RENAME)
    other = next((mark for mark in ",;|\t" if mark != separator and mark in names[0]), None)
    if len(names) == 1 and other:
        raise InputError(
            f"{source_name} has the separator {other!r}, expected {separator!r}; .csv has commas, .tsv has tabs"
        )
    counted = of_points or names == [str(i) for i in range(len(names))]
    if not counted and not frames.to_numbers(pd.Series(names)).isna().any():
        warn(
            f"{source_name}: the first line has only numbers ({name_list(names, 3)}) and is used as the names of the "
            "columns; if it is data: --header no"
        )
