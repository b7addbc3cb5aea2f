"""Readers of tables: mixed columns, numbers, pixels, and .parquet that may stay on disk."""

import dataclasses
import math
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
    say,
    suggest,
    warn,
)
from viewsmith.core.registry import Impute
from viewsmith.core.rows import RowSource
from viewsmith.data import labels
from viewsmith.data.dataset import split_groups, split_indices
from viewsmith.data.label_tables import with_labels
from viewsmith.data.layouts import (
    DETECTION,
    READ,
    refuse_features,
    transposing,
    warn_forms,
    warn_long,
    warn_peaks,
    warn_plates,
    warn_rows,
    warn_taxa,
    warn_wells,
)
from viewsmith.data.marks import warn_last_rows, with_numbers
from viewsmith.data.options import DataOptions
from viewsmith.data.places import SUFFIXES
from viewsmith.data.readers.sequences import alphabet_given, read_sequences
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.modalities import frames
from viewsmith.modalities.checks import as_vectors, check_missing, match_columns
from viewsmith.modalities.images.channels import SMALLEST_SIDE, as_pixels
from viewsmith.modalities.tables.encoder import fit_table
from viewsmith.modalities.tables.roles import LEFT_OUT, choose_roles, is_plain, numbers_in
from viewsmith.modalities.vectors.counts import (
    are_counts,
    features_in_rows,
    genes_in_rows,
    looks_like_counts,
    uneven_totals,
)

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
    features = frame if request.label is None else frames.without_columns(frame, [request.label])
    if features.shape[1] == 0:
        raise InputError(f"{source_name} has no feature, only the label: {name_list(list(frame.columns))}")
    y = None if request.label is None else frames.labels(frame[request.label])
    given = given_roles(request)
    if not given:
        refuse_features(Path(source_name), list(features.columns))
    kinds = (warn_taxa, warn_peaks, warn_plates, warn_forms, warn_wells)
    told = not given and any(each(features, source_name) for each in kinds)
    in_other_roles = {name for name, role in given.items() if role != "numeric" and name in features}
    among = frames.without_columns(features, in_other_roles)
    told = told or warn_long(among, source_name)
    roles = choose_roles(features, given, source_name)
    if not given and not told:
        warn_rows(features, roles, source_name)
    if not told:
        _check_genes(features, roles, source_name)
    if request.label is None:
        features_named = {name: role for name, role in roles.items() if name not in given and role not in LEFT_OUT}
        labels.warn_label_among(features_named, source_name)
    column = f"{source_name}: label column {request.label}"
    numbers = None if y is None else labels.numbers_of(y, column, request.target_or_fitted)
    if numbers is not None and request.label is not None:
        y = numbers
        used = [name for name, role in roles.items() if role == "numeric" and frames.is_numeric(features[name])]
        labels.warn_leaks(features[used], numbers, request.label, source_name, numbers=True)
    elif y is not None and request.label is not None:
        column = f"{source_name}: label column {one_line(request.label, 60)}"
        partial = request.few_labels or labels.lacks_labels(y, column)
        known = ~labels.missing_labels(y) if partial else np.ones(len(y), dtype=bool)
        used = [name for name, role in roles.items() if role != "drop"]
        among = frames.without_columns(features, set(roles).difference(used))
        labels.warn_leaks(among if known.all() else among[known], y[known], request.label, source_name)
    kept = {name: role for name, role in roles.items() if role != "drop"}
    if is_plain(features, kept, gaps=request.impute == "median"):
        return None
    rows = _train_rows(y, request, source_name, len(frame))
    table = fit_table(features, roles, rows=rows, indicators=request.impute == "none", source_name=source_name)
    columns = [column.name for column in table.columns]
    described: dict[str, Any] = {"columns": columns, "one_hot": {}, "drop": [], "label": request.label, "encoded": True}
    return FileContents(table.encode(features, source_name), y, names=table.features, table=described)


FEWEST_CELLS, FEWEST_SAMPLES = 50, 8  # columns of counts or other values, from which on they may be cells or samples
FEWEST_GENES = 20  # rows for each column, from which on the name of a column says that rows are genes
_GENES = re.compile(r"(?i)(ensembl|gene|transcript|probe|symbol|cpg|hgnc)([\W_]*(id|name|symbol|ref)s?)*")
_OF_ROWS = ("identifier", "text", "category")  # roles of columns that may be about genes
#: Columns of numbers that are about genes or sites.
_OF_FEATURES = re.compile(
    r"(?i)chr(om(osome)?)?|start|end|strand|length|width|pos(ition)?|mapinfo|entrez.*|gc.?(content|percent)?|(unnamed|index).*"
)


def _check_genes(frame: pd.DataFrame, roles: Mapping[str, str], source_name: str) -> None:
    """Refuse a table of counts of cells whose rows are genes, unless the user has left its column of names out; warn
    where only the totals say so, or where values are no counts of cells."""
    texts = [name for name in frame.columns if not frames.is_numeric(frame[name])]
    symbols = [name for name in texts if _GENES.fullmatch(str(name)) and 2 * frame[name].nunique() > len(frame)]
    names = [name for name in texts if roles[name] == "identifier" or name in symbols]  # some symbols twice
    numbers = [name for name in frame.columns if name not in texts and roles[name] in ("numeric", "constant")]
    counts = [name for name in numbers if not _OF_FEATURES.fullmatch(str(name)) and not DETECTION.search(str(name))]
    others = [name for name in frame.columns if name not in counts]
    if not names or not counts or any(roles[name] not in (*_OF_ROWS, "numeric", "constant") for name in others):
        return
    columns = (frame[name].map(str).tolist() for name in names)
    key = next((name for name, rows in zip(names, columns, strict=True) if genes_in_rows(rows, counts)), None)
    x = frames.values(frame[counts])
    if key is None and len(counts) >= 3 and len(x) >= FEWEST_GENES * len(counts):  # few samples, and names of any kind
        key = next((name for name in names if _GENES.fullmatch(str(name))), None)
    named = key is not None
    of_cells = len(counts) >= FEWEST_CELLS and looks_like_counts(x)
    by_values = len(texts) == 1 and len(counts) >= FEWEST_SAMPLES
    counted = by_values and of_cells and uneven_totals(x)
    if not (named or counted or (by_values and len(x) >= 3 * len(counts) and features_in_rows(x))):
        return
    key = names[0] if key is None else key
    others.remove(key)
    surely, what = named and of_cells, "genes" if named or counted else "features"
    said = f"{source_name}: rows {'are' if surely else 'may be'} {what} and columns "
    said += "cells" if of_cells else "samples"
    said += f", by their {'names' if named else 'totals' if counted else 'means'}, but samples are rows: "
    of_counts = of_cells or are_counts(x)
    said += transposing(source_name, key, of_counts, frame.attrs.get(READ), others, not frame[key].is_unique)
    if surely:
        raise InputError(f"{said} (--drop {one_line(key, 60)} takes the rows as they are)")
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


def _train_rows(y: np.ndarray | None, request: DataOptions, source_name: str, n: int) -> Any:
    """Rows of the train split; all rows where there will be none (`load_dataset` then says why)."""
    seed = request.split_seed or 0
    if request.n_train is not None:
        return slice(request.n_train)
    try:
        if request.test_groups is not None:
            return split_groups(labels.group_names(request.test_groups, len(request.test_groups), source_name), seed)[0]
        if y is None and request.split_seed is None:
            return slice(None)
        y, partial = (np.zeros(n), False) if y is None else labels.labels_of(y, request, n, source_name)
        labeled = np.flatnonzero(~labels.without_label(y)) if partial else np.arange(n)
        return np.setdiff1d(np.arange(n), labeled[split_indices(y[labeled], seed)[1]])
    except InputError:
        return slice(None)


_PIXEL = re.compile(r"(?i)(pixel|px|p)[_ ]?\d+([x_]\d+)?")  # names of columns
# Number of first rows of a table on disk from which the roles of its columns are inferred.
HEAD_ROWS = 1000
MOST_TITLES = 100  # lines above the names of the columns
RENAME = "rename them; if the first line is data: --header no"


def lines_above(filled: Sequence[int]) -> int:
    """How many lines stand above the names of the columns, given the filled cells of the first lines: titles, of two
    cells at most, where the lines below have twice as many."""
    filled = filled[: max((i for i, cells in enumerate(filled, 1) if cells), default=0)]
    width = int(np.median(filled[len(filled) // 2 :])) if filled else 0
    titles = 0
    while titles < min(MOST_TITLES, len(filled) - 2) and filled[titles] <= min(2, width // 2):
        titles += 1
    return titles if width > 2 and filled[titles] > width // 2 else 0


def with_none(frame: pd.DataFrame, label: str, written: pd.Series, source_name: str) -> pd.DataFrame:
    """A table in whose labels, if they are texts, None is a class; other words for missing labels are said. The column
    of the labels as it is written is given."""
    written = written.str.strip()
    words = written[frame[label].isna() & (written != "").to_numpy()].value_counts()
    if not len(words) or frames.is_numeric(frame[label]):
        return frame
    if "None" in words:
        say(f"{source_name}: None in the label column {one_line(label, 40)} is a class, of {words['None']:,} rows")
        frame = frames.with_columns(frame, {label: frame[label].mask(written.to_numpy() == "None", "None")})
    if len(others := words.drop("None", errors="ignore")):
        say(f"{source_name}: {others.index[0]} is no label, in {others.iloc[0]:,} rows: write another word for a class")
    return frame


def titles(above: int, first: object) -> str:
    """What is said of lines above the names of the columns."""
    return f"{pluralize(above, 'line')} above the names of the columns left out ({one_line(first, 40)})"


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
    from pyarrow import default_memory_pool, parquet

    with reading(str(path), "a parquet file"), path.open("rb") as file:
        opened = parquet.ParquetFile(file, pre_buffer=False)  # which would keep the whole file in memory, too
        shape = (opened.metadata.num_rows, opened.metadata.num_columns)
        # The encoder of a mixed table needs its columns as a whole, and so do recordings, spectra and images.
        rows = request.modality in (None, "vectors") and request.table is None
        stays = rows and request.labels is None and request.streams(shape) and 0 not in shape
        frame = (next(opened.iter_batches(HEAD_ROWS)) if stays else opened.read()).to_pandas()
    default_memory_pool().release_unused()  # which may be as much as the rows
    columns = [str(column) for column in frame.columns]
    check_unique(columns, f"{path} has columns with equal names", RENAME)
    frame.columns = pd.Index(columns)  # without the copy that set_axis makes
    if stays:
        return _rows_on_disk(frame, path, request)
    found = table_rows(frame, request, str(path))
    del frame
    default_memory_pool().release_unused()  # the columns, which pyarrow keeps for tables that it may read later
    return found


def _rows_on_disk(head: pd.DataFrame, path: Path, request: DataOptions) -> FileContents:
    """As for a table in memory, whose first rows are `head`; labels and categories are read of all rows."""
    source_name = str(path)
    # Columns must be numbers or `one_hot`. Values that are missing are counted in all rows, later.
    new = dataclasses.replace(request, impute="median", strict=True)
    table = table_rows(head, new, source_name, on_disk=True).table
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


def table_rows(frame: pd.DataFrame, request: DataOptions, source_name: str, *, on_disk: bool = False) -> FileContents:
    """What is read of a table, by the options; `on_disk`: of its first rows, and others are read as they are."""
    schema, of_run = request.schema or {}, [] if request.table is None else request.table.columns
    of_texts = [each.name for each in of_run if each.role != "numeric"]
    fitted = [each.name for each in of_run if each.role == "numeric"] or schema.get("columns")
    fitted = fitted or (schema.get("signal") or {}).get("channels") or ()
    given = [*(request.columns or ()), *request.one_hot, *(schema.get("one_hot") or ()), *of_texts]
    frame = frame if on_disk else with_numbers(frame, source_name, given, fitted)
    if request.schema is None:
        warn_last_rows(frame, source_name)
    if request.labels is not None and request.modality not in ("series", "images"):
        frame, key = with_labels(frame, request, source_name)
        if request.schema is None and key not in {*request.drop, *request.one_hot, *(request.columns or {})}:
            request = dataclasses.replace(request, drop=(*request.drop, key))
    if request.modality == "series":
        from viewsmith.data.readers.moments import recordings_of_table

        return recordings_of_table(frame, request, source_name)
    if request.modality == "spectra":
        from viewsmith.data.readers.spectra import spectra_of_table

        return spectra_of_table(frame, request, source_name)
    if request.modality == "images":
        return _pixel_rows(frame, request, source_name)
    if len(frame) == 0:
        raise InputError(f"{source_name} has no rows, only a header line with {pluralize(frame.shape[1], 'column')}")
    groups = group_column(frame, request, source_name)
    if groups is not None:
        frame = frame.drop(columns=[request.or_fitted("groups")])
        request = dataclasses.replace(request, test_groups=groups if request.split_by_groups else None)
    return dataclasses.replace(_read_rows(frame, request, source_name), groups=groups)


def _pixel_rows(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """Columns of numbers, one for each pixel, as square gray images, as in tables of MNIST."""
    others = {request.or_fitted("label"), request.or_fitted("groups"), *request.drop}
    frame = _apart(frame, others, source_name)
    pixels = [name for name in frame.columns if name not in others]
    n = len(pixels)
    if frames.no_numbers(frame, pixels) or math.isqrt(n) ** 2 != n or n < SMALLEST_SIDE**2:
        label = "; is one of them the label? --label COLUMN" * (math.isqrt(n - 1) ** 2 == n - 1 > 0)
        raise InputError(
            f"{source_name} has no column with names of image files ({' '.join(SUFFIXES)}), nor one for each pixel of "
            f"a square: it has {pluralize(n, 'column')}{label}; expected one of these, or the folder of images with "
            f"--labels {source_name}"
        )
    found = table_rows(frame, dataclasses.replace(request, modality=None, strict=True), source_name)
    x = as_pixels(np.asarray(found.x)).reshape(len(found.x), math.isqrt(n), -1)
    return dataclasses.replace(found, x=x, names=None, modality="images")


def _apart(frame: pd.DataFrame, others: Collection[str | None], source_name: str) -> pd.DataFrame:
    """A table with a column for each number, and the `others`, of one whose only column of lists has the pixels of an
    image in each cell, as of FER2013."""
    lists = [name for name in frame.columns if name not in others and numbers_in(frame[name]) is not None]
    if len(lists) != 1:
        return frame
    numbers = [re.sub(r"[^\d.eE+-]+", " ", str(cell)).split() for cell in frame[lists[0]]]
    if len(counts := {len(each) for each in numbers}) > 1:
        raise InputError(
            f"{source_name}: column {one_line(lists[0], 40)} has {min(counts):,} to {max(counts):,} numbers in a cell; "
            "expected as many in each, the pixels of a square"
        )
    if left := [name for name in frame.columns if name not in (lists[0], *others)]:
        say(f"{source_name}: the pixels are those of {one_line(lists[0], 40)}; not used: {name_list(left)}")
    pixels = pd.DataFrame(np.array(numbers, np.float32), index=frame.index).add_prefix("pixel")
    return frame[[name for name in frame.columns if name in others]].join(pixels)


def _warn_other_samples(frame: pd.DataFrame, request: DataOptions, source_name: str) -> None:
    """Say that columns of a new table are pixels, points of spectra or recordings, or names of image files, which are
    taken for features without an order."""
    if request.modality is not None or request.schema is not None:
        return
    pixels = [name for name in frame.columns if _PIXEL.fullmatch(name)]
    side = math.isqrt(len(pixels))
    if side >= SMALLEST_SIDE and side**2 == len(pixels):
        say(f"{source_name}: its {len(pixels):,} pixels are columns; images of {side} x {side}: --modality images")
    if (points := frames.smooth_points(frame)) and not _PIXEL.fullmatch(points[0]):
        warn(
            f"{source_name}: its {len(points):,} columns {points[0]} to {points[-1]} are points of an axis, whose "
            "values hardly change from one to the next: --modality spectra, or --modality series for recordings"
        )
    for name in frame.select_dtypes(exclude="number").columns if len(frame) else ():
        cells = (str(cell).lower() for cell in frame[name])  # of which the first mostly says that it is none
        if name not in (request.label, *request.drop) and all(cell.endswith(SUFFIXES) for cell in cells):
            warn(
                f"{source_name}: {one_line(str(name), 40)} has names of image files, which are not opened: --modality "
                "images reads those in the folder of the table; of another folder: give that, with --labels "
                f"{source_name} --label COLUMN"
            )
            return


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
    _warn_other_samples(frame, request, source_name)
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
    used = frames.without_columns(frame, set(frame.columns).difference(columns))
    used = used if columns == list(used.columns) else used[columns]
    blocks = [as_vectors(frames.values(used), columns, impute, source_name)] if columns else []
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
    check_missing(frame.isna()[columns].to_numpy().sum(axis=0), columns, source_name)
