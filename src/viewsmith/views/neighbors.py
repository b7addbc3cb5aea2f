"""Neighbor graphs: given, of an exact search for few rows, or of inverted lists with a measured recall for many.

The lists are those of `viewsmith.views.inverted_lists`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.distributed import check_time, together, world_size
from viewsmith.core.errors import check, say
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.core.tensors import on_host, stream
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.scaling import PrincipalAxes
from viewsmith.views.base import PrecomputedGraph, ViewMaker, randint
from viewsmith.views.inverted_lists import GROUPS, InvertedLists, Metric

# Largest number of distances computed at a time: with more than 32,768 rows, blocks of queries are smaller.
LARGEST_BLOCK = 1 << 26

# Squared distance of the mean from 0, as a multiple of the rows' variance, from which float32 products lose neighbors.
FAR = 100.0

# Number of columns from which the minima of groups of `GROUPS` columns are faster in `_smallest`.
GROUPED_FROM = 4096


@torch.no_grad()
def nearest_neighbors(
    x: Tensor, k: int, *, queries: Tensor | None = None, metric: Metric = "euclidean", block: int = 2048
) -> Tensor:
    """Indices of the rows of `x` (n, d) that are nearest to each query (m, d), the nearest first, by exact search:
    int64 (m, k). Without queries they are the rows of `x`, and a row is not its own neighbor."""
    without_queries = queries is None
    rows = x if without_queries else queries
    assert rows is not None
    k = min(k, len(x) - 1 if without_queries else len(x))
    x, rows = _precise(x, rows, metric)
    # Each of several processes searches for itself: with smaller blocks they take less memory together.
    block = max(1, min(block, LARGEST_BLOCK // (len(x) * world_size() ** 3)))
    norms = x.square().sum(1)
    # One buffer for all blocks, because new memory takes more time than computing the distances.
    buffer = x.new_empty(min(block, len(rows)), len(x))
    found = torch.empty(len(rows), k, dtype=torch.int64, device=x.device)
    for start in range(0, len(rows), block):
        check_time()
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
    """Rows whose products tell neighbors apart even far from 0: less their mean, or of length 1 in float64 (cosine)."""
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
    codes = torch.cat([codes, codes % n * n + codes // n]).sort().values  # in both directions
    return torch.stack([codes // n, codes % n])


def aligned_graph(n: int, near: Tensor, mutual: Tensor) -> PrecomputedGraph:
    """Neighbor graph of n rows: a step goes to a mutual neighbor, if there is one, with probability 1/2.

    Edges of the graph are equally likely, so they are repeated: each of the k ordinary edges of a row with m mutual
    neighbors is there m times, and each of its m mutual edges k times.
    """
    ordinary, other = near[0].bincount(minlength=n), mutual[0].bincount(minlength=n)
    times = torch.cat([other[near[0]].clamp_min(1), ordinary[mutual[0]].clamp_min(1)])
    edges = torch.cat([near, mutual], dim=1).repeat_interleave(times, dim=1)
    edges = edges[:, edges[0].argsort(stable=True)]
    offsets = torch.cat([edges.new_zeros(1), edges[0].bincount(minlength=n).cumsum(0)])
    return PrecomputedGraph(offsets, edges[1])


Space = Callable[[Tensor], Tensor]


class NeighborGraph(ViewMaker):
    """Base class of view makers that use a k-nearest-neighbor graph of the pool, searched or given, until `release`."""

    needs_pool = mixes_rows = True

    edges: Tensor | None
    found: Tensor | None  # recall, lists and probes of the search

    def __init__(self, k: int, space: Space | None, refreshed: bool, graph: PrecomputedGraph | None) -> None:
        super().__init__()
        check(k >= 1, "k", k, "at least 1 neighbor")
        self.k, self.space, self.graph = k, space, graph
        # Refreshed edges depend on the weights of an earlier step, so they are saved in checkpoints.
        self.register_buffer("edges", None, persistent=refreshed)
        self.register_buffer("found", None, persistent=refreshed)
        self._search: NeighborSearch | None = None

    def prepare(self, pool: Rows) -> None:
        self.pool = pool
        self._search = None
        if self.graph is not None:
            if len(self.graph) != len(pool):
                raise ValueError(f"the neighbor graph has {len(self.graph)} rows, expected {len(pool)}, as in the pool")
            self.graph = self.graph.to(pool.device)
            return
        self._connect(self.space.fit(pool) if isinstance(self.space, PrincipalSpace) else self._coordinates(pool))

    def refresh(self, encode: Callable[[Rows], Tensor]) -> None:
        self._connect(encode(self._pool()))

    def _connect(self, coordinates: Tensor) -> None:
        # In training the encoder may run under autocast, but the search needs full precision.
        with together(), torch.autocast(coordinates.device.type, enabled=False):
            search = NeighborSearch(coordinates, self.k)
            self.edges, summary = search.graph(), search.summary
        self.found = torch.tensor([summary.recall, summary.lists, summary.probes], dtype=torch.float64)

    def describe(self) -> dict[str, Any]:
        """``neighbor_graph``: method and recall of the search, or the size of a precomputed graph."""
        if self.graph is not None:
            isolated = int((self.graph.degrees == 0).sum())
            size = {"edges": len(self.graph.ends), "isolated_rows": isolated}
            return {"neighbor_graph": {"search": "precomputed", **size}}
        if self.edges is None or self.found is None:
            return {}
        recall, lists, probes = self.found.tolist()
        summary = SearchSummary("inverted lists", recall, int(lists), int(probes)) if lists else EXACT
        return {"neighbor_graph": {"neighbors": self.edges.shape[1], **asdict(summary)}}

    def release(self) -> None:
        super().release()
        self.edges = self.found = self._search = self.graph = None
        if isinstance(self.space, PrincipalSpace):
            self.space.release()

    def _coordinates(self, x: Rows) -> Tensor:
        if isinstance(x, Tensor):
            return x.flatten(1) if self.space is None else self.space(x)
        return apply_in_blocks(self.space or torch.nn.Flatten(), x)

    def random_neighbors(self, x: Tensor, index: Tensor | None, generator: torch.Generator | None) -> Tensor:
        """Rows in the pool of a random neighbor of each sample, int64 (B,)."""
        pool = self._pool()
        if index is None:
            if self._search is None:
                self._search = NeighborSearch(self._coordinates(pool), self.k)
            edges = self._search.nearest(self._coordinates(x))
        elif self.graph is not None:
            return self.graph.random_neighbors(index, generator)
        else:
            assert self.edges is not None
            edges = self.edges[index]
        return edges.gather(1, randint(edges.shape[1], (len(x), 1), x, generator))[:, 0]

    def rows(self, index: Tensor) -> Tensor:
        """Rows of the pool, (B, ...)."""
        return self._pool()[index]


# Up to this size, exact search takes at most about two seconds on one core (benchmarks/results/neighbor_graph.jsonl).
EXACT_UP_TO = 20_000
# On a GPU it is faster at all sizes that were measured: an H200 takes 0.17 s for so many rows, with lists 1.6 to 5.9 s.
EXACT_UP_TO_GPU = 100_000
RECALL = 0.95
SAMPLE = 1000  # queries on which recall is measured
FIRST_PROBES, MORE_PROBES = 6, 1.5
# Products of numbers in the search of a graph on a CPU, which take about seven minutes of one core. Of up to 370,000
# rows of 50 columns all lists can be visited. Nearly as near neighbors train nearly as well (docs/contrastive.md).
MOST_PRODUCTS = 3.5e12


@dataclass(frozen=True)
class SearchSummary:
    """How neighbors were searched, and the recall on a sample of rows: the fraction not farther than the true k-th."""

    search: str  # "exact" or "inverted lists"
    recall: float
    lists: int
    probes: int  # lists that each row visits


EXACT = SearchSummary("exact", 1.0, 0, 0)


class NeighborSearch:
    """Search for the k nearest rows, exact or approximate depending on the number of rows.

    Up to `exact_up_to` rows the search is exact (`nearest_neighbors`). Above, rows are in lists (`InvertedLists`), and
    the number of visited lists grows until the recall on 1,000 rows is at least `recall`. If this takes half of the
    lists or more, the search is exact, too. On a CPU it grows only up to `MOST_PRODUCTS`, which is said.

    Parameters
    ----------
    x : Tensor, shape (n, d)
        Finite. The search runs on its device.
    k : int
        At most n - 1 for rows, and n for queries; larger values are reduced.
    metric : {"euclidean", "cosine"}
    seed : int
        Seed of the lists and of the sample on which recall is measured. On one machine, the same rows and seed give the
        same result.
    exact_up_to : int, optional
        Default: `EXACT_UP_TO`, on a GPU `EXACT_UP_TO_GPU`.
    recall : float
        Smallest recall, 0 to 1.

    Attributes
    ----------
    summary : SearchSummary
    """

    @torch.no_grad()
    def __init__(
        self,
        x: Tensor,
        k: int,
        *,
        metric: Metric = "euclidean",
        seed: int = 0,
        exact_up_to: int | None = None,
        recall: float = RECALL,
    ) -> None:
        self.x, self.k, self.metric = x, k, metric
        self.summary = EXACT
        self._lists: InvertedLists | None = None
        # For so many lists assigning rows takes as long as visits; at least 64 k rows each, for fast `topk`.
        number = int(len(x) / max(64 * k, len(x) ** 0.5 / 2))
        if exact_up_to is None:
            exact_up_to = EXACT_UP_TO if on_host(x) else EXACT_UP_TO_GPU
        if len(x) <= exact_up_to or number <= 2 * FIRST_PROBES:
            return
        lists = InvertedLists(x, number, metric=metric, generator=stream(seed, "lists"))
        index = torch.randperm(len(x), generator=stream(seed, "recall"))[:SAMPLE].to(x.device)
        # k + 1, because a row may or may not be among its own nearest rows if other rows are equal to it.
        nearest = nearest_neighbors(x, k + 1, queries=x[index], metric=metric)
        limit = _distances(x, index, nearest, metric, exclude_self=True).sort(dim=1).values[:, k - 1]
        limit += 1e-6 if metric == "cosine" else 1e-5 * limit  # rounding
        most = int(len(lists) * MOST_PRODUCTS / (len(x) ** 2 * x.shape[1])) if on_host(x) else len(lists)
        probes, most = FIRST_PROBES, max(1, most)
        while 2 * (probes := min(probes, most)) < len(lists):
            found = _distances(x, index, lists.of_rows(index, k, probes), metric)
            reached = float((found <= limit[:, None]).double().mean())
            if reached >= recall or probes == most:
                if reached < recall:
                    say(
                        f"the neighbor graph of {len(x):,} rows has a recall of {reached:.0%}, that of fewer rows "
                        f"{recall:.0%}: the time of its search is bounded"
                    )
                self._lists, self.summary = lists, SearchSummary("inverted lists", reached, len(lists), probes)
                return
            probes = int(MORE_PROBES * probes)

    def graph(self) -> Tensor:
        """Indices of the k nearest other rows of each row, the nearest first: int64 (n, k)."""
        if self._lists is None:
            return nearest_neighbors(self.x, self.k, metric=self.metric)
        return self._lists.graph(self.k, self.summary.probes)

    def nearest(self, queries: Tensor) -> Tensor:
        """Indices of the k rows nearest to each query, (m, d): int64 (m, k)."""
        if self._lists is None:
            return nearest_neighbors(self.x, self.k, queries=queries, metric=self.metric)
        return self._lists.of_queries(queries, self.k, self.summary.probes)


def _distances(x: Tensor, index: Tensor, near: Tensor, metric: Metric, exclude_self: bool = False) -> Tensor:
    """Distances of the rows `index`, (m,), to the rows `near`, (m, k), without the rounding of matrix products."""
    rows, others = x[index][:, None], x[near]
    if metric == "cosine":
        distances = 1 - (unit(rows) * unit(others)).sum(2)
    else:
        distances = (rows - others).square().sum(2)
    return distances.masked_fill(near == index[:, None], float("inf")) if exclude_self else distances
