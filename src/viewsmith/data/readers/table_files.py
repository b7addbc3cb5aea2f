"""Readers of tables by libraries: Excel, feather, lines of JSON, SQLite, ARFF, and data sets of Hugging Face."""

import dataclasses
import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, require, suggest, warn
from viewsmith.core.files import read_json
from viewsmith.core.rows import check_size
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.places import file_of
from viewsmith.data.readers.tables import RENAME, check_column, table_rows
from viewsmith.data.reading import FileContents, reading
from viewsmith.modalities import frames


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
        header = [str(name) for name in book.parse(sheet, header=None, nrows=1).iloc[0].dropna()]
        frame = book.parse(sheet)
    check_unique(header, f"{path} has columns with equal names", RENAME)
    empty = frame.isna().all(axis=1).to_numpy()
    if empty.any() and not empty[empty.argmax() :].all():
        raise InputError(
            f"{path}: line {int(empty.argmax()) + 2:,} of the sheet is empty and others follow, which may be another "
            "table: put it into a sheet of its own, or delete the line"
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


_LISTS = ("Sequence", "List", "LargeList", "Array2D", "Array3D")


@reader(
    "datasets",
    in_folders=(".arrow",),
    help="a data set of Hugging Face, written by `save_to_disk`: a table, images or lists of numbers",
    noun="a data set on disk",
    extra="parquet",
    example="saved/ --label label",
)
def read_saved_dataset(path: Path, request: DataOptions) -> FileContents:
    """Rows of the splits train and test, or of a data set without splits; classes by their names."""
    require("pyarrow", "parquet", "reading data sets on disk")
    folders = [path]
    if (path / "dataset_dict.json").is_file():
        with reading(str(path), "a data set on disk"):
            splits = [str(name) for name in read_json(path / "dataset_dict.json")["splits"]]
        used = [name for name in ("train", "test") if name in splits] if len(splits) > 1 else splits
        if "train" not in used and len(splits) > 1:
            raise InputError(f"{path} has the splits {name_list(splits)}, expected train: give {path / splits[0]}")
        if others := [name for name in splits if name not in used]:
            warn(f"{path}: the splits {name_list(others)} are left out")
        folders = [path / name for name in used]
    with reading(str(path), "a data set on disk"):
        tables = [_table(folder) for folder in folders]
        features = read_json(folders[0] / "dataset_info.json")["features"]
    kinds = {name: "List" if isinstance(kind, list) else str(kind.get("_type", "")) for name, kind in features.items()}
    frame = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    for name, kind in features.items():
        if kinds[name] == "ClassLabel":
            names = np.array([*kind["names"], ""])  # -1: no label
            frame[name] = names[frame[name].fillna(-1).to_numpy(int)]
    n_train = len(tables[0]) if len(tables) > 1 else None
    if sounds := [name for name, kind in kinds.items() if kind == "Audio" and name not in request.drop]:
        raise InputError(
            f"{path}: column {sounds[0]} has sound, which is read from files alone: write these (soundfile.write) and "
            f"give their folder, or leave it out (--drop {sounds[0]})"
        )
    samples = [name for name, kind in kinds.items() if kind in ("Image", *_LISTS) and name not in request.drop]
    if not samples:
        found = table_rows(frame, dataclasses.replace(request, n_train=n_train), str(path))
        return dataclasses.replace(found, n_train=n_train)
    if len(samples) > 1:
        raise InputError(
            f"{path} has images or lists in {name_list(samples)}, expected one such column: leave the others out "
            f"(--drop {','.join(samples[1:])})"
        )
    label = request.or_fitted("label")
    if request.label is not None:
        check_column("label", request.label, frame, str(path))
    of_images = kinds[samples[0]] == "Image"
    x = _stacked([_pixels(cell) if of_images else np.asarray(cell.tolist()) for cell in frame[samples[0]]], path)
    y = frames.labels(frame[label]) if label in frame.columns else None
    table: dict[str, Any] = {"columns": None, "one_hot": {}, "drop": list(request.drop), "label": label}
    return FileContents(x, y, n_train, table=table, modality="images" if of_images else None)


def _table(folder: Path) -> Any:
    """The rows of one split, whose files are listed in order."""
    import pyarrow as pa

    files = [folder / str(each["filename"]) for each in read_json(folder / "state.json")["_data_files"]]
    check_size(sum(file.stat().st_size for file in files), str(folder), "save fewer rows, or .parquet files")
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as mapped:
            tables.append(pa.ipc.open_stream(mapped).read_all())
    return pa.concat_tables(tables)


def _pixels(cell: Any) -> np.ndarray:
    """The pixels of an image, of which the file is in the data set."""
    require("pillow", "image", "reading images")
    from PIL import Image

    if not cell or cell.get("bytes") is None:
        raise InputError("the data set has paths of images rather than images: save it again with the images embedded")
    with Image.open(io.BytesIO(cell["bytes"])) as image:
        return np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))


def _stacked(samples: list[np.ndarray], path: Path) -> np.ndarray:
    for row, sample in enumerate(samples):
        if sample.shape != samples[0].shape or sample.dtype.kind not in "biuf":
            raise InputError(
                f"{path}: row {row} (counted from 0) has shape {sample.shape}, and row 0 {samples[0].shape}, expected "
                "numbers of one shape: resize or cut them with Dataset.map"
            )
    return np.stack(samples)
