"""Checks of data from files and from Python: shape, dtype, missing and infinite values, labels."""

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, check_unique, name_list, one_line, pluralize, warn
from viewsmith.core.registry import Impute
from viewsmith.core.rows import BLOCK_VALUES, AnyRows, RowSource

# Values that float32 must tell apart in a column; with fewer a warning is given.
LEVELS = 64


class _NotNumbers(InputError, TypeError):
    """Python objects instead of numbers; scikit-learn's estimator checks expect a TypeError."""


def to_rows(X: Any) -> tuple[np.ndarray, list[str] | None]:
    """Convert array-like samples to a numpy array."""
    pandas, torch, sparse = (sys.modules.get(name) for name in ("pandas", "torch", "scipy.sparse"))
    names: list[str] | None = None
    if pandas is not None and isinstance(X, pandas.DataFrame):
        rows, names = _frame_rows(X)
    elif torch is not None and isinstance(X, torch.Tensor):
        dense = X.detach().cpu().to_dense() if X.layout != torch.strided else X.detach().cpu()
        # numpy has no bfloat16.
        rows = (dense.float() if dense.dtype == torch.bfloat16 else dense).resolve_conj().numpy()
    elif sparse is not None and sparse.issparse(X):
        check_numbers(X, "the sparse matrix")
        with np.errstate(over="ignore"):
            rows = X.astype(np.float32).toarray(order="C")
    elif np.ma.isMaskedArray(X):
        rows = np.ma.filled(X.astype(np.float64), np.nan)
    else:
        rows = _array_rows(X)
    check_array(rows)
    return rows, names


def check_names(frame: Any) -> None:
    """Raise InputError for a DataFrame whose columns are named by text and by other things."""
    text = [name for name in frame.columns if isinstance(name, str)]
    other = [name for name in frame.columns if not isinstance(name, str)]
    if text and other:
        raise _NotNumbers(
            f"the DataFrame has column names that are text, such as {one_line(repr(text[0]), 40)}, and others, such as "
            f"{one_line(repr(other[0]), 40)}, expected text alone: X.columns = X.columns.astype(str)"
        )


def check_container(X: Any) -> None:
    """Raise InputError for a DataFrame with columns that are not numbers, a table without rows yet, and an AnnData."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        check_names(X)
        if X.columns.is_unique:
            from viewsmith.modalities.frames import check_no_text

            advice = "leave them out, X.select_dtypes('number'), or encode them, pandas.get_dummies(X)"
            check_no_text(X, list(X.columns), "the DataFrame", advice)
    elif hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise InputError(
            f"the data are a {type(X).__name__}, a query whose rows are not computed yet: give X.collect()"
        )
    elif all(hasattr(X, name) for name in ("obs", "obsm", "layers")):
        raise InputError(
            f"the data are of type {type(X).__name__}, expected a matrix: give adata.X or adata.obsm['X_pca'], or the "
            ".h5ad file on the command line"
        )


def check_numbers(x: Any, source_name: str = "the data") -> None:
    """Raise InputError unless the dtype of `x` is boolean, integer or real."""
    kind = x.dtype.kind
    if kind == "c":
        raise InputError(
            f"Complex data not supported: {source_name} has dtype {x.dtype}; split it into real and imaginary part"
        )
    if kind == "O" and x.ndim == 0:  # what numpy can't read
        sparse = "; give X.toarray()" if hasattr(x.item(), "toarray") else ""
        raise InputError(f"{source_name} has the type {type(x.item()).__name__}, expected an array of numbers{sparse}")
    if kind not in "biuf":
        advice = "give pandas.DataFrame(X)" if x.dtype.names else "encode text and dates as numbers first"
        raise InputError(f"{source_name} has dtype {one_line(x.dtype, 60)}, expected numbers; {advice}")


def check_array(x: AnyRows, source_name: str = "the data") -> None:
    """Raise InputError for a dtype or a shape that no modality has."""
    check_numbers(x, source_name)
    if x.ndim < 2:
        raise InputError(
            f"{source_name} has {pluralize(x.ndim, 'dimension')}, expected rows of features, shape (n, d). Reshape "
            "your data: X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for a single row"
            + (f"; one long recording: {in_pieces(1, len(x))}" if x.ndim and len(x) >= LONG else "")
        )
    if x.ndim > 4:
        raise InputError(
            f"{source_name} has {x.ndim} dimensions, shape {x.shape}; expected 2 (vectors, DNA), 3 or 4 (images)"
            + "; of moments (n, time, H, W, C) these are channels: X.transpose(0, 2, 3, 1, 4).reshape(n, H, W, -1)"
            * (x.ndim == 5)
        )
    if len(x) == 0:
        raise InputError(f"{source_name} has no rows: 0 sample(s) (shape={x.shape}) while a minimum of 1 is required")
    if 0 in x.shape:
        raise InputError(
            f"{source_name} has 0 feature(s) (shape={x.shape}) while a minimum of 1 is required; give a column"
        )


LONG = 1000  # points, from which on an array may be one long recording


def in_pieces(channels: int, points: int, *, time_first: bool = False) -> str:
    """What cuts one long recording, (channels, time), (time, channels) or of one channel (time,), into samples."""
    length = max(8, min(LONG, points // 10))
    whole = points // length * length
    cut = f"cut it into samples by --length {length}, or in Python, with modality='series' (--modality series): "
    if channels == 1:
        return f"{cut}X.ravel()[:{whole}].reshape(-1, 1, {length})"
    if time_first:
        return f"{cut}X[:{whole}].reshape(-1, {length}, {channels}).transpose(0, 2, 1)"
    return f"{cut}X[:, :{whole}].reshape({channels}, -1, {length}).transpose(1, 0, 2)"


def as_vectors(
    x: np.ndarray, names: list[str] | None = None, impute: Impute = "none", source_name: str = "the data"
) -> np.ndarray:
    """Rows, flattened and checked, as float32 vectors (n, d), C-contiguous; they share memory with `x` if they can."""
    flat = x.reshape(len(x), -1)
    check_finite(flat, names, impute, source_name)
    warn_lost_digits(flat, names, source_name)
    return np.ascontiguousarray(flat, dtype=np.float32)


def check_finite(
    x: AnyRows, names: list[str] | None = None, impute: Impute = "none", source_name: str = "the data"
) -> None:
    """Check for infinite values and, unless they are imputed, missing values."""
    if x.dtype.kind != "f" or (isinstance(x, RowSource) and x.complete):
        return
    # Counts by column, over blocks of rows.
    infinite, missing, too_large = 0, 0, True
    in_blocks = x.stored_blocks() if isinstance(x, RowSource) else np.array_split(x, x.size // BLOCK_VALUES + 1)
    for stored in in_blocks:
        block: Any = stored
        if not isinstance(stored, np.ndarray):
            if np.isfinite(stored.data).all():
                continue
            block = stored.toarray()
        with np.errstate(over="ignore"):
            single = block.astype(np.float32, copy=False)
        if np.isfinite(single).all():
            continue
        infinite = infinite + np.isinf(single).sum(axis=0)
        missing = missing + np.isnan(single).sum(axis=0)
        too_large = too_large and not np.isinf(block).any()
    if np.any(infinite):
        per_column = np.asarray(infinite)
        if too_large:
            kind = pluralize(int(per_column.sum()), "value") + " too large for float32 (infinity beyond 3.4e38)"
        else:
            kind = pluralize(int(per_column.sum()), "infinite value") + " (infinity)"
        way = "replace them or remove those rows" + ("" if names is None else ", or leave the columns out (--drop)")
        raise InputError(f"{source_name}: {kind} in {_columns(per_column, names)}; {way}")
    if impute == "none":
        check_missing(np.asarray(missing), names, source_name)
    if isinstance(x, RowSource):
        x.complete = not np.any(missing)


def check_missing(per_column: np.ndarray, names: list[str] | None, source_name: str) -> None:
    """Raise InputError if any of the counts of missing values, shape (d,), is not zero."""
    if per_column.any():
        raise InputError(
            f"{source_name}: {pluralize(int(per_column.sum()), 'missing value')} (NaN) in "
            f"{_columns(per_column, names)}; fill them, or fit the model with impute='median' (fit --impute median), "
            "which takes the median of their column, also in later data"
        )


def match_columns(
    found: Sequence[str],
    fitted: Sequence[str],
    known: Collection[Any],
    source_name: str,
    *,
    noun: str = "column",
    model: str = "model",
    advice: str = "",
) -> None:
    """Raise InputError if a later table lacks columns, and warn of columns that are not `known`."""
    there = set(found)
    if missing := [name for name in fitted if name not in there]:
        raise InputError(
            f"{source_name} lacks {pluralize(len(missing), noun)} that the {model} was fitted on: "
            f"{name_list(missing)}; it has {name_list(found)}{advice}"
        )
    if extra := [name for name in found if name not in known]:
        warn(
            f"{source_name}: {pluralize(len(extra), noun)} that the {model} does not know, ignored: {name_list(extra)}"
        )


def check_labels(y: np.ndarray, n_rows: int, source_name: str = "y") -> np.ndarray:
    """Labels as integers, booleans or text, shape (n,)."""
    if y.ndim != 1:
        raise InputError(f"{source_name} has shape {y.shape}, expected one label per row, shape ({n_rows},)")
    if len(y) != n_rows:
        counts = f"{pluralize(len(y), 'label')} for {pluralize(n_rows, 'row')}"
        raise InputError(f"{source_name} has {counts}; expected one per row")
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8", "replace")
    if y.dtype.kind == "f":
        missing = int(np.isnan(y).sum())
        if missing:
            raise InputError(
                f"{source_name} has {pluralize(missing, 'missing label')} (NaN); label every row, or leave "
                f"{source_name} out"
            )
        broken = y[~(np.abs(y) < 2.0**53) | (y != np.round(y))]
        if len(broken):
            raise InputError(
                f"{source_name} contains {broken[0]}, expected classes: integers, booleans or text, not a continuous "
                "target; leave it out (a column NAME of a table: --columns NAME=drop)"
            )
        return y.astype(np.int64)
    if y.dtype.kind == "u" and len(y) and y.max() > np.iinfo(np.int64).max:
        raise InputError(
            f"{source_name} contains {y.max()}, beyond the range of int64; is it -1, no label, that became unsigned? "
            "y.astype('int64') makes it -1 again; else give other numbers, or text"
        )
    if y.dtype.kind not in "biuU":
        raise InputError(f"{source_name} has dtype {y.dtype}, expected classes (integers, booleans or text)")
    return y.astype(y.dtype.newbyteorder("="), copy=False)


def warn_columns(
    x: AnyRows,
    names: list[str] | None = None,
    source_name: str = "the data",
    ranges: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Warn if vectors, (n, d), have one feature or constant columns; `ranges` are their `column_ranges`, if known."""
    if x.shape[1] == 1:
        warn(f"{source_name}: only one feature (n_features=1)")
    low, high = ranges or column_ranges(x)
    constant = ~(low < high)
    if constant.any():
        found = _columns(constant, names, "constant column")
        warn(f"{source_name}: {found}, ignored")


def warn_lost_digits(x: np.ndarray, names: list[str] | None = None, source_name: str = "the data") -> None:
    """Warn of columns, (n, d), so far from 0 that a step of float32 is more than 1 / `LEVELS` of their range."""
    if x.dtype.kind not in "iuf" or x.dtype.itemsize < 4 or x.dtype == np.float32:
        return
    low, high = (values.astype(np.float64) for values in column_ranges(x))
    largest = np.fmax(np.abs(low), np.abs(high))
    steps = np.ldexp(1.0, np.frexp(np.where(np.isfinite(largest), largest, 1))[1] - 24)  # between numbers of float32
    lost = (high > low) & (steps * LEVELS > high - low)
    if lost.any():
        first = int(np.argmax(lost))
        warn(
            f"{source_name}: float32, in which rows are kept, hardly tells the values of {_columns(lost, names)} apart "
            f"({low[first]:.10g} to {high[first]:.10g}, in steps of {steps[first]:g}); subtract an offset, for "
            f"instance {low[first]:.10g}"
        )


def warn_nearly_equal(values: Iterable[str], source_name: str) -> None:
    """Warn of distinct texts that differ in case or spaces at their ends alone, and are therefore different classes."""
    alike: dict[str, list[str]] = {}
    for value in sorted(values):
        alike.setdefault(value.strip().casefold(), []).append(value)
    doubled = [group for group in alike.values() if len(group) > 1]
    if doubled:
        warn(
            f"{source_name}: {pluralize(len(doubled), 'value')} in forms that differ in case or outer spaces, such as "
            f"{' and '.join(repr(value) for value in doubled[0][:2])}, taken as different: write them alike unless "
            "the difference is meant"
        )


def column_ranges(x: AnyRows) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of each column, (d,) each; NaN is ignored, and is the result where there is no value."""
    # fmin and fmax skip NaN without the warning that nanmin gives for a column of NaN.
    low, high = [], []
    for stored in x.stored_blocks() if isinstance(x, RowSource) else [x]:
        block: Any = stored
        dense = isinstance(stored, np.ndarray)
        low.append(np.fmin.reduce(stored, axis=0) if dense else block.nanmin(axis=0).toarray().ravel())
        high.append(np.fmax.reduce(stored, axis=0) if dense else block.nanmax(axis=0).toarray().ravel())
    return np.fmin.reduce(low, axis=0), np.fmax.reduce(high, axis=0)


def _columns(marked: np.ndarray, names: list[str] | None, noun: str = "column") -> str:
    found = np.flatnonzero(marked)
    where = "" if names is not None else " (counted from 0)"
    return f"{pluralize(len(found), noun)}{where}: {name_list([i if names is None else names[i] for i in found])}"


def _frame_rows(frame: Any) -> tuple[np.ndarray, list[str] | None]:
    from viewsmith.modalities import frames

    columns = [str(column) for column in frame.columns]
    named = any(isinstance(column, str) for column in frame.columns)
    check_unique(columns, "the DataFrame has columns with equal names")
    frame = frame.set_axis(columns, axis=1)
    frames.check_no_text(frame, columns, "the DataFrame")
    return frames.values(frame), columns if named else None


def _array_rows(X: Any) -> np.ndarray:
    try:
        rows = np.asarray(X)
        if rows.dtype.kind in "OUS":
            text = next((value for value in rows.flat if isinstance(value, str | bytes)), None)
            if text is not None:
                example = one_line(repr(text.item() if isinstance(text, np.generic) else text), 60)
                raise InputError(f"the data contain text, such as {example}, expected numbers: {_advice(X, rows)}")
            rows = rows.astype(np.float64)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        samples: Any = X.flat if isinstance(X, np.ndarray) else X if isinstance(X, list | tuple) else []
        shapes = list(dict.fromkeys(getattr(sample, "shape", None) for sample in samples))
        if len(shapes) > 1 and None not in shapes:
            raise _NotNumbers(
                f"the samples have different shapes, such as {shapes[0]} and {shapes[1]}, expected equal ones: name "
                "recordings (modality='series'), resize or crop others first"
            ) from error
        todo = "expected rows, such as an array (n, d), a DataFrame, or x_train of what load_dataset returns"
        if isinstance(X, dict) or (isinstance(X, list) and X and isinstance(X[0], dict)):
            todo = "give pandas.DataFrame(X)"
        elif hasattr(X, "__len__") and hasattr(X, "__getitem__") and not isinstance(X, list | tuple | np.ndarray):
            todo = "if it is a dataset, derive its class from torch.utils.data.Dataset"
        raise _NotNumbers(
            f"cannot convert the data, of type {type(X).__name__}, to an array of numbers: {one_line(error, 150)}; "
            f"{todo}"
        ) from error
    return rows


def _advice(X: Any, rows: np.ndarray) -> str:
    """What to do with samples of text."""
    if isinstance(X, list) and (hasattr(X[0], "seq") or type(X[0]).__name__ == "Seq"):
        return (
            f"give letters as text, [str({'record.seq) for record' if hasattr(X[0], 'seq') else 'seq) for seq'} in X]"
        )
    try:
        rows.astype(np.float64)
    except (TypeError, ValueError):
        return "give a DataFrame of pandas, whose columns of text are encoded, or encode it as numbers first"
    return "give X.astype(float), because all of it can be read as numbers"
