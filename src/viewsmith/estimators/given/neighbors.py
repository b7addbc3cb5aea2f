"""The neighbor graph that a user gives to `fit`: checked, and as view makers take it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from scipy import sparse

from viewsmith.core.errors import InputError
from viewsmith.views.neighbor_graph import PrecomputedGraph

EXPECTED = "expected a sparse matrix (n, n) or an integer array (n, k) of row numbers, for the n rows of X"


def read_neighbors(given: Any, n_rows: int) -> PrecomputedGraph | None:
    """The graph of `n_rows` rows from what the user gave as `neighbors`; None if nothing.

    Every entry that is stored is an edge, whatever its value; a row is not its own neighbor.

    Raises
    ------
    InputError
        It is neither matrix nor array, is of other rows, or has no edges.
    """
    if given is None:
        return None
    matrix = _of_matrix(given, n_rows) if sparse.issparse(given) else _of_array(given, n_rows)
    rows, ends = matrix.nonzero()
    others = rows != ends
    rows, ends = rows[others], ends[others]
    if len(ends) == 0:
        raise InputError("neighbors has no edges between different rows: leave it out to have nearest rows searched")
    degrees = np.bincount(rows, minlength=n_rows)
    offsets = torch.from_numpy(np.concatenate([[0], degrees.cumsum()]).astype(np.int64))
    return PrecomputedGraph(offsets, torch.from_numpy(ends.astype(np.int64)))


def graph_record(graph: PrecomputedGraph | None) -> dict[str, str]:
    """The entry of a graph in a configuration: a fingerprint of its edges; empty without a graph."""
    if graph is None:
        return {}
    digest = hashlib.sha256(graph.offsets.numpy().tobytes())
    digest.update(graph.ends.numpy().tobytes())
    return {"neighbors": digest.hexdigest()[:16]}


def _of_matrix(given: Any, n_rows: int) -> Any:
    if given.shape != (n_rows, n_rows):
        raise InputError(f"neighbors is a sparse matrix {given.shape}, and X has {n_rows} rows: {EXPECTED}")
    found = sparse.csr_array(given, copy=True)
    try:
        found.check_format()
    except ValueError as error:
        raise InputError(f"neighbors is damaged ({error}): {EXPECTED}") from None
    if not np.isfinite(found.data).all():
        raise InputError("neighbors has values that are not finite (NaN or infinite): leave those edges out")
    found.sum_duplicates()
    found.data = np.ones(len(found.data), dtype=np.int8)  # a distance of zero is an edge, too
    return found


def _of_array(given: Any, n_rows: int) -> Any:
    array = np.asarray(given)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        what = f"{type(given).__name__} of {array.dtype} {array.shape}"
        hint = "; give scipy.sparse.csr_array(neighbors)" if array.shape == (n_rows, n_rows) else ""
        raise InputError(f"neighbors is {what}, {EXPECTED}{hint}")
    if len(array) != n_rows or array.shape[1] == 0:
        raise InputError(f"neighbors is an array {array.shape}, and X has {n_rows} rows: {EXPECTED}")
    wrong = (array < 0) | (array >= n_rows)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"neighbors has {array[row, column]} in row {row}, expected row numbers from 0 to {n_rows - 1}; where rows "
            "have different numbers of neighbors, give a sparse matrix"
        )
    rows = np.repeat(np.arange(n_rows), array.shape[1])
    edges = sparse.csr_array(
        (np.ones(array.size, dtype=np.int32), (rows, array.ravel().astype(np.int64))), shape=(n_rows, n_rows)
    )
    edges.sum_duplicates()
    return edges
