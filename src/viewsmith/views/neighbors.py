"""Exact nearest neighbors by matrix products in blocks, on the device of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.losses.nt_xent import squared_distances, unit
from viewsmith.networks.inputs.scaling import PrincipalAxes


@torch.no_grad()
def nearest_neighbors(
    x: Tensor,
    k: int,
    *,
    queries: Tensor | None = None,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    block: int = 2048,
) -> Tensor:
    """Indices of the rows of `x` that are nearest to each query, the nearest first.

    Memory use is ``block * n`` floats.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    k : int
        At most n with `queries`, n - 1 without; larger values are reduced.
    queries : Tensor, shape (m, d), optional
        Default: the rows of `x`; a row is then not its own neighbor.
    metric : {"euclidean", "cosine"}
    block : int
        Queries processed at a time.

    Returns
    -------
    Tensor of int64, shape (m, k)
    """
    without_queries = queries is None
    rows = x if without_queries else queries
    assert rows is not None
    k = min(k, len(x) - 1 if without_queries else len(x))
    if metric == "cosine":
        x, rows = unit(x), unit(rows)
    found = torch.empty(len(rows), k, dtype=torch.int64, device=x.device)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        # Cosines, because by the distance of normalized rows a row of zeros would be nearer than an orthogonal one.
        distances = -(part @ x.T) if metric == "cosine" else squared_distances(part, x)
        if without_queries:
            itself = torch.arange(len(part), device=x.device)
            distances[itself, itself + start] = float("inf")
        found[start : start + block] = distances.topk(k, dim=1, largest=False).indices
    return found


@torch.no_grad()
def outliers(views: Tensor, index: Tensor, pool: Tensor, k: int = 10) -> Tensor:
    """Which views are outside their sample's neighborhood.

    Parameters
    ----------
    views : Tensor, shape (B, d)
        Representations of the views.
    index : Tensor of int64, shape (B,)
        Rows of the pool that they are views of.
    pool : Tensor, shape (n, d)
        Representations of the samples.
    k : int

    Returns
    -------
    Tensor of bool, shape (B,)
        True if the row of the pool nearest to a view is neither its sample nor one of the sample's k nearest rows.
    """
    nearest = nearest_neighbors(pool, 1, queries=views)
    neighborhood = nearest_neighbors(pool, k + 1, queries=pool[index])  # includes the sample itself
    return ~((neighborhood == nearest).any(dim=1) | (index == nearest[:, 0]))


class PrincipalSpace:
    """The space in which neighbors of images and DNA are searched: leading principal axes of pixels or k-mers.

    Parameters
    ----------
    features : callable
        Scaled samples (n, ...) to features (n, d).
    components : int
        Number of axes, at most the number of rows and features.
    """

    def __init__(self, features: Callable[[Tensor], Tensor], components: int = 50) -> None:
        self.features, self.components = features, components
        self.axes: PrincipalAxes | None = None

    def fit(self, pool: Rows) -> Tensor:
        """Fit the axes to the pool, (n, ...); returns its coordinates, (n, k)."""
        rows = apply_in_blocks(self.features, pool)
        self.axes = PrincipalAxes(rows.shape[1], min(self.components, *rows.shape)).to(rows)
        self.axes.fit(rows)
        return self.axes(rows)

    def release(self) -> None:
        """Free the axes, which for a small pool take nearly as much memory as the pool."""
        self.axes = None

    def __call__(self, x: Tensor) -> Tensor:
        assert self.axes is not None
        return self.axes(self.features(x))
