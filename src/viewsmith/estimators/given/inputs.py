"""What users give as samples, as an array or a matrix that a domain reads: AnnData objects, map-style datasets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, one_line, warn
from viewsmith.data.map_style import collect, is_map_style
from viewsmith.data.readers.cells import WHAT, is_anndata, matrix_of
from viewsmith.domains.counts import NORMALIZED, check_counts, log_normalize, looks_like_counts, warn_counts
from viewsmith.domains.tables.array import table_of
from viewsmith.domains.tables.protocols import speaks_table
from viewsmith.estimators.arguments import Arguments
from viewsmith.estimators.build.plan import Resolved


class Given(NamedTuple):
    """Samples to fit on, names of their features if they have any, and whether counts were log-normalized."""

    X: Any
    names: list[str] | None
    normalization: Literal["log", "none"]


def given_to_fit(X: Any, options: Arguments, context: Mapping[str, Any] | None) -> Given:
    """Samples to fit on.

    Parameters
    ----------
    X : array-like, AnnData or map-style dataset
    options : Arguments
    context : mapping, optional
        The record of rows that `viewsmith.data.load_dataset` has read, with the options of AnnData objects.

    Raises
    ------
    InputError
        The name of a file, options of AnnData objects for another object, a missing layer or representation, values
        that are not counts, roles of columns for samples without named columns.
    """
    _check_no_path(X)
    if context is not None and "source" in context.get("data", {}) and not is_anndata(X):
        # The reader of the file has given its columns their roles, and plain numbers have lost their names since.
        return Given(X, context.get("feature_names"), context.get("normalization", "none"))
    given = _cells_to_fit(X, options) if is_anndata(X) else _others_to_fit(X, options, context)
    if options.columns and not speaks_table(given.X) and table_of(given.X) is None:
        raise InputError(
            f"columns gives roles to {name_list(list(options.columns))}, but the data are {type(given.X).__name__} "
            "without named columns: give a DataFrame, or leave columns out"
        )
    return given


def domain_name(options: Arguments, context: Mapping[str, Any] | None) -> str:
    """The domain of samples to fit on: the option, or else that which a file was read as, or else "auto"."""
    if options.domain != "auto" or context is None:
        return options.domain
    return str(context.get("data", {}).get("domain", "auto"))


def given_to_model(X: Any, options: Arguments, resolved: Resolved) -> Any:
    """Samples for a fitted model, read as those of its fit.

    Raises
    ------
    InputError
        The name of a file; a missing layer, representation or feature; counts in an array for a model of log-normalized
        counts.
    """
    _check_no_path(X)
    log = resolved.normalization == "log"
    if is_anndata(X):
        matrix, _ = matrix_of(X, options.layer, options.use_rep, resolved.feature_names or None)
        if log:
            check_counts(matrix, _place(options))
        elif options.normalization == "auto" and options.use_rep is None:
            warn_counts(matrix, _place(options))
        return _floats(log_normalize(matrix) if log else matrix)
    if is_map_style(X):
        X = collect(X)
    matrix = _matrix_of_table(X, resolved.feature_names) if log and speaks_table(X) else X
    if log and _is_matrix(matrix) and looks_like_counts(matrix):
        raise InputError(
            "the data are raw counts, and the model was fitted on counts that were log-normalized: give the AnnData, "
            "or viewsmith.domains.log_normalize(X)"
        )
    return X


def _check_no_path(X: Any) -> None:
    """Refuse names of files in place of samples: text would be read as DNA."""
    first = X[0] if isinstance(X, list | tuple) and len(X) else X
    if isinstance(first, os.PathLike) or (isinstance(first, str) and os.path.exists(first)):
        many = "a list of file names" if first is not X else "the name of a file or folder"
        raise InputError(
            f"the data are {many}, such as {one_line(first, 60)!r}, expected samples: read the file or folder with "
            "viewsmith.data.load_dataset(path), and give its x_train"
        )


def _cells_to_fit(cells: Any, options: Arguments) -> Given:
    matrix, names = matrix_of(cells, options.layer, options.use_rep)
    if options.normalization == "log":
        check_counts(matrix, _place(options))
    elif options.normalization == "auto" and names is not None and looks_like_counts(matrix):
        warn(f"{_place(options)} has {NORMALIZED}")
    else:
        return Given(_floats(matrix), names, "none")
    return Given(log_normalize(matrix), names, "log")


def _others_to_fit(X: Any, options: Arguments, context: Mapping[str, Any] | None) -> Given:
    """Samples to fit on that are neither an AnnData nor of a file."""
    for name, value, default in (
        ("layer", options.layer, None),
        ("use_rep", options.use_rep, None),
        ("normalization", options.normalization, "auto"),
    ):
        if value not in (default, "none"):
            raise InputError(
                f"{name} is {one_line(value, 60)!r}, which is for an AnnData, but X is of type {type(X).__name__}: "
                f"leave {name} out"
                + (" and give viewsmith.domains.log_normalize(X)" if name == "normalization" else "")
            )
    names = None if context is None else context.get("feature_names")
    if names is None and speaks_table(X):
        names = _names_of_columns(list(getattr(X, "columns", ())))
    return Given(collect(X) if is_map_style(X) else X, names, "none")


def _names_of_columns(columns: list[Any]) -> list[str] | None:
    """Names that scikit-learn does not keep, because they are no text; 0, 1, ... in order are none."""
    if columns == list(range(len(columns))) or all(isinstance(name, str) for name in columns):
        return None
    return [str(name) for name in columns]


def _place(options: Arguments) -> str:
    """The matrix of an AnnData in messages."""
    return f"X of {WHAT}" if options.layer is None else f"layer {one_line(options.layer, 60)!r} of {WHAT}"


def _floats(matrix: Any) -> Any:
    # Counts of 8 bits in an array would be taken for letters or pixels.
    return matrix.astype(np.float32) if matrix.dtype == np.uint8 else matrix


def _matrix_of_table(table: Any, names: list[str]) -> np.ndarray:
    """The columns of a table that are features of the model."""
    from viewsmith.domains.tables.frame import as_frame

    frame = as_frame(table, "the DataFrame")
    return frame[[name for name in names if name in frame.columns]].to_numpy()


def _is_matrix(X: Any) -> bool:
    return getattr(X, "ndim", 0) == 2 and (isinstance(X, np.ndarray) or hasattr(X, "tocsr")) and X.dtype.kind in "biuf"
