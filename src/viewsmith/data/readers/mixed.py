"""Tables of mixed columns from files: roles and encoder of a new table, and later tables by a fitted encoder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, one_line, pluralize, suggest_names
from viewsmith.data.readers.separators import open_table
from viewsmith.data.reading import Found, Request, reading
from viewsmith.data.split import split_groups, split_indices
from viewsmith.domains.checks import check_labels
from viewsmith.domains.few_labels import lacks_labels, missing_labels, partial_labels
from viewsmith.domains.groups import group_names
from viewsmith.domains.targets import numbers_of

if TYPE_CHECKING:
    import pandas as pd

SAMPLE = 1000  # lines in which codes are looked for


def given_roles(request: Request) -> dict[str, str]:
    """Roles that the user gave, as such or by the options drop and one_hot."""
    roles = dict.fromkeys(request.drop, "drop") | dict.fromkeys(request.one_hot, "category")
    for name, role in (request.columns or {}).items():
        if roles.setdefault(name, role) != role:
            raise InputError(f"column {one_line(name, 60)} is both {roles[name]} and {role}; give it one role")
    return roles


def encode_new(frame: pd.DataFrame, request: Request, what: str) -> Found | None:
    """A new table: roles by dtype and content, and an encoder that is fitted to the training rows.

    Returns
    -------
    Found or None
        None for plain numbers, apart from label and dropped columns.
    """
    from viewsmith.domains import frames
    from viewsmith.domains.tables.encoder import fit_table
    from viewsmith.domains.tables.leaks import warn_leaks, warn_leaks_of_numbers
    from viewsmith.domains.tables.roles import choose_roles, is_plain

    columns = list(frame.columns)
    given = given_roles(request)
    for name in given:
        if name not in columns:
            hint = suggest_names(name, columns, "its columns are")
            raise InputError(f"{what} has no column {one_line(name, 60)!r}, given in columns; {hint}")
    if request.label in given:
        raise InputError(f"column {one_line(request.label, 60)} is the label and has a role; give it one use")
    features = frame.drop(columns=[] if request.label is None else [request.label])
    if features.shape[1] == 0:
        raise InputError(f"{what} has no feature, only the label: {name_list(columns)}")
    y = None if request.label is None else frames.labels(frame[request.label])
    roles = choose_roles(features, given, what)
    numbers = None if y is None else numbers_of(y, f"{what}: label column {request.label}", request.target)
    if numbers is not None and request.label is not None:
        y, used = numbers, [name for name, role in roles.items() if role == "numeric"]
        warn_leaks_of_numbers(features[used], numbers, request.label, what)
    elif y is not None and request.label is not None:
        partial = request.few_labels or lacks_labels(y, f"{what}: label column {one_line(request.label, 60)}")
        known = ~missing_labels(y) if partial else np.ones(len(y), dtype=bool)
        used = [name for name, role in roles.items() if role != "drop"]
        warn_leaks(features.loc[known, used], y[known], request.label, what)
    kept = {name: role for name, role in roles.items() if role != "drop"}
    if is_plain(features, kept, gaps=request.impute == "median"):
        return None
    rows = _train_rows(y, request, what)
    table = fit_table(features, roles, rows=rows, indicators=request.impute == "none", what=what)
    described: dict[str, Any] = {
        "columns": [column.name for column in table.columns],
        "one_hot": {},
        "drop": [],
        "label": request.label,
        "encoded": True,
    }
    return Found(table.encode(features, what), y, names=table.features, table=described)


def encode_later(frame: pd.DataFrame, request: Request, what: str) -> Found:
    """A table for a model that was fitted on one: its columns by name, and labels if there are some."""
    from viewsmith.domains import frames

    table, schema = request.table, request.schema or {}
    assert table is not None
    label = request.label if request.label is not None else schema.get("label")
    if request.label is not None and request.label not in frame.columns:
        hint = suggest_names(request.label, list(frame.columns), "its columns are")
        raise InputError(f"{what} has no column {one_line(request.label, 60)!r}, given as label; {hint}")
    label = label if label in frame.columns else None
    check_label_is_free(request.label, [column.name for column in table.columns], what)
    features = frame.drop(columns=[name for name in {label, schema.get("label")} if name in frame.columns])
    x = table.encode(features, what)
    table.warn_unseen(features, what)
    y = None if label is None else frames.labels(frame[label])
    described = {key: schema.get(key) for key in ("columns", "one_hot", "drop")} | {"label": label}
    return Found(x, y, names=table.features, table=described)


def check_label_is_free(label: str | None, features: Collection[str], what: str) -> None:
    """Raise InputError if the label of a later table is a feature of the run, which could then look it up."""
    if label in features:
        raise InputError(
            f"{what}: the run was fitted with the column {one_line(label, 60)} as a feature, so it cannot be the "
            f"label: fit a run with --label {one_line(label, 60)}"
        )


def text_columns(path: Path, separator: str, skipped: int, request: Request) -> Iterable[str]:
    """Columns of a text file that must not be read as numbers: given or fitted as such, and codes such as 01234.

    `skipped` is the number of lines before the header.
    """
    import pandas as pd

    from viewsmith.domains.tables.columns import Category, Text

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


def _train_rows(y: np.ndarray | None, request: Request, what: str) -> Any:
    """Rows of the train split; all rows where there will be none (`load_dataset` then says why)."""
    try:
        if request.test_groups is not None:
            return split_groups(group_names(request.test_groups, len(request.test_groups), what))[0]
        if y is None:
            return slice(None)
        if y.dtype.kind == "f" and numbers_of(y, what, request.target) is not None:
            labeled = np.flatnonzero(~np.isnan(y))
            return np.setdiff1d(np.arange(len(y)), labeled[split_indices(y[labeled])[1]])
        check = partial_labels if request.few_labels or lacks_labels(y, what) else check_labels
        return split_indices(check(y, len(y), what))[0]
    except InputError:
        return slice(None)
