"""Tools for AnnData objects, called as scanpy's are: ``viewsmith.tl.embed(adata)``."""

from typing import Any

import numpy as np

from viewsmith.core import __version__
from viewsmith.core.errors import InputError
from viewsmith.core.registry import find
from viewsmith.data.readers.h5ad import neighbors_of
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.options import check_options, route_options
from viewsmith.methods import loading  # noqa: F401, every method is registered
from viewsmith.modalities.tables import is_anndata


def embed(
    adata: Any,
    method: str = "contrastive",
    key_added: str = "X_viewsmith",
    layer: str | None = None,
    use_rep: str | None = None,
    neighbors_key: str | None = None,
    **options: Any,
) -> ViewsmithEstimator:
    """Learn representations of cells, and write them to ``adata.obsm[key_added]``.

    For few labels and neighbors. For clusters by k-means, principal components were better on cells (docs/tables.md).

    Parameters
    ----------
    adata : AnnData, n cells
        Gets ``obsm[key_added]``, float32 (n, d), and ``uns[key_added]`` with method, version, parameters and what fit
        made of them.
    method : str
        Name of a method; `viewsmith methods` lists them.
    key_added : str
        Give it to scanpy: ``sc.pp.neighbors(adata, use_rep=key_added)``.
    layer, use_rep : str, optional
        Key of ``layers`` or of ``obsm`` to use in place of ``X``.
    neighbors_key : str, optional
        Neighbor graph for views of neighbors in place of a search: ``neighbors_key`` of scanpy, or a key of ``obsp``.
    **options
        Options of the method and its parts, such as ``epochs``, ``normalization``, ``view_maker``, ``mask_rate``. The
        default of ``random_state`` is 0.

    Returns
    -------
    ViewsmithEstimator
        The fitted model, for further cells (``model.transform(others)``) and to be saved.

    Raises
    ------
    InputError
        `adata` is not an AnnData, or has no such layer, representation or graph; invalid options.
    """
    if not is_anndata(adata):
        raise InputError(
            f"adata is of type {type(adata).__name__}, expected an AnnData: use an estimator, viewsmith.Contrastive(), "
            "for arrays"
        )
    cls: type[ViewsmithEstimator] = find("method", method).build  # type: ignore[assignment]
    given = {"random_state": 0, "layer": layer, "use_rep": use_rep} | options
    model = check_options(cls, *route_options(cls, given, "vectors"))
    graph = None if neighbors_key is None else neighbors_of(adata, neighbors_key)
    model.fit(adata, neighbors=graph)
    adata.obsm[key_added] = model.transform(adata)
    config = model.configuration()
    adata.uns[key_added] = {
        "method": method,
        "version": __version__,
        "params": _stored({"use_rep": use_rep, "layer": layer, "neighbors_key": neighbors_key} | config["parameters"]),
        "fitted": _stored(config["fitted"]),
    }
    return model


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Plain values in a form that .h5ad files hold: without None and empty containers, lists as arrays."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _stored(value)
        elif isinstance(value, list | tuple):
            value = np.asarray(value)
        if value is not None and not (isinstance(value, dict | np.ndarray) and len(value) == 0):
            made[name.replace("/", "_")] = value
    return made
