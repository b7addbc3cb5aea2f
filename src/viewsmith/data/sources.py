"""Data from a name or a file: one function for all sources, and the rules that hold whatever the source."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.data.arrays import read_npy, read_npz
from viewsmith.data.builtin import BUILTIN, read_builtin
from viewsmith.data.check import as_vectors, check_labels, find_domain, warn_columns
from viewsmith.data.dataset import Dataset, Impute, Split, split_indices
from viewsmith.data.messages import counted, known_names, name_list, one_line
from viewsmith.data.reading import Found, Reader, Request
from viewsmith.data.tables import read_csv, read_parquet, read_tsv

READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
}


def load_dataset(
    source: str | Path,
    *,
    label: str | None = None,
    domain: str | None = None,
    drop: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    impute: Impute = "none",
    schema: dict[str, Any] | None = None,
) -> Dataset:
    """Rows, labels and split from a built-in name or a file.

    Parameters
    ----------
    source : str or Path
        ``digits``, ``breast_cancer``, ``wine``, or a file with an extension in `READERS`. An ``.npz`` holds
        ``X_train`` and ``X_test`` (``y_train``, ``y_test``) or ``X`` (``y``).
    label : str, optional
        Column of a table that holds the labels; never a feature.
    domain : {"vectors", "images", "dna"}, optional
        Instead of the domain that `find_domain` sees.
    drop, one_hot : sequence of str
        Columns of a table to leave out, and to encode as one indicator column per category.
    impute : {"none", "median"}
        Missing values: refused, or left as NaN in `Dataset.x` for the model, which holds the medians.
    schema : dict, optional
        ``Dataset.schema`` of the data that a run was fitted on: this file has to give the same columns, whatever
        their order. Labels are optional then, a single row is enough, and rows too few to split stay unsplit.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        One line: what was given, what was expected, what to do.
    MissingExtra
        Parquet without pyarrow.
    """
    request, domain = _request(label, domain, drop, one_hot, impute, schema)
    name = str(source)
    found = _read(name, request)
    kind = find_domain(found.x, domain, name)
    names = found.names if kind == "vectors" else None
    x = as_vectors(found.x, names, request.impute, name) if kind == "vectors" else np.ascontiguousarray(found.x)
    own_schema = {
        **(found.table or {"columns": None, "one_hot": {}, "drop": [], "label": None}),
        "domain": kind,
        "impute": request.impute,
        "row_shape": list(x.shape[1:]),
        "feature_names": names,
    }
    if schema is not None:
        _check_schema(x, names, schema, name)
    y = None if found.y is None else check_labels(found.y, len(x), f"y in {name}")
    train, test, split = _split(len(x), y, found.n_train, name, fresh=schema is None)
    dataset = Dataset(
        x=x,
        y=y,
        train_index=train,
        test_index=test,
        split=split,
        domain=kind,
        source=name,
        feature_names=names,
        schema=own_schema if schema is None else schema,
        label_name=own_schema["label"],
    )
    if schema is None:
        _check_train_rows(dataset)
    return dataset


def _request(
    label: str | None,
    domain: str | None,
    drop: Sequence[str],
    one_hot: Sequence[str],
    impute: str,
    schema: dict[str, Any] | None,
) -> tuple[Request, str | None]:
    if impute not in get_args(Impute):
        raise InputError(f"unknown impute {one_line(impute, 60)!r}, expected one of {name_list(get_args(Impute))}")
    for option, value in (("drop", drop), ("one_hot", one_hot)):
        if isinstance(value, str):
            raise InputError(f"{option} is the text {one_line(value, 60)!r}, expected a list of column names")
    if schema is None:
        return Request(label, tuple(drop), tuple(one_hot), impute), domain  # type: ignore[arg-type]
    for option, given, fitted in (
        ("domain", domain, schema["domain"]),
        ("drop", list(drop) or None, schema["drop"]),
        ("one_hot", list(one_hot) or None, list(schema["one_hot"])),
        ("impute", None if impute == "none" else impute, schema["impute"]),
    ):
        if given is not None and given != fitted:
            raise InputError(
                f"{option}={one_line(given, 60)}, but the run was fitted with {one_line(fitted, 60)}; leave it out"
            )
    return Request(label, impute=schema["impute"], schema=schema), schema["domain"]


def _read(name: str, request: Request) -> Found:
    if name in BUILTIN:
        return read_builtin(name, request)
    path = Path(name)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        if not path.suffix and not path.exists():
            hint = known_names(name, BUILTIN, "built-in")
            raise InputError(f"unknown data set {one_line(name, 100)!r}; {hint}, or give a file: {' '.join(READERS)}")
        given = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise InputError(f"{name} has {given}; known are {' '.join(READERS)} and the built-in {', '.join(BUILTIN)}")
    if not path.is_file():
        raise InputError(
            f"{name} is {'a folder' if path.is_dir() else 'no existing file'}; expected a {path.suffix} file"
        )
    return reader(path, request)


def _check_schema(x: np.ndarray, names: list[str] | None, schema: dict[str, Any], what: str) -> None:
    """Refuse rows of another shape than the run was fitted on, and columns of other names."""
    expected = tuple(schema["row_shape"])
    if x.shape[1:] != expected:
        if len(expected) == 1:
            raise InputError(
                f"{what} has {counted(x.shape[1], 'feature')} a row, but the run was fitted on {expected[0]}"
            )
        raise InputError(f"{what} has rows of shape {x.shape[1:]}, but the run was fitted on {expected}")
    fitted = schema["feature_names"]
    if names is not None and fitted is not None and names != fitted:
        i = next(i for i, pair in enumerate(zip(names, fitted, strict=True)) if pair[0] != pair[1])
        raise InputError(
            f"{what}: feature {i} (counted from 0) is {one_line(names[i], 60)}, but the run was fitted on "
            f"{one_line(fitted[i], 60)} there; give the same features in the same order"
        )


def _split(
    n: int, y: np.ndarray | None, n_train: int | None, what: str, fresh: bool
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    rows = np.arange(n)
    if n_train is not None:
        return rows[:n_train], rows[n_train:], "given"
    if y is None or (fresh and n == 1):
        return rows, None, "none"
    try:
        return *split_indices(y), "stratified"
    except InputError as error:
        if fresh:
            raise InputError(f"{what}: {error}") from error
        # A run may embed a handful of new rows; only what needs a split has to refuse them.
        warnings.warn(f"{what}: all rows taken as one part, because {error}", UserWarning, stacklevel=3)
        return rows, None, "none"


def _check_train_rows(dataset: Dataset) -> None:
    """Rules for rows to fit on; new rows for a fitted run may be one, or all the same."""
    x, names, what = dataset.x_train, dataset.feature_names, dataset.source
    if len(x) < 2:
        raise InputError(f"{what} has {counted(len(x), 'row')} for training (n_samples={len(x)}), expected at least 2")
    if dataset.domain != "vectors":
        return
    empty = np.isnan(x).all(axis=0)
    if empty.any():
        found = [names[i] if names else int(i) for i in np.flatnonzero(empty)]
        raise InputError(
            f"{what}: {counted(len(found), 'column')} without a single value in the train rows: {name_list(found)}; "
            "leave them out (--drop)"
        )
    warn_columns(x, names, what)
