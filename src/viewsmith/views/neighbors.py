"""Neighbor graphs: given ones, exact nearest neighbors, and mutual neighbors in different groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.distributed import world_size
from viewsmith.core.rows import Rows, apply_in_blocks
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.scaling import PrincipalAxes


@dataclass(frozen=True)
class PrecomputedGraph:
    """Neighbors of n rows: those of row i are ``ends[offsets[i] : offsets[i + 1]]``, int64 (edges,) and (n + 1,)."""

    offsets: Tensor
    ends: Tensor

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    def to(self, device: torch.device) -> PrecomputedGraph:
        """The same graph on a device."""
        return PrecomputedGraph(self.offsets.to(device), self.ends.to(device))

    @property
    def degrees(self) -> Tensor:
        """Number of neighbors of each row, int64 (n,)."""
        return self.offsets.diff()

    def random_neighbors(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one neighbor of each row at `index`, (B,), uniformly; for a row without neighbors, the row itself."""
        first, degree = self.offsets[index], self.degrees[index]
        # In float64, so that all neighbors are equally likely even if a row has very many.
        drawn = torch.rand(len(index), dtype=torch.float64, device=index.device, generator=generator)
        position = first + torch.minimum((drawn * degree).long(), degree - 1).clamp_min(0)
        return torch.where(degree > 0, self.ends[position.clamp_max(len(self.ends) - 1)], index)


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
    # Each of several processes searches for itself: with smaller blocks they take no more memory together.
    block = max(1, min(block, LARGEST_BLOCK // (len(x) * world_size() ** 2)))
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

    Products of rows far from 0 lose differences: the mean is subtracted, or cosines are computed in float64.
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
    """Find views that are outside their sample's neighborhood."""
    nearest = nearest_neighbors(pool, 1, queries=views)
    neighborhood = nearest_neighbors(pool, k + 1, queries=pool[index])  # includes the sample itself
    return ~((neighborhood == nearest).any(dim=1) | (index == nearest[:, 0]))


class PrincipalSpace:
    """The space in which neighbors of images and DNA are searched: leading principal axes of their features."""

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


def mutual_neighbors(x: Tensor, groups: Tensor, k: int = 5) -> Tensor:
    """Pairs of rows of two groups that are among each other's k nearest rows of the other group, int64 (2, pairs).

    The definition of Haghverdi et al. (2018), Nature Biotechnology 36, for every two groups; Euclidean distances.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    groups : Tensor of int64, shape (n,)
        Group numbers.
    k : int
        At least 1; reduced to the size of the other group.

    Returns
    -------
    Tensor of int64, shape (2, pairs)
        Both directions of every pair, without repetition, sorted.
    """
    members = [(groups == each).nonzero()[:, 0] for each in groups.unique()]
    n, found = len(x), []
    for number, a in enumerate(members):
        for b in members[number + 1 :]:
            # Code i n + j stands for the edge from row i to row j.
            there = (a[:, None] * n + b[nearest_neighbors(x[b], k, queries=x[a])]).flatten()
            back = (a[nearest_neighbors(x[a], k, queries=x[b])] * n + b[:, None]).flatten()
            found.append(there[torch.isin(there, back)])
    codes = torch.cat(found) if found else groups.new_zeros(0)
    pairs = torch.stack([codes // n, codes % n])
    return _sorted(torch.cat([pairs, pairs.flip(0)], dim=1), n)


def _sorted(pairs: Tensor, n: int) -> Tensor:
    codes = (pairs[0] * n + pairs[1]).sort().values
    return torch.stack([codes // n, codes % n])


def aligned_graph(n: int, near: Tensor, mutual: Tensor) -> PrecomputedGraph:
    """Neighbor graph of n rows: a step goes to a mutual neighbor, if there is one, with probability 1/2.

    Edges of the graph are equally likely, so they are repeated: each of the k ordinary edges of a row with m mutual
    neighbors is there m times, and each of its m mutual edges k times.

    Parameters
    ----------
    n : int
    near : Tensor of int64, shape (2, edges)
        Ordinary edges, from the first row to the second.
    mutual : Tensor of int64, shape (2, pairs)
        `mutual_neighbors`.
    """
    ordinary, other = near[0].bincount(minlength=n), mutual[0].bincount(minlength=n)
    times = torch.cat([other[near[0]].clamp_min(1), ordinary[mutual[0]].clamp_min(1)])
    edges = torch.cat([near, mutual], dim=1).repeat_interleave(times, dim=1)
    edges = edges[:, edges[0].argsort(stable=True)]
    offsets = torch.cat([edges.new_zeros(1), edges[0].bincount(minlength=n).cumsum(0)])
    return PrecomputedGraph(offsets, edges[1])
