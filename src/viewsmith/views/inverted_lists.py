"""Approximate nearest neighbors: rows grouped into lists by k-means, of which each query visits the nearest few.

The inverted file of Sivic and Zisserman 2003 (Video Google), as in Jegou et al. 2011 (Product quantization for nearest
neighbor search, section IV), with the rows themselves in the lists: only the choice of lists is approximate.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import unit
from viewsmith.views.neighbors import Metric

TILE = 1 << 21  # distances computed at a time, 8 MB
SAMPLE = 32  # rows per list that k-means sees
ITERATIONS = 8
LARGEST = 3  # a list has at most so many times the mean number of rows


class InvertedLists:
    """Rows in lists, each list the rows nearest to its center. Ties and draws are the same in every run.

    Beside the rows, memory is one copy of them and a few tiles of `TILE` floats.

    Parameters
    ----------
    x : Tensor, shape (n, d)
        Finite. Rows of zeros and equal rows are allowed.
    lists : int
        About how many: empty ones are dropped, large ones halved until they have at most `LARGEST` times the mean.
    metric : {"euclidean", "cosine"}
        By cosine, a row of zeros is at the same distance from all rows.
    generator : torch.Generator, optional
        Of the CPU: it draws the rows that k-means sees. Default: seeded with 0.

    Attributes
    ----------
    rows : Tensor, shape (n, d)
        The rows list by list, as they are compared: centered, or of length 1 for cosines.
    order : Tensor of int64, shape (n,)
        The row of `x` that each of them is.
    """

    @torch.no_grad()
    def __init__(
        self, x: Tensor, lists: int, *, metric: Metric = "euclidean", generator: torch.Generator | None = None
    ) -> None:
        self.metric: Metric = metric
        # Distances as products lose digits where rows are far from the origin.
        self._origin = x.mean(0) if metric == "euclidean" else torch.zeros_like(x[0])
        rows = self._compared(x)
        centers = k_means(rows, min(lists, len(x)), generator or torch.Generator().manual_seed(0))
        members, self._centers = _capped(rows, centers, nearest_center(rows, centers), LARGEST * len(x) / lists)
        sizes = torch.tensor([len(each) for each in members])
        self._starts = [0, *sizes.cumsum(0).tolist()]
        self.order = torch.cat(members)
        self.rows = rows[self.order]
        # Half the squared norm, or 0: the distance is then |q|^2 + 2 (half norm - q x), in order by the second term.
        self._halves = self._norms(self.rows)

    def __len__(self) -> int:
        """Number of lists."""
        return len(self._centers)

    @torch.no_grad()
    def graph(self, k: int, probes: int) -> Tensor:
        """The k nearest of the other rows of each row, as found in its `probes` nearest lists; int64 (n, k).

        The nearest come first; k is at most n - 1.
        """
        found = torch.empty(len(self.rows), k, dtype=torch.int64, device=self.rows.device)
        for part, near in self._search(self.rows, k, probes, torch.arange(len(self.rows), device=self.rows.device)):
            found[self.order[part]] = self.order[near]
        return found

    @torch.no_grad()
    def of_rows(self, index: Tensor, k: int, probes: int) -> Tensor:
        """The rows of `graph` at `index`, (m,)."""
        position = torch.empty_like(self.order)
        position[self.order] = torch.arange(len(self.order), device=self.order.device)
        own = position[index]
        return torch.cat([self.order[near] for _, near in self._search(self.rows[own], k, probes, own)])

    @torch.no_grad()
    def of_queries(self, queries: Tensor, k: int, probes: int) -> Tensor:
        """Indices of the k rows of `x` nearest to each query, (m, d); k is at most n."""
        return torch.cat([self.order[near] for _, near in self._search(self._compared(queries), k, probes, None)])

    def _compared(self, x: Tensor) -> Tensor:
        return unit(x) if self.metric == "cosine" else x - self._origin

    def _norms(self, rows: Tensor) -> Tensor:
        return rows.new_zeros(len(rows)) if self.metric == "cosine" else rows.square().sum(1) / 2

    def _search(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
        """Positions in `rows` of the nearest rows of a few queries at a time; `own` are their own positions."""
        probes = min(probes, len(self))
        size = max(1, TILE // max(len(self), probes * k))
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            near, complete = self._nearest(queries[part], k, probes, None if own is None else own[part])
            if not complete.all():  # the lists that were visited have too few rows
                short = ~complete
                alone = None if own is None else own[part][short]
                near[short] = self._nearest(queries[part][short], k, len(self), alone)[0]
            yield part, near

    def _nearest(self, queries: Tensor, k: int, probes: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Positions of the k nearest rows in the `probes` nearest lists, and which queries found as many."""
        lists = _half_distances(queries, self._centers).topk(probes, dim=1, largest=False).indices
        distances, where = self._visit(queries, k, lists[:, :1], own)
        if probes > 1:
            # Few of the further lists have a row that is nearer than the k found in the first.
            more, there = self._visit(queries, k, lists[:, 1:], own, distances[:, -1])
            distances, where = torch.cat([distances, more], dim=1), torch.cat([where, there], dim=1)
        nearest = distances.topk(k, dim=1, largest=False)
        return where.gather(1, nearest.indices), nearest.values[:, -1] < float("inf")

    def _visit(
        self, queries: Tensor, k: int, lists: Tensor, own: Tensor | None, bound: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k nearest rows of each list that a query visits: distances and positions, (m, v * k) for lists (m, v).

        Distances are infinite where a list has less than k rows, or none within `bound`, (m,).
        """
        visits = lists.shape[1]
        best = queries.new_full((lists.numel(), k), float("inf"))
        where = torch.zeros(lists.numel(), k, dtype=torch.int64, device=queries.device)
        by_list = lists.flatten().argsort(stable=True)
        # The queries are a few lists' rows, which visit a few hundred of thousands of lists: only those are looked at.
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
    """(|r - c|^2 - |r|^2) / 2 for all pairs, (n, m): in the order of the distances."""
    return torch.addmm(centers.square().sum(1) / 2, rows, centers.T, alpha=-1)


def nearest_center(rows: Tensor, centers: Tensor) -> Tensor:
    """Index of the center nearest to each row, int64 (n,)."""
    parts = rows.split(max(1, TILE // len(centers)))
    return torch.cat([_half_distances(part, centers).argmin(1) for part in parts])


def k_means(x: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Centers of Lloyd's algorithm on a sample, (clusters, d), started from random rows.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    clusters : int
        At most n. A cluster that becomes empty keeps its center.
    generator : torch.Generator
        Of the CPU, whatever the device of `x`.
    """
    drawn = torch.randperm(len(x), generator=generator)[: SAMPLE * clusters]
    sample = x[drawn.to(x.device)]
    centers = sample[:clusters].clone()
    for _ in range(ITERATIONS):
        sums, counts = torch.zeros_like(centers), centers.new_zeros(clusters)
        for part in sample.split(max(1, TILE // clusters)):
            # Sums by a product with indicators: adding by index has no fixed order on a GPU.
            indicators = torch.zeros(len(part), clusters, dtype=x.dtype, device=x.device)
            indicators.scatter_(1, nearest_center(part, centers)[:, None], 1)
            sums.addmm_(indicators.T, part)
            counts += indicators.sum(0)
        centers = torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], centers)
    return centers


def _capped(rows: Tensor, centers: Tensor, nearest: Tensor, largest: float) -> tuple[list[Tensor], Tensor]:
    """The members of each list, and its center; lists without members are left out, large ones are halved."""
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
        # Equal rows have no axis along which they differ: they are halved in their order.
        axis = rows[part].var(0).argmax()
        part = part[rows[part, axis].argsort(stable=True)]
        todo += [(half, rows[half].mean(0)) for half in part.tensor_split(2)[::-1]]
    return [part for part, _ in done], torch.stack([center for _, center in done])
