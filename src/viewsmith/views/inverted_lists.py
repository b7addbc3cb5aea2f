"""Inverted lists: an approximate search of the nearest among many rows.

K-means groups the rows into lists, and a query is compared only with the rows of the lists nearest to it. This is the
inverted file of Sivic and Zisserman 2003 (Video Google), as in Jegou et al. 2011 (Product quantization for nearest
neighbor search, section IV). The lists contain the uncompressed rows, so only the choice of lists is approximate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.distributed import check_time
from viewsmith.losses.nt_xent import unit

Metric = Literal["euclidean", "cosine"]

GROUPS = 8  # rows per group, of which the minimum is looked at first
TILE = 1 << 21  # distances computed at a time, 8 MB
ROWS_PER_LIST = 32  # rows per list to which k-means is fitted
ITERATIONS = 8
COLUMNS = 64  # rows of a query that are sorted at a time
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
        members, centers = _split_large(rows, centers, nearest_center(rows, centers), LARGEST * len(x) / lists)
        # Neighboring lists one after another: a block of queries visits fewer lists, with more queries each.
        together = _halved(centers)
        members, self._centers = [members[number] for number in together.tolist()], centers[together]
        sizes = torch.tensor([len(each) for each in members])
        self._starts = [0, *sizes.cumsum(0).tolist()]
        self.order = torch.cat(members)
        # Half the squared norms (0 for cosines): |q - x|^2 = |q|^2 + 2 (|x|^2 / 2 - q x), ordered by the second term,
        # which is one product of (x, |x|^2 / 2) and (-q, 1). Rows at infinity complete the groups of the last list.
        self._extended = rows.new_zeros(len(x) + GROUPS - 1, x.shape[1] + 1)
        self.rows = self._extended[: len(x), :-1]
        size = max(1, TILE // x.shape[1])  # in blocks: copies of all rows take as much memory as these
        for start in range(0, len(x), size):
            block = slice(start, min(start + size, len(x)))
            self.rows[block] = rows[self.order[block]]
            if metric == "euclidean":
                self._extended[block, -1] = self.rows[block].square().sum(1) / 2
        self._extended[len(x) :, -1] = float("inf")

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
        size = max(1, TILE // (probes * k))
        for start in range(0, len(queries), size):
            check_time()
            part = slice(start, start + size)
            near, complete = self._nearest(queries[part], k, probes, None if own is None else own[part])
            if probes < len(self) and not complete.all():  # the lists that were visited have too few rows
                short = ~complete
                short_own = None if own is None else own[part][short]
                near[short] = torch.cat([n for _, n in self._search(queries[part][short], k, len(self), short_own)])
            yield part, near

    def _nearest(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Positions of the k nearest rows in the `probes` nearest lists, and whether each query found k rows."""
        # (|q - c|^2 - |q|^2) / 2, in the order of the distances of each query
        halves, size = self._centers.square().sum(1) / 2, max(1, TILE // len(self))
        of_centers = (torch.addmm(halves, part, self._centers.T, alpha=-1) for part in queries.split(size))
        lists = torch.cat([each.topk(probes, dim=1, largest=False).indices for each in of_centers])
        extended = torch.cat([-queries, queries.new_ones(len(queries), 1)], dim=1)
        best = Best(queries.new_full((len(queries), k), float("inf")), own)
        self._visit_first(extended, lists[:, 0], best)
        # Few of the other lists have a row that is nearer than the k rows from the first list.
        self._visit(extended, lists[:, 1:], best)
        return best.positions, best.distances[:, -1] < float("inf")

    def _visit_first(self, queries: Tensor, lists: Tensor, best: Best) -> None:
        """Find the nearest rows of one list for each query; fewer, if the list has fewer rows."""
        for query, first, last in self._visits(lists[:, None]):
            distances = queries[query] @ self._extended[first:last].T
            if best.own is not None:
                itself = best.own[query] - first
                here = ((itself >= 0) & (itself < last - first)).nonzero()[:, 0]
                distances[here, itself[here]] = float("inf")
            nearest = distances.topk(min(best.distances.shape[1], last - first), dim=1, largest=False)
            best.distances[query, : nearest.values.shape[1]] = nearest.values
            best.positions[query, : nearest.values.shape[1]] = nearest.indices + first

    def _visit(self, queries: Tensor, lists: Tensor, best: Best) -> None:
        """Find nearer rows in the lists (m, v) that the queries visit."""
        for query, first, last in self._visits(lists):
            # Minima of the groups of rows j, j + width, ...: most groups have no row nearer than those found. Rows
            # vary along the first dimension, along which minima are fast. The last group has rows of the next list.
            width = -(-(last - first) // GROUPS)
            distances = self._extended[first : first + GROUPS * width] @ queries[query].T
            smallest = distances.view(GROUPS, width, len(query)).amin(0)
            near = (smallest < best.distances[query, -1]).flatten().nonzero()[:, 0]
            best.add(near, distances.view(GROUPS, -1).index_select(1, near), query, first, last)
        best.merge()

    def _visits(self, lists: Tensor) -> Iterator[tuple[Tensor, int, int]]:
        """Queries that visit a list, and its first and last position; `lists` (m, v) has those of each query."""
        by_list = lists.flatten().argsort(stable=True)
        # A block of queries visits only some of the lists, so this loops over these and not over all lists.
        visited, counts = torch.unique_consecutive(lists.flatten()[by_list], return_counts=True)
        queries = (by_list // max(lists.shape[1], 1)).split(counts.tolist())
        for number, query in zip(visited.tolist(), queries, strict=True):
            first, last = self._starts[number], self._starts[number + 1]
            for part in query.split(max(1, TILE // (last - first))):
                yield part, first, last


class Best:
    """Distances (m, k) and positions of the nearest rows that queries have found; `own`: positions of the queries."""

    def __init__(self, distances: Tensor, own: Tensor | None) -> None:
        self.distances, self.own = distances, own
        self.positions = torch.zeros_like(distances, dtype=torch.int64)
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self._visits: list[tuple[int, int, int]] = []
        self._rows = 0

    def add(self, near: Tensor, distances: Tensor, query: Tensor, first: int, last: int) -> None:
        """Keep the groups `near` of a visit, with their distances (GROUPS, ...), for `merge`."""
        self._waiting.append((near, distances, query))
        self._visits.append((first, last, len(query)))
        self._rows += distances.numel()
        if self._rows > TILE:
            self.merge()

    def merge(self) -> None:
        """Merge the rows that wait, all at once, because many small operations take longer than what they compute."""
        if not self._waiting:
            return
        near, distances, queries = (torch.cat(each, dim=-1) for each in zip(*self._waiting, strict=True))
        groups = torch.tensor([len(each) for each, _, _ in self._waiting], device=near.device)
        first, last, size = torch.tensor(self._visits, device=near.device).T
        self._waiting, self._visits, self._rows = [], [], 0
        visit = torch.arange(len(groups), device=near.device).repeat_interleave(groups)
        query = queries[(size.cumsum(0) - size)[visit] + near % size[visit]]
        nearer = (distances < self.distances[query, -1]).flatten().nonzero()[:, 0]
        pair = nearer % len(near)
        query, visit, values = query[pair], visit[pair], distances.flatten()[nearer]
        width = (last - first + GROUPS - 1) // GROUPS
        positions = first[visit] + near[pair] // size[visit] + nearer // len(near) * width[visit]
        new = positions < last[visit]
        if self.own is not None:
            new &= positions != self.own[query]
        self._keep_nearest(*(each[new] for each in (query, values, positions)))

    def _keep_nearest(self, query: Tensor, values: Tensor, positions: Tensor) -> None:
        """Keep the nearest of the rows at `positions` (r,) and of those found before, in tables of COLUMNS columns."""
        m, k = self.distances.shape
        while len(query) > 0:
            order = query.int().argsort(stable=True)
            query, values, positions = query[order], values[order], positions[order]
            counts = query.bincount(minlength=m)
            column = torch.arange(len(query), device=query.device) - (counts.cumsum(0) - counts)[query]
            now, columns = column < COLUMNS, min(COLUMNS, int(counts.max()))
            cell = (query * columns + column)[now]
            table = values.new_full((m, columns), float("inf")).flatten().index_copy_(0, cell, values[now]).view(m, -1)
            there = torch.zeros(m * columns, dtype=torch.int64, device=query.device)
            there = there.index_copy_(0, cell, positions[now]).view(m, -1)
            nearest = torch.cat([self.distances, table], dim=1).topk(k, dim=1, largest=False)
            self.distances = nearest.values
            self.positions = torch.cat([self.positions, there], dim=1).gather(1, nearest.indices)
            later = ~now & (values < self.distances[query, -1])
            query, values, positions = query[later], values[later], positions[later]


def _halved(centers: Tensor) -> Tensor:
    """Order of centers in which near ones follow each other: halved again and again, by the axis of most variance."""
    done, todo = [], [torch.arange(len(centers), device=centers.device)]
    while todo:
        part = todo.pop()
        if len(part) <= 2:
            done.append(part)
            continue
        axis = centers[part].var(0).argmax()
        todo += part[centers[part, axis].argsort(stable=True)].tensor_split(2)[::-1]
    return torch.cat(done)


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
        found[start : start + size] = distances.min(dim=1).indices  # in half the time of argmin
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
