"""Readers of tables by libraries: Excel, feather, lines of JSON, SQLite, ARFF, and data sets of Hugging Face."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, require, suggest
from viewsmith.core.rows import check_size
from viewsmith.data.options import DataOptions
from viewsmith.data.places import file_of
from viewsmith.data.readers.tables import HEAD_ROWS, RENAME, lines_above, say_above, table_rows, with_none
from viewsmith.data.reading import FileContents, reader, reading


def _rows(frame: pd.DataFrame, path: Path, request: DataOptions) -> FileContents:
    columns = [str(column) for column in frame.columns]
    check_unique(columns, f"{path} has columns with equal names", RENAME)
    return table_rows(frame.set_axis(columns, axis=1), request, str(path))


def _check_file_size(file: Path) -> None:
    check_size(file.stat().st_size, str(file), "save it as .parquet, of which a part at a time is read")


def _one(found: list[str], given: str, path: Path, noun: str) -> str:
    """The table that a path FILE::TABLE names, or the only one."""
    if given and given not in found:
        raise InputError(f"{path} has no {noun} {one_line(given, 60)!r}; {suggest(given, found, f'its {noun}s are')}")
    if not given and len(found) != 1:
        there = f"the {noun}s {name_list(found)}, expected one: give {path}::{found[0]}" if found else f"no {noun}"
        raise InputError(f"{path} has {there}")
    return given or found[0]


@reader(
    "excel",
    ".xlsx",
    help="a sheet of a workbook, with a header line; of several FILE::SHEET",
    noun="an .xlsx table",
    table=True,
    extra="excel",
    example="patients.xlsx::visits --label diagnosis",
)
def read_excel(path: Path, request: DataOptions) -> FileContents:
    """The sheet of a workbook with cells, or the one that is named; formulas have the values that Excel stored."""
    require("openpyxl", "excel", "reading .xlsx files")
    file, given = file_of(path)
    _check_file_size(file)
    with reading(str(file), "an .xlsx workbook"), pd.ExcelFile(file, engine="openpyxl") as book:
        filled = [sheet.title for sheet in book.book.worksheets if sheet.max_row > 1]
        sheet = _one([str(name) for name in filled], given, file, "sheet")
        top = book.parse(sheet, header=None, nrows=HEAD_ROWS)
        above = lines_above(top.notna().sum(axis=1).tolist())
        header = [str(name) for name in top.iloc[above].dropna()]
        frame = book.parse(sheet, header=above)
        label = request.or_fitted("label")
        if label in frame.columns and frame[label].isna().any():
            written = book.parse(sheet, header=above, usecols=[label], dtype=str, keep_default_na=False)[label]
            frame = with_none(frame, label, written, str(path))
    if above and request.schema is None:
        say_above(above, top.iloc[0].dropna().iloc[0] if top.iloc[0].notna().any() else "", str(path))
    check_unique(header, f"{path} has columns with equal names", RENAME)
    empty = frame.isna().all(axis=1).to_numpy()
    if empty.any() and not empty[empty.argmax() :].all():
        raise InputError(
            f"{path}: line {int(empty.argmax()) + above + 2:,} of the sheet is empty and others follow, which may be "
            "another table: put it into a sheet of its own, or delete the line"
        )
    return _rows(frame[~empty], path, request)


@reader(
    "feather",
    *(".feather", ".arrow"),
    help="a table of pyarrow or R (arrow)",
    noun="a feather file",
    table=True,
    extra="parquet",
    example="events.feather --label kind",
)
def read_feather(path: Path, request: DataOptions) -> FileContents:
    """A feather file, version 1 or 2, or a file of Arrow's IPC format."""
    require("pyarrow", "parquet", "reading feather files")
    from pyarrow import feather

    _check_file_size(path)
    with reading(str(path), "a feather file"):
        frame = feather.read_table(path, memory_map=False).to_pandas()
    return _rows(frame, path, request)


@reader(
    "jsonl",
    *(".jsonl", ".ndjson"),
    help="a table with an object of JSON in each line",
    noun="a table in lines of JSON",
    table=True,
    example="events.jsonl --label kind",
)
def read_json_lines(path: Path, request: DataOptions) -> FileContents:
    """A JSON object in each line, whose keys are columns; nested values are refused."""
    _check_file_size(path)
    with reading(str(path), "a table with an object of JSON in each line"):
        frame = pd.read_json(path, lines=True, convert_dates=False, dtype=False)
    nested = [
        str(name) for name in frame.columns if frame[name].map(lambda value: isinstance(value, list | dict)).any()
    ]
    nested = [name for name in nested if name not in request.drop]
    if nested:
        raise InputError(
            f"{path}: {name_list(nested)} have lists or objects, expected numbers and texts: leave them out (--drop "
            f"{one_line(nested[0], 40)}), or make columns of them (pandas.json_normalize)"
        )
    return _rows(frame, path, request)


@reader(
    "sqlite",
    *(".db", ".sqlite", ".sqlite3"),
    help="a table or view of an SQLite file; of several FILE::TABLE",
    noun="an SQLite file",
    table=True,
    example="clinic.db::visits --label diagnosis",
)
def read_sqlite(path: Path, request: DataOptions) -> FileContents:
    """The only table of an SQLite file, or the table or view that is named; the file is opened for reading."""
    file, given = file_of(path)
    with (
        reading(str(file), "an SQLite file"),
        closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db,
    ):
        query = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        table = _one([name for (name,) in db.execute(query)], given, file, "table")
        quoted = '"' + table.replace('"', '""') + '"'
        count, width = (
            db.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0],
            len(db.execute(f"SELECT * FROM {quoted} LIMIT 0").description),
        )
        check_size(8 * count * width, f"{path}, {count:,} x {width} values,", "select fewer rows or columns by a view")
        frame = pd.read_sql_query(f"SELECT * FROM {quoted}", db)
    return _rows(frame, path, request)


@reader(
    "arff",
    ".arff",
    help="tables of Weka and of the UCR archive; with --modality series a row is a recording",
    noun="an .arff table",
    table=True,
    example="OSULeaf.arff --modality series --label target",
)
def read_arff(path: Path, request: DataOptions) -> FileContents:
    """The attributes of an ARFF file as columns."""
    from scipy.io import arff

    with reading(str(path), "an ARFF file"):
        rows, attributes = arff.loadarff(path)
    if "relational" in attributes.types():
        raise InputError(
            f"{path} has recordings of several channels (a relational attribute), which are not read: give the .ts "
            "file of these data"
        )
    frame = pd.DataFrame(rows)
    text = frame.select_dtypes(object).columns
    decoded = {
        name: frame[name].map(lambda value: value.decode() if isinstance(value, bytes) else value) for name in text
    }
    return table_rows(frame.assign(**decoded), request, str(path))
