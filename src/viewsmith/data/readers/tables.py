"""Readers of tables: .csv and .tsv with their separators and quotes, .parquet that may stay on disk, mixed columns."""

import codecs
import dataclasses
import io
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import (
    InputError,
    check_unique,
    name_list,
    one_line,
    pluralize,
    quoted,
    require,
    suggest,
    warn,
)
from viewsmith.core.options import Impute
from viewsmith.data.dataset import split_groups, split_indices
from viewsmith.data.formats import reader
from viewsmith.data.labels import (
    group_names,
    labels_of,
    lacks_labels,
    missing_labels,
    numbers_of,
    warn_label_among,
    warn_leaks,
    without_label,
)
from viewsmith.data.options import DataOptions
from viewsmith.data.parquet import ParquetRows, open_parquet, read_columns
from viewsmith.data.readers.sequences import alphabet_given, read_sequences
from viewsmith.data.reading import FileContents, open_text, reading
from viewsmith.data.unread import transposing
from viewsmith.modalities import frames
from viewsmith.modalities.checks import as_vectors, check_missing, match_columns
from viewsmith.modalities.tables.columns import Category, Text
from viewsmith.modalities.tables.encoder import fit_table
from viewsmith.modalities.tables.roles import LEFT_OUT, choose_roles, is_plain
from viewsmith.modalities.vectors.counts import genes_in_rows, looks_like_counts, uneven_totals

# Numbers as spreadsheets write them where the comma is the decimal mark, and the columns therefore have another
# separator; and numbers with commas between thousands.
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3}){1,5}(\.\d+)?\s*")  # more are a list
_PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([,;|\t])"?\s*', re.IGNORECASE)
_BLANK = [" " * n for n in range(1, 9)]  # cells of spaces alone are empty
_NEARLY = 0.9  # of the cells are numbers: the others are named later
_LARGE = "save it as .parquet, of which a part at a time is read"


def open_table(path: Path) -> IO[bytes]:
    """A text table, plain or compressed by gzip."""
    return open_text(path, path.suffix.lower() == ".gz", _LARGE)


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
    try:
        codecs.lookup(used)
    except LookupError as error:
        raise InputError(
            f"encoding is {one_line(used, 40)!r}, expected one of Python, such as cp1252 or latin-1"
        ) from error
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


def read_commas(frame: pd.DataFrame, separator: str, leave: Collection[str], source_name: str) -> pd.DataFrame:
    """Read commas in numbers, before decimals or between thousands, of columns that have hardly anything else."""
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
        warn(f"{source_name}: commas are read as marks of {means} in {name_list(list(changed))}")
    return frame.assign(**changed) if changed else frame


MANY = 10  # line breaks, which hardly a cell has that was meant so


def warn_open_quotes(frame: pd.DataFrame, source_name: str) -> None:
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
            f"{source_name}: {found} of {most + 1:,} lines{place}; a quote may not be closed, which makes one cell of "
            "all lines up to the next quote: correct the file if these lines are rows"
        )


SAMPLE = 1000  # lines in which codes are looked for


def given_roles(request: DataOptions) -> dict[str, str]:
    """Roles that the user gave, as such or by the options drop and one_hot."""
    roles = dict.fromkeys(request.drop, "drop") | dict.fromkeys(request.one_hot, "category")
    for name, role in (request.columns or {}).items():
        if name == request.label:
            raise InputError(f"column {one_line(name, 60)} is the label and has a role; give it one use")
        if roles.setdefault(name, role) != role:
            raise InputError(f"column {one_line(name, 60)} is both {roles[name]} and {role}; give it one role")
    return roles


def encode_new(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents | None:
    """A new table: roles by dtype and content, and an encoder that is fitted to the training rows."""
    features = frame.drop(columns=[] if request.label is None else [request.label])
    if features.shape[1] == 0:
        raise InputError(f"{source_name} has no feature, only the label: {name_list(list(frame.columns))}")
    y = None if request.label is None else frames.labels(frame[request.label])
    given = given_roles(request)
    roles = choose_roles(features, given, source_name)
    _check_genes(features, roles, source_name)
    if request.label is None:
        features_named = {name: role for name, role in roles.items() if name not in given and role not in LEFT_OUT}
        warn_label_among(features_named, source_name)
    numbers = (
        None if y is None else numbers_of(y, f"{source_name}: label column {request.label}", request.target_or_fitted)
    )
    if numbers is not None and request.label is not None:
        y, used = numbers, [name for name, role in roles.items() if role == "numeric"]
        warn_leaks(features[used], numbers, request.label, source_name, numbers=True)
    elif y is not None and request.label is not None:
        partial = request.few_labels or lacks_labels(y, f"{source_name}: label column {one_line(request.label, 60)}")
        known = ~missing_labels(y) if partial else np.ones(len(y), dtype=bool)
        used = [name for name, role in roles.items() if role != "drop"]
        warn_leaks(features.loc[known, used], y[known], request.label, source_name)
    kept = {name: role for name, role in roles.items() if role != "drop"}
    if is_plain(features, kept, gaps=request.impute == "median"):
        return None
    rows = _train_rows(y, request, source_name, len(frame))
    table = fit_table(features, roles, rows=rows, indicators=request.impute == "none", source_name=source_name)
    columns = [column.name for column in table.columns]
    described: dict[str, Any] = {"columns": columns, "one_hot": {}, "drop": [], "label": request.label, "encoded": True}
    return FileContents(table.encode(features, source_name), y, names=table.features, table=described)


FEWEST_CELLS, FEWEST_SAMPLES = 50, 8  # columns of counts or other values, from which on they may be cells or samples


def _check_genes(frame: pd.DataFrame, roles: Mapping[str, str], source_name: str) -> None:
    """Refuse a table of counts of cells whose rows are genes, unless the user has left its column of names out; warn
    where only the totals say so, or where values are no counts of cells."""
    names = [name for name, role in roles.items() if role == "identifier" and not frames.is_numeric(frame[name])]
    counts = [name for name, role in roles.items() if role in ("numeric", "constant")]
    if len(names) != 1 or len(counts) < FEWEST_SAMPLES or len(counts) + 1 < frame.shape[1]:
        return
    x, named = frames.values(frame[counts]), genes_in_rows(frame[names[0]].astype(str).tolist(), counts)
    of_cells = len(counts) >= FEWEST_CELLS and looks_like_counts(x)
    if not (named or (of_cells and uneven_totals(x))):
        return
    surely = named and of_cells
    said = f"{source_name}: rows {'are' if surely else 'may be'} genes and columns {'cells' if of_cells else 'samples'}"
    said += f", by their {'names' if named else 'totals'}, but samples are rows: "
    said += transposing(source_name, names[0], counts=of_cells)
    if surely:
        raise InputError(f"{said} (--drop {one_line(names[0], 60)} takes the rows as they are)")
    warn(said)


def encode_later(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """A table for a model that was fitted on one: its columns by name, and labels if there are some."""
    table, schema = request.table, request.schema or {}
    assert table is not None
    label = label_column(frame, request, [column.name for column in table.columns], source_name)
    features = frame.drop(columns=[name for name in {label, schema.get("label")} if name in frame.columns])
    x = table.encode(features, source_name)
    table.warn_unseen(features, source_name)
    y = None if label is None else frames.labels(frame[label])
    described = {key: schema.get(key) for key in ("columns", "one_hot", "drop")} | {"label": label}
    return FileContents(x, y, names=table.features, table=described)


def label_column(frame: pd.DataFrame, request: DataOptions, features: Collection[str], source_name: str) -> str | None:
    """The label of a later table: the given column, which must not be a feature, or that of the run, if it is there."""
    if request.label in features:
        name = one_line(request.label, 60)
        raise InputError(
            f"{source_name}: the run was fitted with the column {name} as a feature, so it cannot be the label: fit a "
            f"run with --label {quoted(name)}"
        )
    if request.label is not None:
        check_column("label", request.label, frame, source_name)
    label = request.or_fitted("label")
    return label if label in frame.columns else None


def check_column(option: str, name: str, frame: pd.DataFrame, source_name: str) -> None:
    """Raise InputError unless a table has a column that an option names."""
    columns = [str(column) for column in frame.columns]
    if name not in columns:
        hint = suggest(name, columns, "its columns are") if columns else "it has no columns"
        raise InputError(f"{source_name} has no column {one_line(name, 60)!r}, given as {option}; {hint}")


def text_columns(source: Any, separator: str, skipped: int, request: DataOptions) -> Iterable[str]:
    """Columns of a text file that must not be read as numbers: given or fitted as such, and codes such as 01234."""
    if request.table is not None:
        of = request.table.columns
        return [c.name for c in of if isinstance(c, Text) or (isinstance(c, Category) and c.dtype == "text")]
    found = {name for name, role in given_roles(request).items() if role in ("category", "text")}
    if request.schema is not None or request.strict:
        return found
    first = pd.read_csv(source, sep=separator, dtype=str, nrows=SAMPLE, skiprows=skipped)
    return found | {name for name in first.columns if first[name].str.fullmatch(r"0\d+").any()}


def refuse_encoding(path: Path) -> None:
    """Raise InputError if lines of a file are not UTF-8, or if there is another table after an empty line; the message
    names the first one."""
    bad: list[int] = []
    example, lines, empty, before = b"", 0, 0, b""
    with reading(str(path), "a table"), open_table(path) as file:
        for lines, line in enumerate(file, 1):
            blank = not line.strip(b" \t\r\n,;")
            if empty and not blank and _begins_table(before, line):
                raise InputError(
                    f"{path}: line {lines:,} begins another table after an empty line: expected one table, so put this "
                    "one into a file of its own"
                )
            empty, before = (lines, before) if blank and lines > 1 else (0, line)
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                example = example or line[max(0, error.start - 10) : error.start + 10]
                bad.append(lines)
    if not bad:
        return
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


def _train_rows(y: np.ndarray | None, request: DataOptions, source_name: str, n: int) -> Any:
    """Rows of the train split; all rows where there will be none (`load_dataset` then says why)."""
    seed = request.split_seed or 0
    if request.n_train is not None:
        return slice(request.n_train)
    try:
        if request.test_groups is not None:
            return split_groups(group_names(request.test_groups, len(request.test_groups), source_name), seed)[0]
        if y is None and request.split_seed is None:
            return slice(None)
        y, partial = (np.zeros(n), False) if y is None else labels_of(y, request, n, source_name)
        labeled = np.flatnonzero(~without_label(y)) if partial else np.arange(n)
        return np.setdiff1d(np.arange(n), labeled[split_indices(y[labeled], seed)[1]])
    except InputError:
        return slice(None)


# Number of first rows of a table on disk from which the roles of its columns are inferred.
HEAD_ROWS = 1000
RENAME = "rename them (is there a header line?)"


@reader(
    "csv",
    *(".csv", ".csv.gz"),
    help="a table with a header line, separated by commas, semicolons or tabs",
    noun="a .csv table",
    table=True,
    once=True,
    example="patients.csv --label diagnosis",
)
def read_csv(path: Path, request: DataOptions) -> FileContents:
    """Table with a header line, separated by commas; if the header has none, by semicolons or tabs."""
    return _text_rows(path, request, ",")


@reader(
    "tsv",
    *(".tsv", ".tsv.gz"),
    help="a table with a header line, separated by tabs",
    noun="a .tsv table",
    table=True,
    once=True,
    example="genes.tsv --drop id",
)
def read_tsv(path: Path, request: DataOptions) -> FileContents:
    """Table with a header line, separated by tabs."""
    return _text_rows(path, request, "\t")


@reader(
    "parquet",
    ".parquet",
    help="a table, which may be larger than the memory",
    noun="a parquet file",
    table=True,
    once=True,
    extra="parquet",
    example="events.parquet --label kind",
)
def read_parquet(path: Path, request: DataOptions) -> FileContents:
    """Parquet file; an index that pandas stored in it is not a column."""
    require("pyarrow", "parquet", "reading parquet files")
    from pyarrow import parquet

    with reading(str(path), "a parquet file"), path.open("rb") as file:
        opened = parquet.ParquetFile(file)
        shape = (opened.metadata.num_rows, opened.metadata.num_columns)
        # The encoder of a mixed table needs its columns as a whole.
        stays = request.streams(shape) and 0 not in shape and request.table is None
        frame = (next(opened.iter_batches(HEAD_ROWS)) if stays else opened.read()).to_pandas()
    columns = [str(column) for column in frame.columns]
    check_unique(columns, f"{path} has columns with equal names", RENAME)
    frame = frame.set_axis(columns, axis=1)
    return _rows_on_disk(frame, path, request) if stays else table_rows(frame, request, str(path))


def _rows_on_disk(head: pd.DataFrame, path: Path, request: DataOptions) -> FileContents:
    """As for a table in memory, whose first rows are `head`; labels and categories are read of all rows."""
    source_name = str(path)
    # Columns must be numbers or `one_hot`. Values that are missing are counted in all rows, later.
    table = table_rows(head, dataclasses.replace(request, impute="median", strict=True), source_name).table
    if request.schema is None:
        for column in table["one_hot"]:
            whole = read_columns(path, [column])
            if request.impute == "none":
                _check_missing(whole, [column], source_name)
            table["one_hot"][column] = frames.categories(whole[column], source_name)
    label = table["label"]
    y = None if label is None else frames.labels(read_columns(path, [label])[label])
    names = _encode(head, table, "median", source_name)[1]
    columns = [*table["columns"], *table["one_hot"]]
    x = ParquetRows(path, columns, lambda frame: _encode(frame, table, "median", source_name)[0], len(names))
    return FileContents(x, y, names=names, table=table)


def first_rows(path: Path) -> pd.DataFrame:
    """The first rows of a table with all columns, as text where they are not numbers."""
    with reading(str(path), "a table"):
        if path.suffix.lower() == ".parquet":
            return open_parquet(path).read().to_pandas().head(HEAD_ROWS)
        given = given_separator(path)
        separator = given or ("\t" if ".tsv" in path.name.lower() else None)
        return pd.read_csv(path, sep=separator, nrows=HEAD_ROWS, skiprows=int(given is not None), engine="python")


def _text_rows(path: Path, request: DataOptions, separator: str) -> FileContents:
    decoded = text_of(path, request)
    frame = _text_table(path, request, separator, None if decoded is None else decoded[0])
    found = table_rows(frame, request, str(path))
    return found if decoded is None else dataclasses.replace(found, options=found.options | {"encoding": decoded[1]})


def _text_table(path: Path, request: DataOptions, separator: str, text: str | None) -> pd.DataFrame:
    """The columns of a file, or of its text where it is not UTF-8."""
    kind = f"a {path.suffix.lower()} table in UTF-8"
    as_text = [*request.one_hot, *(request.schema or {}).get("one_hot", {})]
    if text is None:
        refuse_encoding(path)

    def source() -> Any:
        return path if text is None else io.StringIO(text)

    with reading(str(path), kind):
        try:
            # pandas renames columns with equal names, so the header is read separately first.
            given = given_separator(path) if text is None else _separator_of(text[:64].partition("\n")[0].encode())
            skipped = 0 if given is None else 1  # lines before the header
            options: dict[str, Any] = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
            options |= {"skiprows": skipped}
            header = pd.read_csv(source(), sep=given or separator, **options)
            found = given or find_separator(header.iloc[0].tolist(), separator)
            if found != separator:
                warn(f"{path}: columns are separated by {found!r}")
                separator = found
                header = pd.read_csv(source(), sep=separator, **options)
        except pd.errors.EmptyDataError as error:
            raise InputError(f"{path} is empty; expected a header line and rows") from error
        _check_header(header.iloc[0].tolist(), separator, str(path))
        # Categories are read as text; otherwise 01 would become 1 if all categories look like numbers.
        as_text += [name for name in text_columns(source(), separator, skipped, request) if name not in as_text]
        options = {"dtype": dict.fromkeys(as_text, str), "low_memory": False, "skiprows": skipped, "na_values": _BLANK}
        frame = pd.read_csv(source(), sep=separator, **options)
    if not isinstance(frame.index, pd.RangeIndex):
        # pandas uses additional leading fields as row names, which would silently drop a column.
        raise InputError(
            f"{path}: rows have more fields than the header line has names ({one_line(header.iloc[0, 0], 40)}, ...): "
            "name every column, and delete lines above the header"
        )
    warn_open_quotes(frame, str(path))
    if len(frame):
        _refuse_repeated_header(frame, str(path))
    return read_commas(frame, separator, {*as_text, str(request.label), str(request.groups)}, str(path))


def _check_header(names: list[str], separator: str, source_name: str) -> None:
    check_unique([name for name in names if name], f"{source_name} has columns with equal names", RENAME)
    other = next((mark for mark in ",;|\t" if mark != separator and mark in names[0]), None)
    if len(names) == 1 and other:
        raise InputError(
            f"{source_name} has the separator {other!r}, expected {separator!r}; .csv has commas, .tsv has tabs"
        )
    if names != [str(i) for i in range(len(names))] and not np.isnan(pd.to_numeric(names, errors="coerce")).any():
        warn(
            f"{source_name}: the first line has only numbers ({name_list(names, 3)}) and is used as the names of the "
            "columns; add a header line if it is data"
        )


def table_rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """What is read of a table, by the options."""
    if request.modality == "series":
        from viewsmith.data.readers.signals import recordings_of_table

        return recordings_of_table(frame, request, source_name)
    if len(frame) == 0:
        raise InputError(f"{source_name} has no rows, only a header line with {pluralize(frame.shape[1], 'column')}")
    groups = group_column(frame, request, source_name)
    if groups is not None:
        frame = frame.drop(columns=[request.or_fitted("groups")])
        request = dataclasses.replace(request, test_groups=groups if request.split_by_groups else None)
    return dataclasses.replace(_read_rows(frame, request, source_name), groups=groups)


def _read_rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    if (alphabet := alphabet_given(request)) is not None:
        _check_options(frame, request, source_name)
        label = request.label if request.schema is None else label_column(frame, request, (), source_name)
        return read_sequences(frame, request, alphabet, label, source_name)
    if request.table is not None:
        return encode_later(frame, request, source_name)
    if request.schema is not None and request.schema["columns"] is not None:
        if request.schema.get("encoded"):
            raise InputError(
                f"{source_name}: the schema is of a table with an encoder: give it, too, load_dataset(..., "
                "table=data.x.table)"
            )
        return _rows_by_schema(frame, request, source_name)
    dropped = [name for name, role in given_roles(request).items() if role == "drop"]
    request = dataclasses.replace(request, drop=tuple(dict.fromkeys([*request.drop, *dropped])))
    _check_options(frame, request, source_name)
    encoded = None if request.strict else encode_new(frame, request, source_name)
    return encoded or _new_rows(frame, request, source_name)


def group_column(frame: pd.DataFrame, request: DataOptions, source_name: str) -> np.ndarray | None:
    """The column of groups, (n,), of a table or of ``obs``; None without one, for a fitted run also if it is absent."""
    name = request.or_fitted("groups")
    if request.groups is not None:
        check_column("groups", request.groups, frame, source_name)
    if name is not None and name in (request.label, *request.drop, *request.one_hot):
        raise InputError(f"column {one_line(name, 60)} is both groups and another option; give it one use")
    return frame[name].astype(object).to_numpy() if name in frame.columns else None


def _new_rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """Select the columns for a new run: all columns, which must be numbers, except those dropped or to be encoded."""
    columns = list(frame.columns)
    taken = {request.label, request.groups, *request.drop, *request.one_hot}
    rest = [column for column in columns if column not in taken]
    encoded = [column for column in columns if column in request.one_hot]
    if not rest and not encoded:
        raise InputError(f"{source_name} has no feature, only the label and dropped columns: {name_list(columns)}")
    one_hot = {column: frames.categories(frame[column], source_name) for column in encoded}
    table = {"columns": rest, "one_hot": one_hot, "drop": list(request.drop), "label": request.label}
    return _plain_rows(frame, table, request, source_name)


def _rows_by_schema(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """Select the columns that a run was fitted on, in its order."""
    schema = request.schema or {}
    features = [*schema["columns"], *schema["one_hot"]]
    label = label_column(frame, request, features, source_name)
    known = {*features, *schema["drop"], schema["label"], label, request.or_fitted("groups")}
    match_columns(list(frame.columns), features, known, source_name, model="run")
    table = {key: schema[key] for key in ("columns", "one_hot", "drop")} | {"label": label}
    return _plain_rows(frame, table, request, source_name)


def _plain_rows(frame: pd.DataFrame, table: dict[str, Any], request: DataOptions, source_name: str) -> FileContents:
    """Rows of checked columns, and labels."""
    frames.check_no_text(frame, table["columns"], source_name)
    if request.impute == "none":
        _check_missing(frame, [*table["columns"], *table["one_hot"]], source_name)
    x, names = _encode(frame, table, request.impute, source_name)
    y = None if table["label"] is None else frames.labels(frame[table["label"]])
    return FileContents(x, y, names=names, table=table)


def _encode(
    frame: pd.DataFrame, table: dict[str, Any], impute: Impute, source_name: str
) -> tuple[np.ndarray, list[str]]:
    """Numeric columns, followed by the indicator columns of each encoded column; and the names of the features."""
    columns, names = table["columns"], list(table["columns"])
    blocks = [as_vectors(frames.values(frame[columns]), columns, impute, source_name)] if columns else []
    for column, categories in table["one_hot"].items():
        block, unseen = frames.one_hot(frame[column], categories)
        blocks.append(block)
        names += [f"{column}={category}" for category in categories]
        if unseen:
            warn(
                f"{source_name}: column {one_line(column, 60)} has {pluralize(len(unseen), 'category', 'categories')} "
                f"that the run has not seen, encoded as zeros: {name_list(unseen)}"
            )
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1), names


def _check_options(frame: pd.DataFrame, request: DataOptions, source_name: str) -> None:
    """Raise InputError for options that name a column that is not there, or that another option names, too."""
    label = () if request.label is None else (request.label,)
    seen: dict[str, str] = {}
    for option, names in (("label", label), ("drop", request.drop), ("one_hot", request.one_hot)):
        for name in names:
            check_column(option, name, frame, source_name)
            if seen.setdefault(name, option) != option:
                raise InputError(f"column {one_line(name, 60)} is both {seen[name]} and {option}; give it one use")


def _check_missing(frame: pd.DataFrame, columns: list[str], source_name: str) -> None:
    check_missing(frame[columns].isna().to_numpy().sum(axis=0), columns, source_name)
