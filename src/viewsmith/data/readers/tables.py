"""Readers of tables, .csv, .tsv and .parquet; parquet that is too large for memory is read batch by batch."""

from __future__ import annotations

import dataclasses
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import (
    InputError,
    MissingExtra,
    duplicates,
    name_list,
    one_line,
    pluralize,
    suggest_names,
    warn,
)
from viewsmith.core.rows import RowSource
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.mixed import (
    check_label_is_free,
    encode_later,
    encode_new,
    find_separator,
    given_roles,
    given_separator,
    read_commas,
    refuse_encoding,
    text_columns,
    warn_open_quotes,
)
from viewsmith.data.reading import FileContents, reading
from viewsmith.modalities.checks import as_vectors, check_missing

if TYPE_CHECKING:
    import pandas as pd


# Rows that are decoded at once have about this number of values.
BATCH_VALUES = 1_000_000


class ParquetRows(RowSource):
    """Rows of a parquet file. In order they are read once; for others, the file is read again from their row
    group on."""

    by_index = False

    def __init__(self, path: Path, columns: list[str], encode: Callable[[Any], np.ndarray], width: int) -> None:
        self._file = open_parquet(path)
        groups = self._file.metadata
        sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        super().__init__((groups.num_rows, width), str(path), path)
        self._starts = np.cumsum([0, *sizes])
        self._columns, self._encode = columns, encode
        self._frames: Iterator[Any] = iter(())
        # Decoded rows, from a position on; at first from the end, so that the first read begins anew.
        self._left, self._position = np.empty((0, width), np.float32), len(self)
        self._lock = threading.Lock()

    def read_range(self, start: int, stop: int) -> np.ndarray:
        with self._lock, reading(self.name, "a parquet file"):
            group = int(np.searchsorted(self._starts, start, side="right")) - 1
            if start < self._position or self._position + len(self._left) < self._starts[group]:
                self._begin(group)
            parts: list[np.ndarray] = []
            while start < stop:
                ready = self._position + len(self._left)
                if start >= ready:
                    self._left, self._position = self._encode(next(self._frames)), ready
                    continue
                part = self._left[start - self._position : stop - self._position]
                parts.append(part)
                start += len(part)
            return np.concatenate(parts) if parts else self._left[:0]

    def read_index(self, index: np.ndarray) -> np.ndarray:
        runs = np.split(index, np.flatnonzero(np.diff(index) > 1) + 1)
        return np.concatenate([self.read_range(int(run[0]), int(run[-1]) + 1) for run in runs])

    def _begin(self, group: int) -> None:
        """Go to the start of a row group."""
        batches = self._file.iter_batches(
            batch_size=max(1, BATCH_VALUES // len(self._columns)),
            row_groups=list(range(group, len(self._starts) - 1)),
            columns=self._columns,
            use_threads=False,
        )
        self._frames = (batch.to_pandas() for batch in batches)
        self._left, self._position = self._left[:0], int(self._starts[group])


def open_parquet(path: Path) -> Any:
    """The file, of which a part at a time is read."""
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False)


def read_columns(path: Path, columns: list[str]) -> Any:
    """Some columns of all rows, as a DataFrame."""
    return open_parquet(path).read(columns=columns, use_threads=False).to_pandas()


# The quality of bases has no place in what is read, so that leaving it out is the user's choice.
_FASTQ = "convert it to FASTA: awk 'NR%4==1{{print \">\" substr($0,2)}} NR%4==2' {0} > reads.fasta"

_CELLS = "write an .h5ad file (anndata, scanpy)"

_ADVICE = {
    **dict.fromkeys((".fastq", ".fq"), _FASTQ),
    **dict.fromkeys((".fastq.gz", ".fq.gz"), _FASTQ.replace("{0}", "<(zcat {0})")),
    **dict.fromkeys((".txt", ".txt.gz", ".dat"), "rename it to .csv or .tsv if it is a table with a header line"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save it as .csv"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), "files are never unpickled; save an .npz file"),
    **dict.fromkeys((".rds", ".mtx", ".mtx.gz", ".loom", ".h5"), _CELLS),
}


def advice(extension: str, path: Path) -> str:
    """What to do with a file of this extension; empty if nothing is known."""
    return _ADVICE.get(extension.lower(), "").format(path)


# Number of first rows of a table on disk from which the roles of its columns are inferred.
HEAD_ROWS = 1000


def read_csv(path: Path, request: DataOptions) -> FileContents:
    """Table with a header line, separated by commas; if the header has none, by semicolons or tabs."""
    return _rows(_text_table(path, request, ","), request, str(path))


def read_tsv(path: Path, request: DataOptions) -> FileContents:
    """Table with a header line, separated by tabs."""
    return _rows(_text_table(path, request, "\t"), request, str(path))


def read_parquet(path: Path, request: DataOptions) -> FileContents:
    """Parquet file; an index that pandas stored in it is not a column."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading parquet files")
    from pyarrow import parquet

    with reading(str(path), "a parquet file"), path.open("rb") as file:
        opened = parquet.ParquetFile(file)
        shape = (opened.metadata.num_rows, opened.metadata.num_columns)
        # The encoder of a mixed table needs its columns as a whole.
        stays = request.streams(shape) and 0 not in shape and request.table is None
        frame = (next(opened.iter_batches(HEAD_ROWS)) if stays else opened.read()).to_pandas()
    columns = [str(column) for column in frame.columns]
    _check_duplicates(columns, str(path))
    frame = frame.set_axis(columns, axis=1)
    return _rows_on_disk(frame, path, request) if stays else _rows(frame, request, str(path))


def _rows_on_disk(head: pd.DataFrame, path: Path, request: DataOptions) -> FileContents:
    """As for a table in memory, whose first rows are `head`; labels and categories are read of all rows."""
    from viewsmith.modalities import frames

    source_name = str(path)
    # Columns must be numbers or `one_hot`. Values that are missing are counted in all rows, later.
    table = _rows(head, dataclasses.replace(request, impute="median", strict=True), source_name).table
    if request.schema is None:
        for column in table["one_hot"]:
            whole = read_columns(path, [column])
            if request.impute == "none":
                _check_missing(whole, [column], source_name)
            table["one_hot"][column] = frames.categories(whole[column], source_name)
    label = table["label"]
    y = None if label is None else frames.labels(read_columns(path, [label])[label])
    asked = dataclasses.replace(request, impute="median", schema=None, strict=True)

    def encode(frame: pd.DataFrame) -> np.ndarray:
        rows: np.ndarray = _encode(frame, table, None, asked, source_name).x  # type: ignore[assignment]
        return rows

    first = _encode(head, table, None, asked, source_name)
    x = ParquetRows(path, [*table["columns"], *table["one_hot"]], encode, first.x.shape[1])
    return FileContents(x, y, names=first.names, table=table)


def _text_table(path: Path, request: DataOptions, separator: str) -> pd.DataFrame:
    import pandas as pd

    kind = f"a {path.suffix.lower()} table in UTF-8"
    as_text = [*request.one_hot, *(request.schema or {}).get("one_hot", {})]
    refuse_encoding(path)
    with reading(str(path), kind):
        try:
            # pandas renames columns with equal names, so the header is read separately first.
            given = given_separator(path)
            skipped = 0 if given is None else 1  # lines before the header
            options: dict[str, Any] = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
            options |= {"skiprows": skipped}
            header = pd.read_csv(path, sep=given or separator, **options)
            found = given or find_separator(header.iloc[0].tolist(), separator)
            if found != separator:
                warn(f"{path}: columns are separated by {found!r}")
                separator = found
                header = pd.read_csv(path, sep=separator, **options)
        except pd.errors.EmptyDataError as error:
            raise InputError(f"{path} is empty; expected a header line and rows") from error
        _check_header(header.iloc[0].tolist(), separator, str(path))
        # Categories are read as text; otherwise 01 would become 1 if all categories look like numbers.
        as_text += [name for name in text_columns(path, separator, skipped, request) if name not in as_text]
        options = {"dtype": dict.fromkeys(as_text, str), "low_memory": False, "skiprows": skipped}
        frame = pd.read_csv(path, sep=separator, **options)
    if not isinstance(frame.index, pd.RangeIndex):
        # pandas uses additional leading fields as row names, which would silently drop a column.
        raise InputError(f"{path}: rows have more fields than the header line has names; name every column")
    warn_open_quotes(frame, str(path))
    return read_commas(frame, separator, {*as_text, str(request.label), str(request.groups)}, str(path))


def _check_header(names: list[str], separator: str, source_name: str) -> None:
    _check_duplicates([name for name in names if name], source_name)
    other = next((mark for mark in ",;|\t" if mark != separator and mark in names[0]), None)
    if len(names) == 1 and other:
        raise InputError(
            f"{source_name} has the separator {other!r}, expected {separator!r}; .csv has commas, .tsv has tabs"
        )
    if names != [str(i) for i in range(len(names))] and all(_is_number(name) for name in names):
        warn(
            f"{source_name}: the first line has only numbers ({name_list(names, 3)}) and is used as the names of the "
            "columns; add a header line if it is data"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_duplicates(columns: list[str], source_name: str) -> None:
    twice = duplicates(columns)
    if twice:
        raise InputError(
            f"{source_name} has columns with equal names: {name_list(twice)}; rename them (is there a header line?)"
        )


def _rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    if len(frame) == 0:
        raise InputError(f"{source_name} has no rows, only a header line with {pluralize(frame.shape[1], 'column')}")
    groups = group_column(frame, request, source_name)
    if groups is not None:
        frame = frame.drop(columns=[request.or_fitted("groups")])
        request = dataclasses.replace(request, test_groups=groups if request.split_by_groups else None)
    return dataclasses.replace(_read_rows(frame, request, source_name), groups=groups)


def _read_rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    if request.table is not None:
        return encode_later(frame, request, source_name)
    if request.schema is not None and request.schema["columns"] is not None:
        if request.schema.get("encoded"):
            raise InputError(
                f"{source_name}: the schema is of a table with an encoder: give it, too, load_dataset(..., "
                "table=data.x.table)"
            )
        return _rows_by_schema(frame, request, source_name)
    _check_options(list(frame.columns), request, source_name)
    dropped = [name for name, role in given_roles(request).items() if role == "drop"]
    request = dataclasses.replace(request, drop=tuple(dropped))
    return (None if request.strict else encode_new(frame, request, source_name)) or _new_rows(
        frame, request, source_name
    )


def group_column(frame: pd.DataFrame, request: DataOptions, source_name: str) -> np.ndarray | None:
    """The column of groups, (n,), of a table or of ``obs``; None without one, for a fitted run also if it is absent."""
    name = request.or_fitted("groups")
    if request.groups is not None and name not in frame.columns:
        raise InputError(_unknown_column("groups", str(name), [str(column) for column in frame.columns], source_name))
    if name is not None and name in (request.label, *request.drop, *request.one_hot):
        raise InputError(f"column {one_line(name, 60)} is both groups and another option; give it one use")
    return frame[name].astype(object).to_numpy() if name in frame.columns else None


def _new_rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """Select the columns for a new run: all columns, which must be numbers, except those dropped or to be encoded."""
    from viewsmith.modalities import frames

    columns = list(frame.columns)
    _check_options(columns, request, source_name)
    taken = {request.label, request.groups, *request.drop, *request.one_hot}
    rest = [column for column in columns if column not in taken]
    frames.check_no_text(frame, rest, source_name)
    encoded = [column for column in columns if column in request.one_hot]
    if not rest and not encoded:
        raise InputError(f"{source_name} has no feature, only the label and dropped columns: {name_list(columns)}")
    if request.impute == "none":
        _check_missing(frame, rest + encoded, source_name)
    table = {
        "columns": rest,
        "one_hot": {column: frames.categories(frame[column], source_name) for column in encoded},
        "drop": list(request.drop),
        "label": request.label,
    }
    y = None if request.label is None else frames.labels(frame[request.label])
    return _encode(frame, table, y, request, source_name)


def _rows_by_schema(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """Select the columns that a run was fitted on, in its order."""
    from viewsmith.modalities import frames

    schema = request.schema or {}
    columns, encoded = schema["columns"], list(schema["one_hot"])
    table = {key: schema[key] for key in ("columns", "one_hot", "drop", "label")}
    check_label_is_free(request.label, [*columns, *encoded], source_name)
    missing = [column for column in [*columns, *encoded] if column not in frame.columns]
    if missing:
        raise InputError(
            f"{source_name} lacks {pluralize(len(missing), 'column')} that the run was fitted on: "
            f"{name_list(missing)}; it has {name_list(list(frame.columns))}"
        )
    label = request.label or schema["label"]
    if request.label is not None and request.label not in frame.columns:
        raise InputError(_unknown_column("label", request.label, list(frame.columns), source_name))
    table["label"] = label if label in frame.columns else None
    known = {*columns, *encoded, *schema["drop"], schema["label"], label, request.or_fitted("groups")}
    extra = [column for column in frame.columns if column not in known]
    if extra:
        warn(
            f"{source_name}: {pluralize(len(extra), 'column')} that the run does not know, ignored: {name_list(extra)}"
        )
    frames.check_no_text(frame, columns, source_name)
    if request.impute == "none":
        _check_missing(frame, [*columns, *encoded], source_name)
    y = None if table["label"] is None else frames.labels(frame[table["label"]])
    return _encode(frame, table, y, request, source_name)


def _encode(
    frame: pd.DataFrame, table: dict[str, Any], y: np.ndarray | None, request: DataOptions, source_name: str
) -> FileContents:
    """Numeric columns, followed by the indicator columns of each encoded column."""
    from viewsmith.modalities import frames

    columns, names = table["columns"], list(table["columns"])
    blocks = [as_vectors(frames.values(frame[columns]), columns, request.impute, source_name)] if columns else []
    for column, categories in table["one_hot"].items():
        block, unseen = frames.one_hot(frame[column], categories)
        blocks.append(block)
        names += [f"{column}={category}" for category in categories]
        if unseen:
            warn(
                f"{source_name}: column {one_line(column, 60)} has {pluralize(len(unseen), 'category', 'categories')} "
                f"that the run has not seen, encoded as zeros: {name_list(unseen)}"
            )
    x = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    return FileContents(x, y, names=names, table=table)


def _check_options(columns: list[str], request: DataOptions, source_name: str) -> None:
    named = [("label", [request.label] if request.label is not None else [])]
    named += [("drop", list(request.drop)), ("one_hot", list(request.one_hot))]
    seen: dict[str, str] = {}
    for option, names in named:
        for name in names:
            if name not in columns:
                raise InputError(_unknown_column(option, name, columns, source_name))
            if seen.setdefault(name, option) != option:
                raise InputError(f"column {one_line(name, 60)} is both {seen[name]} and {option}; give it one use")


def _unknown_column(option: str, name: str, columns: Sequence[str], source_name: str) -> str:
    hint = suggest_names(name, columns, "its columns are")
    return f"{source_name} has no column {one_line(name, 60)!r}, given as {option}; {hint}"


def _check_missing(frame: pd.DataFrame, columns: list[str], source_name: str) -> None:
    check_missing(frame[columns].isna().to_numpy().sum(axis=0), columns, source_name)
