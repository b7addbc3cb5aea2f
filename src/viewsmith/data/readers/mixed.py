"""Tables of mixed columns from text files: separators, quotes, roles, and the encoder of a new or a fitted table."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, suggest_names, warn
from viewsmith.data.dataset import split_groups, split_indices
from viewsmith.data.labels import group_names, lacks_labels, missing_labels, numbers_of, without_label
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, labels_of, reading

if TYPE_CHECKING:
    import pandas as pd


# Numbers as spreadsheets write them where the comma is the decimal mark, and the columns therefore have another
# separator; and numbers with commas between thousands.
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")

_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d+)?\s*")

_PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")

_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([,;|\t])"?\s*', re.IGNORECASE)

_NEARLY = 0.9  # of the cells are numbers: the others are named later


def open_table(path: Path) -> IO[bytes]:
    """A text table, plain or compressed by gzip."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def given_separator(path: Path) -> str | None:
    """The separator in the first line of a text table, ``sep=;``, which Excel reads and does not take for a header."""
    with open_table(path) as file:
        found = _SEPARATOR_LINE.fullmatch(file.readline(64))
    return None if found is None else found[1].decode()


def find_separator(names: list[str], separator: str) -> str:
    """The separator of a header that was split at `separator`: another one if it gave one name with that in it.

    Only semicolons and tabs of a table that should have commas; what else it can be is the reader's to refuse.
    """
    found = {mark for mark in ";\t" if mark in names[0]}
    return found.pop() if separator == "," and len(names) == 1 and len(found) == 1 else separator


def read_commas(frame: pd.DataFrame, separator: str, leave: Collection[str], source_name: str) -> pd.DataFrame:
    """Read commas in numbers: before decimals, or where columns are separated by commas, between thousands.

    Columns with other text in more than a tenth of their cells are unchanged. A warning names the columns.
    """
    import pandas as pd

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
        if roles.setdefault(name, role) != role:
            raise InputError(f"column {one_line(name, 60)} is both {roles[name]} and {role}; give it one role")
    return roles


def encode_new(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents | None:
    """A new table: roles by dtype and content, and an encoder that is fitted to the training rows."""
    from viewsmith.data.readers.leaks import warn_leaks, warn_leaks_of_numbers
    from viewsmith.modalities import frames
    from viewsmith.modalities.tables.encoder import fit_table
    from viewsmith.modalities.tables.roles import choose_roles, is_plain

    columns = list(frame.columns)
    given = given_roles(request)
    for name in given:
        if name not in columns:
            hint = suggest_names(name, columns, "its columns are")
            raise InputError(f"{source_name} has no column {one_line(name, 60)!r}, given in columns; {hint}")
    if request.label in given:
        raise InputError(f"column {one_line(request.label, 60)} is the label and has a role; give it one use")
    features = frame.drop(columns=[] if request.label is None else [request.label])
    if features.shape[1] == 0:
        raise InputError(f"{source_name} has no feature, only the label: {name_list(columns)}")
    y = None if request.label is None else frames.labels(frame[request.label])
    roles = choose_roles(features, given, source_name)
    numbers = (
        None if y is None else numbers_of(y, f"{source_name}: label column {request.label}", request.target_or_fitted)
    )
    if numbers is not None and request.label is not None:
        y, used = numbers, [name for name, role in roles.items() if role == "numeric"]
        warn_leaks_of_numbers(features[used], numbers, request.label, source_name)
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
    described: dict[str, Any] = {
        "columns": [column.name for column in table.columns],
        "one_hot": {},
        "drop": [],
        "label": request.label,
        "encoded": True,
    }
    return FileContents(table.encode(features, source_name), y, names=table.features, table=described)


def encode_later(frame: pd.DataFrame, request: DataOptions, source_name: str) -> FileContents:
    """A table for a model that was fitted on one: its columns by name, and labels if there are some."""
    from viewsmith.modalities import frames

    table, schema = request.table, request.schema or {}
    assert table is not None
    label = request.label if request.label is not None else schema.get("label")
    if request.label is not None and request.label not in frame.columns:
        hint = suggest_names(request.label, list(frame.columns), "its columns are")
        raise InputError(f"{source_name} has no column {one_line(request.label, 60)!r}, given as label; {hint}")
    label = label if label in frame.columns else None
    check_label_is_free(request.label, [column.name for column in table.columns], source_name)
    features = frame.drop(columns=[name for name in {label, schema.get("label")} if name in frame.columns])
    x = table.encode(features, source_name)
    table.warn_unseen(features, source_name)
    y = None if label is None else frames.labels(frame[label])
    described = {key: schema.get(key) for key in ("columns", "one_hot", "drop")} | {"label": label}
    return FileContents(x, y, names=table.features, table=described)


def check_label_is_free(label: str | None, features: Collection[str], source_name: str) -> None:
    """Raise InputError if the label of a later table is a feature of the run, which could then look it up."""
    if label in features:
        raise InputError(
            f"{source_name}: the run was fitted with the column {one_line(label, 60)} as a feature, so it cannot be "
            f"the label: fit a run with --label {one_line(label, 60)}"
        )


def text_columns(path: Path, separator: str, skipped: int, request: DataOptions) -> Iterable[str]:
    """Columns of a text file that must not be read as numbers: given or fitted as such, and codes such as 01234.

    `skipped` is the number of lines before the header.
    """
    import pandas as pd

    from viewsmith.modalities.tables.columns import Category, Text

    if request.table is not None:
        of = request.table.columns
        return [c.name for c in of if isinstance(c, Text) or (isinstance(c, Category) and c.dtype == "text")]
    found = {name for name, role in given_roles(request).items() if role in ("category", "text")}
    if request.schema is not None or request.strict:
        return found
    first = pd.read_csv(path, sep=separator, dtype=str, nrows=SAMPLE, skiprows=skipped)
    return found | {name for name in first.columns if first[name].str.fullmatch(r"0\d+").any()}


def refuse_encoding(path: Path) -> None:
    """Raise InputError if lines of a file are not UTF-8; the message names the first one."""
    bad: list[int] = []
    example, lines = b"", 0
    with reading(str(path), "a table"), open_table(path) as file:
        for lines, line in enumerate(file, 1):
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
        "convert the file, or only these lines if encodings are mixed"
    )


def _train_rows(y: np.ndarray | None, request: DataOptions, source_name: str, n: int) -> Any:
    """Rows of the train split; all rows where there will be none (`load_dataset` then says why)."""
    seed = request.split_seed or 0
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
