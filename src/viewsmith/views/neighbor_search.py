"""Nearest neighbors: an exact search for few rows, inverted lists with a measured recall for many rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from viewsmith.core.random import stream
from viewsmith.losses.nt_xent import unit
from viewsmith.views.inverted_lists import InvertedLists
from viewsmith.views.neighbors import Metric, nearest_neighbors

# Up to this size, exact search takes at most about two seconds on one core (benchmarks/results/neighbor_graph.jsonl).
EXACT_UP_TO = 20_000
RECALL = 0.95
SAMPLE = 1000  # queries on which recall is measured
FIRST_PROBES, MORE_PROBES = 6, 1.5


@dataclass(frozen=True)
class SearchFacts:
    """How neighbors were searched.

    Attributes
    ----------
    search : {"exact", "inverted lists"}
    recall : float
        Fraction of the neighbors found that are not farther away than the true k-th neighbor, on a sample of rows; 1
        if exact.
    lists, probes : int
        Number of lists, and number of lists that each row visits; 0 if exact.
    """

    search: str
    recall: float
    lists: int
    probes: int


EXACT = SearchFacts("exact", 1.0, 0, 0)


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
        Default: `EXACT_UP_TO`.
    recall : float
        Smallest recall, 0 to 1.

    Attributes
    ----------
    facts : SearchFacts
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
        self.facts = EXACT
        self._lists: InvertedLists | None = None
        number = _number_of_lists(len(x), k)
        if len(x) <= (EXACT_UP_TO if exact_up_to is None else exact_up_to) or number <= 2 * FIRST_PROBES:
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
                self._lists, self.facts = lists, SearchFacts("inverted lists", reached, len(lists), probes)
                return
            probes = int(MORE_PROBES * probes)

    def graph(self) -> Tensor:
        """Indices of the k nearest other rows of each row, the nearest first: int64 (n, k)."""
        if self._lists is None:
            return nearest_neighbors(self.x, self.k, metric=self.metric)
        return self._lists.graph(self.k, self.facts.probes)

    def nearest(self, queries: Tensor) -> Tensor:
        """Indices of the k rows nearest to each query, (m, d): int64 (m, k)."""
        if self._lists is None:
            return nearest_neighbors(self.x, self.k, queries=queries, metric=self.metric)
        return self._lists.of_queries(queries, self.k, self.facts.probes)


def _number_of_lists(n: int, k: int) -> int:
    """Number of lists for which assigning rows to lists takes about as long as visiting lists.

    Lists have at least 64 k rows on average: from this size on, torch finds the k smallest values by a partial sort,
    which is several times faster.
    """
    return int(n / max(64 * k, n**0.5 / 2))


def _distances(x: Tensor, index: Tensor, near: Tensor, metric: Metric, exclude_self: bool = False) -> Tensor:
    """Distances of the rows `index`, (m,), to the rows `near`, (m, k), without the rounding of matrix products."""
    rows, others = x[index][:, None], x[near]
    if metric == "cosine":
        distances = 1 - (unit(rows) * unit(others)).sum(2)
    else:
        distances = (rows - others).square().sum(2)
    return distances.masked_fill(near == index[:, None], float("inf")) if exclude_self else distances
