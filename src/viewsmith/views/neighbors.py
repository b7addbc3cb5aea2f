"""Exact nearest neighbors by matrix products in blocks, on the device of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.inputs.scaling import PrincipalAxes

Metric = Literal["euclidean", "cosine"]

# Largest number of distances computed at a time: with more than 32,768 rows, blocks of queries are smaller.
LARGEST_BLOCK = 1 << 26
# Squared distance of the mean from 0, as a multiple of the rows' variance, from which float32 products lose neighbors.
FAR = 100.0
# Columns per group in `_smallest`, and the number of columns from which groups are faster.
GROUPS, GROUPED_FROM = 8, 4096


@torch.no_grad()
def nearest_neighbors(
    x: Tensor,
    k: int,
    *,
    queries: Tensor | None = None,
    metric: Metric = "euclidean",
    block: int = 2048,
) -> Tensor:
    """Indices of the rows of `x` that are nearest to each query, the nearest first, by exact search.

    Memory use is ``block * n`` floats, at most 2^26, but at least n.

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
    x, rows = _precise(x, rows, metric)
    block = max(1, min(block, LARGEST_BLOCK // len(x)))
    norms = x.square().sum(1)
    # One buffer for all blocks, because new memory takes more time than computing the distances.
    buffer = x.new_empty(min(block, len(rows)), len(x))
    found = torch.empty(len(rows), k, dtype=torch.int64, device=x.device)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        distances = buffer[: len(part)]
        if metric == "cosine":
            # Cosines, because by distances of normalized rows a row of zeros is nearer than an orthogonal row.
            torch.mm(part, x.T, out=distances).neg_()
        else:
            torch.add(part.square().sum(1, keepdim=True), norms, out=distances)
            distances.addmm_(part, x.T, alpha=-2).clamp_min_(0)
        if without_queries:
            itself = torch.arange(len(part), device=x.device)
            distances[itself, itself + start] = float("inf")
        found[start : start + block] = _smallest(distances, k)
    return found


def _precise(x: Tensor, rows: Tensor, metric: Metric) -> tuple[Tensor, Tensor]:
    """Rows whose products tell neighbors apart; for the cosine, of length 1.

    Products of rows that are far from 0 for their differences lose these: distances do not depend on the mean, which is
    subtracted, and cosines are computed in float64.
    """
    if metric == "euclidean":
        return (x - x.mean(0), rows - x.mean(0)) if _far_from_zero(x) else (x, rows)
    found = unit(x)
    return (unit(x.double()), unit(rows.double())) if _far_from_zero(found) else (found, unit(rows))


def _far_from_zero(x: Tensor) -> bool:
    of_mean = x.mean(0).square().sum()
    variance = torch.linalg.vector_norm(x).square() / len(x) - of_mean
    return bool(of_mean > FAR * variance)


def _smallest(distances: Tensor, k: int) -> Tensor:
    """Columns of the k smallest values of each row, (m, k): the result of `topk`, also for equal values, but faster."""
    columns = distances.shape[1]
    width = columns // GROUPS
    if columns < GROUPED_FROM or width <= k:
        return distances.topk(k, dim=1, largest=False).indices
    # Minima of the groups of columns j, j + width, ...: the k + 1 smallest values are in the groups with the k + 1
    # smallest minima, or in the rest.
    smallest = distances[:, : width * GROUPS].unflatten(1, (GROUPS, width)).amin(1)
    first = smallest.topk(k + 1, dim=1, largest=False, sorted=False).indices
    steps = torch.arange(GROUPS, device=distances.device) * width
    rest = torch.arange(width * GROUPS, columns, device=distances.device).expand(len(distances), -1)
    candidates = torch.cat([(first[:, :, None] + steps).flatten(1), rest], dim=1)
    best = distances.gather(1, candidates).topk(k + 1, dim=1, largest=False)
    found = candidates.gather(1, best.indices[:, :k])
    tied = (best.values[:, 1:] == best.values[:, :-1]).any(dim=1)
    found[tied] = distances[tied].topk(k, dim=1, largest=False).indices
    return found


@torch.no_grad()
def outliers(views: Tensor, index: Tensor, pool: Tensor, k: int = 10) -> Tensor:
    """Find views that are outside their sample's neighborhood.

    Parameters
    ----------
    views : Tensor, shape (B, d)
        Representations of the views.
    index : Tensor of int64, shape (B,)
        Rows of the pool from which the views were made.
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
    """The space in which neighbors of images and DNA are searched: leading principal axes of their features.

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
        """Fit the axes to the pool, (n, ...); return its coordinates, (n, k)."""
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
