"""AnnData objects: the matrix to learn from, with the names of its features, and neighbor graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, one_line, suggest_names
from viewsmith.data.readers.h5ad import column_order

WHAT = "the AnnData"


def is_anndata(X: Any) -> bool:
    """Whether an object is an AnnData, or has its attributes; anndata is not imported."""
    return all(hasattr(X, name) for name in ("obsm", "obsp", "layers", "var_names"))


def matrix_of(
    cells: Any, layer: str | None, use_rep: str | None, fitted: Sequence[str] | None = None
) -> tuple[Any, list[str] | None]:
    """The matrix of an AnnData that a model reads.

    Parameters
    ----------
    cells : AnnData, n cells
    layer : str, optional
        Key of ``layers``, in place of ``X``.
    use_rep : str, optional
        Key of ``obsm``, or "X".
    fitted : sequence of str, optional
        Names of the features that a model was fitted on: columns are put in this order, others left out.

    Returns
    -------
    matrix : ndarray or scipy sparse matrix, shape (n, d)
    names : list of str, or None
        ``var_names`` of the columns; None for a representation.

    Raises
    ------
    InputError
        The AnnData has no such layer or representation (the message names those it has), no ``X``, or not the fitted
        features.
    """
    if layer is not None and use_rep is not None:
        raise InputError(
            f"layer is {one_line(layer, 60)!r} and use_rep {one_line(use_rep, 60)!r}, expected one of them: leave the "
            "other out"
        )
    if use_rep not in (None, "X"):
        return _in_memory(_find(cells.obsm, use_rep, "obsm key", "use_rep")), None
    matrix = cells.X if layer is None else _find(cells.layers, layer, "layer", "layer")
    if matrix is None:
        layers = name_list(list(cells.layers.keys())) or "none"
        raise InputError(f"{WHAT} has no X: give a layer (its layers: {layers}) or use_rep (a key of obsm)")
    names = [str(name) for name in cells.var_names]
    schema = None if fitted is None else {"columns": list(fitted), "one_hot": {}, "drop": []}
    order = column_order(names, schema, WHAT)
    matrix = _in_memory(matrix)
    return (matrix, names) if order is None else (matrix[:, order], list(fitted or []))


def neighbors_of(cells: Any, key: str) -> Any:
    """The neighbor graph of an AnnData, sparse (n, n).

    Parameters
    ----------
    cells : AnnData, n cells
    key : str
        ``neighbors_key`` of scanpy, an entry of ``uns`` that names the connectivities, or a key of ``obsp``.

    Raises
    ------
    InputError
        There is no such graph; the message names those there are.
    """
    entry = cells.uns.get(key)
    named = entry.get("connectivities_key") if isinstance(entry, Mapping) else None
    known = list(cells.obsp.keys())
    found = next((name for name in (named, key) if name in known), None)
    if found is None:
        there = (
            suggest_names(key, known, "its obsp keys are") if known else "it has none, run scanpy.pp.neighbors first"
        )
        raise InputError(f"{WHAT} has no neighbor graph {one_line(key, 60)!r} (neighbors_key); {there}")
    return cells.obsp[found]


def _find(there: Mapping[str, Any], key: Any, what: str, argument: str) -> Any:
    known = [str(name) for name in there]
    if key not in known:
        plural = f"its {what}s are"
        hint = suggest_names(str(key), known, plural) if known else f"it has none, leave {argument} out"
        raise InputError(f"{WHAT} has no {what} {one_line(key, 60)!r} ({argument}); {hint}")
    return there[key]


def _in_memory(matrix: Any) -> Any:
    """Rows of a backed AnnData as an array or a sparse matrix; others unchanged."""
    if hasattr(matrix, "to_memory"):
        return matrix.to_memory()
    return matrix if hasattr(matrix, "tocsr") else np.asarray(matrix)
