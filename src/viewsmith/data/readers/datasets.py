"""Readers of tables by libraries: Excel, feather, lines of JSON, SQLite, ARFF; and of data sets of Hugging Face: those
that `save_to_disk` writes, and files of the hub in parquet."""

import dataclasses
import io
import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, quoted, require, say, suggest, warn
from viewsmith.core.files import read_json
from viewsmith.core.rows import check_size
from viewsmith.data.layouts import READ
from viewsmith.data.options import DataOptions
from viewsmith.data.places import VALIDATION, file_of, first_bytes
from viewsmith.data.readers.tables import HEAD_ROWS, RENAME, check_column, lines_above, table_rows, titles, with_none
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.data.recordings import OPTIONS, Recording, samples_of
from viewsmith.data.unread import named, sentence
from viewsmith.modalities import frames
from viewsmith.modalities.images.channels import common_side, image_squares, pil_pixels


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
        for sheet in book.book.worksheets:
            if sheet.max_row is None:  # of programs that do not write the size of a sheet
                sheet.calculate_dimension(force=True)
        filled = [sheet for sheet in book.book.worksheets if sheet.max_row > 1]
        filled.sort(key=lambda sheet: -sheet.max_row * sheet.max_column)  # a line names the largest
        sheet = _one([str(each.title) for each in filled], given, file, "sheet")
        top = book.parse(sheet, header=None, nrows=HEAD_ROWS, dtype=object)
        above = lines_above(top.notna().sum(axis=1).tolist())
        header = [str(name) for name in top.iloc[above].dropna()]
        joined = _names_of_two_lines(top.iloc[above:])
        below = above if joined is None else above + 1
        hashes = [name for place, name in enumerate(top.iloc[below]) if top[place].map(frames.is_huge).any()]
        frame = book.parse(sheet, header=below, dtype=dict.fromkeys(hashes, object))
        if joined is not None:
            header = joined
            frame.columns = pd.Index(joined)
        label = request.or_fitted("label")
        if label in header and frame[label].isna().any():
            place = [list(frame.columns).index(label)]
            written = book.parse(sheet, header=below, usecols=place, dtype=str, keep_default_na=False).iloc[:, 0]
            frame = with_none(frame, label, written, str(path))
    if joined is None and not given:
        frame.attrs[READ] = f"pd.read_excel({{path}}, sheet_name={sheet!r}, header={below})"
    if above and request.schema is None:
        say(f"{path}: {titles(above, top.iloc[0].dropna().iloc[0] if top.iloc[0].notna().any() else '')}")
    if joined is not None and request.schema is None:
        say(f"{path}: the names of the columns are in two lines, and are joined: {name_list(joined, 6)}")
    check_unique(header, f"{path} has columns with equal names", RENAME)
    empty = frame.isna().all(axis=1).to_numpy()
    if empty.any() and not empty[empty.argmax() :].all():
        raise InputError(
            f"{path}: line {int(empty.argmax()) + below + 2:,} of the sheet is empty and others follow, which may be "
            "another table: put it into a sheet of its own, or delete the line"
        )
    return _rows(frame[~empty], path, request)


def _names_of_two_lines(top: pd.DataFrame) -> list[str] | None:
    """Names of columns, of those of groups of columns and the line below them, such as size area; None of one line:
    the first has gaps or repeats, and there are only texts in the second, above numbers."""
    if len(top) < 4:
        return None
    first, second, values = top.iloc[0], top.iloc[1], top.iloc[2:].dropna(axis=1, how="all")
    whole = bool(first[values.columns].notna().all()) and first[values.columns].is_unique
    texts = second.dropna().map(lambda cell: isinstance(cell, str)).all()
    numbers = values.apply(frames.to_numbers).notna().all()
    if whole or not texts or not numbers.any() or second[values.columns][numbers].isna().any():
        return None
    lines = zip(first.ffill().fillna("").map(str), first.fillna("").map(str), second.fillna("").map(str), strict=True)
    names = [f"{group} {below}".strip() if below else own for group, own, below in lines]
    known = [name for name, column in zip(names, top.columns, strict=True) if column in values]
    return names if all(known) and len(set(known)) == len(known) else None


@reader(
    "feather",
    *(".feather", ".arrow", ".orc"),
    help="a table of pyarrow or R (arrow); ORC",
    noun="a feather or ORC file",
    table=True,
    extra="parquet",
    example="events.feather --label kind",
)
def read_feather(path: Path, request: DataOptions) -> FileContents:
    """A feather file, version 1 or 2, a file of Arrow's IPC format, or one of ORC."""
    require("pyarrow", "parquet", "reading feather and ORC files")
    from pyarrow import feather

    _check_file_size(path)
    with reading(str(path), "a feather or ORC file"):
        if path.suffix.lower() == ".orc":
            frame = pd.read_orc(path)
        else:
            frame = feather.read_table(path, memory_map=False).to_pandas()
    return _rows(frame, path, request)


@reader(
    "stata",
    ".dta",
    help="a table of Stata; values that all have labels are categories",
    noun="a table of Stata",
    table=True,
    example="survey.dta --label smoker",
)
def read_stata(path: Path, request: DataOptions) -> FileContents:
    """A table of Stata, in which numbers of which only some have labels, such as -9: refused, stay numbers."""
    _check_file_size(path)
    with reading(str(path), "a table of Stata"):
        frame = pd.read_stata(path, convert_categoricals=False)
        named, twice = _with_labels(path, frame.columns.tolist())
    if twice:
        warn(f"{path}: several values have the same label, and all are read as numbers: {name_list(twice)}")
    coded = [name for name in named if not all(isinstance(value, str) for value in named[name].cat.categories)]
    if coded:
        warn(f"{path}: only some values have labels, and all are read as numbers: {name_list(coded)}")
    return _rows(frames.with_columns(frame, dict(named.drop(columns=coded).astype(object).items())), path, request)


def _with_labels(path: Path, columns: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Columns of a table of Stata with the labels of their values, and those that have one label for several."""
    twice: list[str] = []
    while True:
        try:
            labeled = pd.read_stata(path, columns=[name for name in columns if name not in twice])
        except ValueError as error:  # which names the first of them
            found = [name for name in columns if f"labels for column {name} are not unique" in str(error)]
            if not found:
                raise
            twice += found
        else:
            return labeled.select_dtypes("category"), twice


@reader(
    "sas",
    *(".sas7bdat", ".xpt"),
    help="a table of SAS",
    noun="a table of SAS",
    table=True,
    example="survey.sas7bdat --label smoker",
)
def read_sas(path: Path, request: DataOptions) -> FileContents:
    """A table of SAS, or one in its format for transport."""
    _check_file_size(path)
    with reading(str(path), "a table of SAS"):
        if first_bytes(path, 25) == b"HEADER RECORD*******LIBV8":
            raise InputError(sentence(path, named("xport8")))
        frame = pd.read_sas(path, encoding="latin-1" if path.suffix.lower() == ".xpt" else "infer")
    numbers = frame.select_dtypes("number")
    zeros = dict(numbers.mask(numbers.abs() < ZERO, 0.0).items())
    return _rows(frames.with_columns(frame, zeros), path, request)


ZERO = 1e-70  # pandas reads a zero of the format for transport as 5.4e-79


@reader(
    "jsonl",
    *(".jsonl", ".ndjson", ".json"),
    help="a table with an object of JSON in each line, or a list of them; objects within have columns of their own",
    noun="a table in JSON",
    table=True,
    example="events.jsonl --label kind",
)
def read_json_lines(path: Path, request: DataOptions) -> FileContents:
    """A JSON object for each row, whose keys are columns, also those of objects within it; lists are refused."""
    _check_file_size(path)
    with reading(str(path), "a table with objects of JSON"):
        found = _whole(path) if path.suffix.lower() == ".json" else None
        if found is not None:
            frame = pd.DataFrame(_records(found, path))
        else:
            frame = frames.of_json(path, True)
    frame, left = _unfolded(frame, path), {*request.drop}
    listed = [
        str(name) for name in frame.columns if frame[name].map(lambda value: isinstance(value, list | dict)).any()
    ]
    if listed := [name for name in listed if name not in left]:
        raise InputError(
            f"{path}: {name_list(listed)} have lists or objects, expected numbers and texts: leave them out "
            f"({' '.join(f'--drop {quoted(one_line(name, 40))}' for name in listed[:5])})"
        )
    return _rows(frame, path, request)


def _whole(path: Path) -> Any:
    """What a JSON file has; None for lines of objects."""
    text = path.read_text("utf-8-sig")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        return None


def _records(found: Any, path: Path) -> list[dict[str, Any]]:
    """The list of objects of a JSON file, or the only one within its object."""
    lists = {"": found} if isinstance(found, list) else found if isinstance(found, dict) else {}
    lists = {
        name: rows
        for name, rows in lists.items()
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    }
    if len(lists) != 1:
        has = f"lists of objects in {name_list([*lists])}" if lists else "no list of objects"
        raise InputError(
            f"{path} has {has}, expected one, a row each (orient='records' in pandas); beside annotations "
            "give the file or folder of the samples"
        )
    ((name, rows),) = lists.items()
    if name:
        say(f"{path}: the rows are those of {one_line(name, 40)}")
    return rows


def _unfolded(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """A table with columns of their own for the values of objects, such as user.age."""
    for _ in range(DEEPEST):
        nested = [name for name in frame.columns if frame[name].map(lambda value: isinstance(value, dict)).any()]
        for name in nested:
            rows = [value if isinstance(value, dict) else {} for value in frame[name]]
            inner = pd.DataFrame(rows, index=frame.index).add_prefix(f"{name}.")
            place = list(frame.columns).index(name)
            frame = pd.concat([frame.iloc[:, :place], inner, frame.iloc[:, place + 1 :]], axis=1)
        check_unique([*map(str, frame.columns)], f"{path} has columns with equal names", "rename them")
    return frame


DEEPEST = 5  # objects within objects


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
        count = db.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
        width = len(db.execute(f"SELECT * FROM {quoted} LIMIT 0").description)
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
    return table_rows(frames.with_columns(frame, decoded), request, str(path))


_LISTS = ("Sequence", "List", "LargeList", "Array2D", "Array3D")
_SPLIT = re.compile(rf"(?:^|[/_.-])(train|test|{'|'.join(VALIDATION)})(?=[/_.-])")


def _of_hub(path: Path) -> bool:
    """Whether a file is one of parquet whose columns are not only numbers and texts."""
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        from pyarrow import parquet

        return bool(_samples_among(_features(parquet.read_schema(path)), ()))
    except (ImportError, OSError, ValueError):
        return False


def _features(schema: Any) -> dict[str, Any]:
    """What the columns of a file of parquet are, as `datasets` has written it, or by their types: the file of an image
    or a sound."""
    import pyarrow as pa

    about = (schema.metadata or {}).get(b"huggingface")
    known: dict[str, Any] = {} if about is None else json.loads(about).get("info", {}).get("features") or {}
    for field in schema:
        of_file = pa.types.is_struct(field.type) and {"bytes", "path"} <= {each.name for each in field.type}
        if of_file and field.name not in known:
            known[field.name] = {"_type": "Audio" if field.name in ("audio", "sound", "speech") else "Image"}
    return known


def _samples_among(features: Mapping[str, Any], drop: Sequence[str]) -> dict[str, str]:
    """Columns that have samples of their own, and what these are."""
    kinds = {name: "List" if isinstance(kind, list) else str(kind.get("_type", "")) for name, kind in features.items()}
    return {name: kind for name, kind in kinds.items() if kind in ("Image", "Audio", *_LISTS) and name not in drop}


@reader(
    "datasets",
    in_folders=(".arrow", ".parquet"),
    help="a data set of Hugging Face, of `save_to_disk` or of the hub in parquet: a table, images, sound or lists",
    noun="a data set on disk",
    options=(*OPTIONS[:-1], "image_size"),
    extra="parquet",
    recognizes=_of_hub,
    example="saved/ --label label",
)
def read_dataset(path: Path, request: DataOptions) -> FileContents:
    """Rows of the splits train and test (or validation), or of a data set without splits; classes by their names."""
    require("pyarrow", "parquet", "reading data sets on disk")
    with reading(str(path), "a data set on disk"):
        of_parquet = path.is_file() or not any(path.rglob("*.arrow"))
        tables, features = _parquet(path) if of_parquet else _saved(path)
    frame = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    for name, kind in features.items():
        if isinstance(kind, dict) and kind.get("_type") == "ClassLabel":
            names = np.array([*kind["names"], ""])  # -1: no label
            frame[name] = names[frame[name].fillna(-1).to_numpy(int)]
    n_train = len(tables[0]) if len(tables) > 1 else None
    samples = _samples_among(features, request.drop)
    if not samples:
        found = table_rows(frame, dataclasses.replace(request, n_train=n_train), str(path))
        return dataclasses.replace(found, n_train=n_train)
    if len(samples) > 1:
        raise InputError(
            f"{path} has images, sound or lists in {name_list(list(samples))}, expected one such column: leave the "
            f"others out (--drop {','.join(list(samples)[1:])})"
        )
    label = request.or_fitted("label")
    if request.label is not None:
        check_column("label", request.label, frame, str(path))
    y = frames.labels(frame[label]) if label in frame.columns else None
    table: dict[str, Any] = {"columns": None, "one_hot": {}, "drop": list(request.drop), "label": label}
    ((column, kind),) = samples.items()
    if kind == "Audio":
        sounds = [_sound(cell, f"{path}: row {row}", row, y) for row, cell in enumerate(frame[column])]
        request = dataclasses.replace(request, label=None)
        found = samples_of(sounds, request, str(path), sound=True, n_train=n_train)
        return dataclasses.replace(found, table=table)
    if kind == "Image":
        x, side = _one_size([_pixels(cell) for cell in frame[column]], request, str(path))
        options = {} if side is None else {"image_size": side}
        return FileContents(x, y, n_train, table=table, modality="images", options=options)
    return FileContents(_stacked([np.asarray(cell.tolist()) for cell in frame[column]], path), y, n_train, table=table)


def _saved(path: Path) -> tuple[list[Any], dict[str, Any]]:
    """Tables of the splits that `save_to_disk` has written, and what their columns are."""
    import pyarrow as pa

    folders = [path]
    if (path / "dataset_dict.json").is_file():
        splits = [str(name) for name in read_json(path / "dataset_dict.json")["splits"]]
        folders = [path / name for name in _used(splits, path, path / splits[0])]
    tables = []
    for folder in folders:
        files = [folder / str(each["filename"]) for each in read_json(folder / "state.json")["_data_files"]]
        _check_sizes(files, folder)
        parts = []
        for file in files:
            with pa.memory_map(str(file)) as mapped:
                parts.append(pa.ipc.open_stream(mapped).read_all())
        tables.append(pa.concat_tables(parts))
    return tables, read_json(folders[0] / "dataset_info.json")["features"]


def _parquet(path: Path) -> tuple[list[Any], dict[str, Any]]:
    """Tables of the splits in files of parquet, by the names of files or folders, and what their columns are."""
    from pyarrow import dataset, parquet

    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if any((folder / "_delta_log").is_dir() for folder in {path, *(file.parent for file in files)}):
        raise InputError(sentence(path, named("delta")))  # its folder has the files of earlier versions, too
    of: dict[str, list[Path]] = {}
    for file in files:
        found = None if path.is_file() else _SPLIT.search(file.relative_to(path).as_posix().lower())
        of.setdefault("" if found is None else found[1], []).append(file)
    schemas = {file: parquet.read_schema(file) for file in files}
    names = schemas[files[0]].names
    if other := next((file for file in files if sorted(schemas[file].names) != sorted(names)), None):
        raise InputError(
            f"{path}: {files[0].name} and {other.name} have different columns, expected parts of one table: give one "
            f"of its files, such as {files[0]}"
        )
    used = [""] if set(of) == {""} else _used(list(of), path, files[0])
    _check_sizes([file for name in used for file in of[name]], path)
    base = str(path.parent if path.is_file() else path)
    folders = {part.partition("=")[0] for file in files for part in file.relative_to(base).parts[:-1] if "=" in part}
    of_folders: dict[str, Any] = {}  # as site=a/1.parquet, unless files have the column, too
    if folders.isdisjoint(names):
        of_folders = {"partitioning": dataset.HivePartitioning.discover(), "partition_base_dir": base}
    types = _common_types(schemas)
    tables = []
    for name in used:
        parts = [*map(str, of[name])]
        schema = dataset.dataset(parts, format="parquet", **of_folders).schema
        for column, kind in types.items():
            number = schema.get_field_index(column)
            schema = schema.set(number, schema.field(number).with_type(kind))
        if types and b"pandas" in (schema.metadata or {}):  # it has the types of the first file
            of_pandas = json.loads(schema.metadata[b"pandas"])
            of_pandas["columns"] = [each for each in of_pandas["columns"] if each["field_name"] not in types]
            schema = schema.with_metadata(schema.metadata | {b"pandas": json.dumps(of_pandas).encode()})
        tables.append(dataset.dataset(parts, schema=schema, format="parquet", **of_folders).to_table())
    return tables, _features(schemas[files[0]])


def _common_types(schemas: Mapping[Path, Any]) -> dict[str, Any]:
    """Types that can contain the values of all files, of the columns whose types differ; InputError where none can."""
    import pyarrow as pa

    types: dict[str, Any] = {}
    (first, start), *others = schemas.items()
    for file, schema in others:
        for field in schema:
            kind = types.get(field.name, start.field(field.name).type)
            if field.type == kind:
                continue
            both = [each.value_type if pa.types.is_dictionary(each) else each for each in (kind, field.type)]
            try:
                fields = [pa.schema([(field.name, each)]) for each in both]
                types[field.name] = pa.unify_schemas(fields, promote_options="permissive").types[0]
            except pa.ArrowTypeError as error:
                raise InputError(
                    f"column {one_line(field.name, 40)} is {kind} in {first} and {field.type} in {file}, expected "
                    "numbers or texts in both: write these parts again with one type"
                ) from error
    return types


def _used(splits: list[str], path: Path, first: Path) -> list[str]:
    """The splits that are read: train and test, where there is none a validation split; or the only one."""
    if len(splits) == 1:
        return splits
    test = next((name for name in ("test", *VALIDATION) if name in splits), None)
    if "train" not in splits:
        raise InputError(f"{path} has the splits {name_list(splits)}, expected train: give {first}")
    used = ["train"] if test is None else ["train", test]
    if others := [name for name in splits if name not in used]:
        warn(f"{path}: the splits {name_list(others)} are left out")
    return used


def _check_sizes(files: Sequence[Path], path: Path) -> None:
    check_size(sum(file.stat().st_size for file in files), str(path), "save fewer rows")


def _stored(cell: Any, what: str) -> io.BytesIO:
    if not cell or cell.get("bytes") is None:
        raise InputError(f"the data set has paths of {what} rather than {what}: save it again with the {what} embedded")
    return io.BytesIO(cell["bytes"])


def _pixels(cell: Any) -> np.ndarray:
    """The pixels of an image, of which the file is in the data set."""
    require("pillow", "image", "reading images")
    from PIL import Image

    with Image.open(_stored(cell, "images")) as image:
        return pil_pixels(image, "an image of the data set")


def _sound(cell: Any, source_name: str, row: int, y: np.ndarray | None) -> Recording:
    """A sound, of which the file is in the data set."""
    require("soundfile", "signals", "reading sound")
    import soundfile

    with reading(source_name, "a sound file"):
        x, rate = soundfile.read(_stored(cell, "sounds"), dtype="float32", always_2d=True)
    name = Path(cell.get("path") or f"{row}.wav").name
    return Recording(np.asarray(x.T), f"{row}-{name}", float(rate), label=None if y is None else y[row])


def _one_size(images: list[np.ndarray], request: DataOptions, source_name: str) -> tuple[np.ndarray, int | None]:
    """Images as an array; in color if any is, of different sizes as squares, with the side of these."""
    if len({image.ndim for image in images}) > 1:
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    side = request.or_fitted("image_size")
    if side is None:
        side = common_side([image.shape[:2] for image in images], source_name, fitted=request.schema is not None)
    return (np.stack(images) if side is None else image_squares(images, side)), side


def _stacked(samples: list[np.ndarray], path: Path) -> np.ndarray:
    for row, sample in enumerate(samples):
        if sample.shape != samples[0].shape or sample.dtype.kind not in "biuf":
            raise InputError(
                f"{path}: row {row} (counted from 0) has shape {sample.shape}, and row 0 {samples[0].shape}, expected "
                "numbers of one shape: resize or cut them with Dataset.map"
            )
    return np.stack(samples)
