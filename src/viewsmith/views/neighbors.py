"""Neighbor graphs: given, of an exact search for few rows, or of inverted lists with a measured recall for many.

K-means groups the rows into lists, and a query is compared only with the rows of the lists nearest to it. This is the
inverted file of Sivic and Zisserman 2003 (Video Google), as in Jegou et al. 2011 (Product quantization for nearest
neighbor search, section IV). The lists contain the uncompressed rows, so only the choice of lists is approximate.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from viewsmith.core.distributed import check_time, together, world_size
from viewsmith.core.errors import check
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.core.tensors import on_host, stream
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.scaling import PrincipalAxes
from viewsmith.views.base import PrecomputedGraph, ViewMaker, randint

Metric = Literal["euclidean", "cosine"]

# Largest number of distances computed at a time: with more than 32,768 rows, blocks of queries are smaller.
LARGEST_BLOCK = 1 << 26

# Squared distance of the mean from 0, as a multiple of the rows' variance, from which float32 products lose neighbors.
FAR = 100.0

# Columns per group in `_smallest`, and the number of columns from which groups are faster.
GROUPS, GROUPED_FROM = 8, 4096


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


TILE = 1 << 21  # distances computed at a time, 8 MB
ROWS_PER_LIST = 32  # rows per list to which k-means is fitted
ITERATIONS = 8
LARGEST = 3  # largest size of a list, as a multiple of the mean size


class InvertedLists:
    """Rows in lists of those nearest to a center, reproducible, with one copy of the rows in the `order` of lists."""

    @torch.no_grad()
    def __init__(
        self, x: Tensor, lists: int, *, metric: Metric = "euclidean", generator: torch.Generator | None = None
    ) -> None:
        self.metric: Metric = metric
        # Distances from matrix products lose precision if rows are far from the origin.
        self._origin = x.mean(0) if metric == "euclidean" else torch.zeros_like(x[0])
        rows = self._compared(x)
        centers = k_means(rows, min(lists, len(x)), generator or torch.Generator().manual_seed(0))
        members, self._centers = _split_large(rows, centers, nearest_center(rows, centers), LARGEST * len(x) / lists)
        sizes = torch.tensor([len(each) for each in members])
        self._starts = [0, *sizes.cumsum(0).tolist()]
        self.order = torch.cat(members)
        self.rows = rows[self.order]
        # Half the squared norms (0 for cosines): |q - x|^2 = |q|^2 + 2 (|x|^2 / 2 - q x), ordered by the second term.
        self._halves = self.rows.square().sum(1) / 2 if metric == "euclidean" else self.rows.new_zeros(len(x))

    def __len__(self) -> int:
        """Number of lists."""
        return len(self._centers)

    @torch.no_grad()
    def graph(self, k: int, probes: int) -> Tensor:
        """Indices of the k nearest other rows of each row, searched in its `probes` nearest lists: int64 (n, k)."""
        found = torch.empty(len(self.rows), k, dtype=torch.int64, device=self.rows.device)
        for part, near in self._search(self.rows, k, probes, torch.arange(len(self.rows), device=self.rows.device)):
            found[self.order[part]] = self.order[near]
        return found

    @torch.no_grad()
    def of_rows(self, index: Tensor, k: int, probes: int) -> Tensor:
        """`graph` for the rows at `index`, (m,), only: int64 (m, k)."""
        position = torch.empty_like(self.order)
        position[self.order] = torch.arange(len(self.order), device=self.order.device)
        own = position[index]
        return torch.cat([self.order[near] for _, near in self._search(self.rows[own], k, probes, own)])

    @torch.no_grad()
    def of_queries(self, queries: Tensor, k: int, probes: int) -> Tensor:
        """Indices of the k rows of `x` nearest to each query, (m, d): int64 (m, k); k is at most n."""
        return torch.cat([self.order[near] for _, near in self._search(self._compared(queries), k, probes, None)])

    def _compared(self, x: Tensor) -> Tensor:
        return unit(x) if self.metric == "cosine" else x - self._origin

    def _search(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
        """Positions in `rows` of the nearest rows, by blocks of queries; `own`: positions of queries that are rows."""
        probes = min(probes, len(self))
        size = max(1, TILE // max(len(self), probes * k))
        for start in range(0, len(queries), size):
            check_time()
            part = slice(start, start + size)
            near, complete = self._nearest(queries[part], k, probes, None if own is None else own[part])
            if not complete.all():  # the lists that were visited have too few rows
                short = ~complete
                short_own = None if own is None else own[part][short]
                near[short] = self._nearest(queries[part][short], k, len(self), short_own)[0]
            yield part, near

    def _nearest(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Positions of the k nearest rows in the `probes` nearest lists, and whether each query found k rows."""
        # (|q - c|^2 - |q|^2) / 2, in the order of the distances of each query
        halves = torch.addmm(self._centers.square().sum(1) / 2, queries, self._centers.T, alpha=-1)
        lists = halves.topk(probes, dim=1, largest=False).indices
        distances, where = self._visit(queries, k, lists[:, :1], own)
        if probes > 1:
            # Few of the other lists have a row that is nearer than the k rows from the first list.
            more, there = self._visit(queries, k, lists[:, 1:], own, distances[:, -1])
            distances, where = torch.cat([distances, more], dim=1), torch.cat([where, there], dim=1)
        nearest = distances.topk(k, dim=1, largest=False)
        return where.gather(1, nearest.indices), nearest.values[:, -1] < float("inf")

    def _visit(
        self, queries: Tensor, k: int, lists: Tensor, own: Tensor | None, bound: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Distances and positions (m, v * k) of the k nearest rows of each list (m, v) that a query visits; infinite
        where a list has fewer, or none below `bound`, (m,)."""
        visits = lists.shape[1]
        best = queries.new_full((lists.numel(), k), float("inf"))
        where = torch.zeros(lists.numel(), k, dtype=torch.int64, device=queries.device)
        by_list = lists.flatten().argsort(stable=True)
        # A block of queries visits only some of the lists, so this loops over these and not over all lists.
        visited, counts = torch.unique_consecutive(lists.flatten()[by_list], return_counts=True)
        for number, visit in zip(visited.tolist(), by_list.split(counts.tolist()), strict=True):
            first, last = self._starts[number], self._starts[number + 1]
            for part in visit.split(max(1, TILE // (last - first))):
                query = part // visits
                distances = torch.addmm(self._halves[first:last], queries[query], self.rows[first:last].T, alpha=-1)
                if own is not None:
                    itself = own[query] - first
                    here = ((itself >= 0) & (itself < last - first)).nonzero()[:, 0]
                    distances[here, itself[here]] = float("inf")
                if bound is not None:
                    near = distances.amin(1) < bound[query]
                    part, distances = part[near], distances[near]
                nearest = distances.topk(min(k, last - first), dim=1, largest=False)
                best[part, : nearest.values.shape[1]] = nearest.values
                where[part, : nearest.values.shape[1]] = nearest.indices + first
        return best.view(len(queries), -1), where.view(len(queries), -1)


def nearest_center(rows: Tensor, centers: Tensor) -> Tensor:
    """Index of the center nearest to each row, int64 (n,)."""
    size = max(1, TILE // len(centers))
    halves = centers.square().sum(1) / 2
    # One buffer for all blocks: between blocks of new memory, the results would keep it from being used again.
    buffer = rows.new_empty(min(size, len(rows)), len(centers))
    found = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    for start in range(0, len(rows), size):
        check_time()
        part = rows[start : start + size]
        distances = torch.addmm(halves, part, centers.T, alpha=-1, out=buffer[: len(part)])
        torch.argmin(distances, dim=1, out=found[start : start + size])
    return found


def k_means(x: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Cluster centers, (clusters, d), by Lloyd's algorithm on a sample of the rows, started from random rows."""
    drawn = torch.randperm(len(x), generator=generator)[: ROWS_PER_LIST * clusters]
    sample = x[drawn.to(x.device)]
    centers = sample[:clusters].clone()
    for _ in range(ITERATIONS):
        sums, counts = torch.zeros_like(centers), centers.new_zeros(clusters)
        for part in sample.split(max(1, TILE // clusters)):
            # A product with indicators, because index_add_ has no fixed order of summation on a GPU.
            indicators = torch.zeros(len(part), clusters, dtype=x.dtype, device=x.device)
            indicators.scatter_(1, nearest_center(part, centers)[:, None], 1)
            sums.addmm_(indicators.T, part)
            counts += indicators.sum(0)
        centers = torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], centers)
    return centers


def _split_large(rows: Tensor, centers: Tensor, nearest: Tensor, largest: float) -> tuple[list[Tensor], Tensor]:
    """Members and centers of the lists, without empty lists; lists with more than `largest` members are halved."""
    counts = torch.bincount(nearest, minlength=len(centers)).tolist()
    todo = [
        (part, centers[number])
        for number, part in enumerate(nearest.argsort(stable=True).split(counts))
        if len(part) > 0
    ][::-1]
    done = []
    while todo:
        part, center = todo.pop()
        if len(part) <= max(largest, 1):
            done.append((part, center))
            continue
        # Halve along the axis with the largest variance; the stable sort also halves a list of equal rows.
        axis = rows[part].var(0).argmax()
        part = part[rows[part, axis].argsort(stable=True)]
        todo += [(half, rows[half].mean(0)) for half in part.tensor_split(2)[::-1]]
    return [part for part, _ in done], torch.stack([center for _, center in done])


# Up to this size, exact search takes at most about two seconds on one core (benchmarks/results/neighbor_graph.jsonl).
EXACT_UP_TO = 20_000
# On a GPU it is faster at all sizes that were measured: an H200 takes 0.17 s for so many rows, with lists 1.6 to 5.9 s.
EXACT_UP_TO_GPU = 100_000
RECALL = 0.95
SAMPLE = 1000  # queries on which recall is measured
FIRST_PROBES, MORE_PROBES = 6, 1.5


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
    lists or more, the search is exact, too.

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
        probes = FIRST_PROBES
        while 2 * probes < len(lists):
            found = _distances(x, index, lists.of_rows(index, k, probes), metric)
            reached = float((found <= limit[:, None]).double().mean())
            if reached >= recall:
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
