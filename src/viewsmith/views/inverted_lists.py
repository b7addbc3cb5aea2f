"""Approximate nearest neighbors by inverted lists.

K-means groups the rows into lists, and a query is compared only with the rows of the lists nearest to it. This is the
inverted file of Sivic and Zisserman 2003 (Video Google), as in Jegou et al. 2011 (Product quantization for nearest
neighbor search, section IV). The lists contain the uncompressed rows, so only the choice of lists is approximate.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import unit
from viewsmith.views.neighbors import Metric

TILE = 1 << 21  # distances computed at a time, 8 MB
SAMPLE = 32  # rows per list to which k-means is fitted
ITERATIONS = 8
LARGEST = 3  # largest size of a list, as a multiple of the mean size


class InvertedLists:
    """Rows grouped into lists; each list has the rows nearest to its center. Every run gives the same result.

    Memory use, in addition to the rows: one copy of them, and a few blocks of `TILE` floats.

    Parameters
    ----------
    x : Tensor, shape (n, d)
        Finite. Rows of zeros and equal rows are allowed.
    lists : int
        Approximate number of lists. Empty lists are dropped; lists with more than `LARGEST` times the mean number of
        rows are halved.
    metric : {"euclidean", "cosine"}
        With "cosine", a row of zeros has the same distance to all rows.
    generator : torch.Generator, optional
        A CPU generator, which draws the rows for k-means. Default: seeded with 0.

    Attributes
    ----------
    rows : Tensor, shape (n, d)
        The rows in the order of their lists, centered ("euclidean") or with length 1 ("cosine").
    order : Tensor of int64, shape (n,)
        The index in `x` of each of these rows.
    """

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
        self._halves = self._norms(self.rows)

    def __len__(self) -> int:
        """Number of lists."""
        return len(self._centers)

    @torch.no_grad()
    def graph(self, k: int, probes: int) -> Tensor:
        """Indices of the k nearest other rows of each row, searched in its `probes` nearest lists: int64 (n, k).

        The nearest row is first; k is at most n - 1.
        """
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

    def _norms(self, rows: Tensor) -> Tensor:
        return rows.new_zeros(len(rows)) if self.metric == "cosine" else rows.square().sum(1) / 2

    def _search(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
        """Positions in `rows` of the nearest rows, by blocks of queries; `own`: positions of queries that are rows."""
        probes = min(probes, len(self))
        size = max(1, TILE // max(len(self), probes * k))
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            near, complete = self._nearest(queries[part], k, probes, None if own is None else own[part])
            if not complete.all():  # the lists that were visited have too few rows
                short = ~complete
                short_own = None if own is None else own[part][short]
                near[short] = self._nearest(queries[part][short], k, len(self), short_own)[0]
            yield part, near

    def _nearest(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Positions of the k nearest rows in the `probes` nearest lists, and whether each query found k rows."""
        lists = _half_distances(queries, self._centers).topk(probes, dim=1, largest=False).indices
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
        """The k nearest rows of each list that a query visits: distances and positions, (m, v * k) for lists (m, v).

        Distances are infinite if a list has less than k rows, or no row with a distance below `bound`, (m,).
        """
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


def _half_distances(rows: Tensor, centers: Tensor) -> Tensor:
    """(|r - c|^2 - |r|^2) / 2 for all pairs, (n, m); for each row, in the order of its distances."""
    return torch.addmm(centers.square().sum(1) / 2, rows, centers.T, alpha=-1)


def nearest_center(rows: Tensor, centers: Tensor) -> Tensor:
    """Index of the center nearest to each row, int64 (n,)."""
    size = max(1, TILE // len(centers))
    halves = centers.square().sum(1) / 2
    # One buffer for all blocks: between blocks of new memory, the results would keep it from being used again.
    buffer = rows.new_empty(min(size, len(rows)), len(centers))
    found = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        distances = torch.addmm(halves, part, centers.T, alpha=-1, out=buffer[: len(part)])
        torch.argmin(distances, dim=1, out=found[start : start + size])
    return found


def k_means(x: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Cluster centers, (clusters, d), by Lloyd's algorithm on a sample of the rows, started from random rows.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    clusters : int
        At most n. A cluster that becomes empty keeps its center.
    generator : torch.Generator
        A CPU generator, for any device of `x`.
    """
    drawn = torch.randperm(len(x), generator=generator)[: SAMPLE * clusters]
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
