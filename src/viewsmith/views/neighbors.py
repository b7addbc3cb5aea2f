"""Exact nearest neighbors by blocked matrix products, on the device of the data."""

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
    """Rows of `x` nearest to each query, nearest first: int64, shape (m, k).

    Without `queries` the neighbors of the rows of `x` among the others (a row is not its own neighbor).
    Memory is ``block * n`` floats.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    k : int
        At most n - 1 (n with `queries`); larger values are cut to it.
    queries : Tensor, shape (m, d), optional
    metric : {"euclidean", "cosine"}
    block : int
        Queries handled at once.
    """
    own = queries is None
    rows = x if own else queries
    assert rows is not None
    k = min(k, len(x) - 1 if own else len(x))
    if metric == "cosine":
        x, rows = unit(x), unit(rows)
    found = torch.empty(len(rows), k, dtype=torch.int64, device=x.device)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        # Cosines themselves: distances of length-1 rows would put a row of zeros nearer than an orthogonal one.
        distances = -(part @ x.T) if metric == "cosine" else squared_distances(part, x)
        if own:
            here = torch.arange(len(part), device=x.device)
            distances[here, here + start] = float("inf")
        found[start : start + block] = distances.topk(k, dim=1, largest=False).indices
    return found


@torch.no_grad()
def outliers(places: Tensor, index: Tensor, pool: Tensor, k: int = 10) -> Tensor:
    """Which views have left their sample's neighborhood: bool (B,).

    True where the row of the pool nearest to a view is neither its sample nor one of the sample's k nearest rows.

    Parameters
    ----------
    places : Tensor, shape (B, d)
        Where the views lie.
    index : Tensor of int64, shape (B,)
        Rows of the pool that they are views of.
    pool : Tensor, shape (n, d)
    k : int
    """
    nearest = nearest_neighbors(pool, 1, queries=places)
    hood = nearest_neighbors(pool, k + 1, queries=pool[index])  # the sample itself comes first
    return ~((hood == nearest).any(dim=1) | (index == nearest[:, 0]))


class PrincipalSpace:
    """Where images and DNA have their neighbors: the leading principal axes of their pixels or words.

    Parameters
    ----------
    features : callable
        Scaled samples (n, ...) to features (n, d).
    components : int
        Number of axes, cut to what there is.
    """

    def __init__(self, features: Callable[[Tensor], Tensor], components: int = 50) -> None:
        self.features, self.components = features, components
        self.axes: PrincipalAxes | None = None

    def fit(self, pool: Rows) -> Tensor:
        """Take the axes of the pool; returns its coordinates, (n, k)."""
        rows = apply_in_blocks(self.features, pool)
        self.axes = PrincipalAxes(rows.shape[1], min(self.components, *rows.shape)).to(rows)
        self.axes.fit(rows)
        return self.axes(rows)

    def release(self) -> None:
        """Let go of the axes, which are nearly as large as the pool where that is small."""
        self.axes = None

    def __call__(self, x: Tensor) -> Tensor:
        assert self.axes is not None
        return self.axes(self.features(x))
