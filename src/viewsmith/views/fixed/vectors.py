"""Fixed (not learned) view makers for vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor

from viewsmith.core.errors import check, check_choice, check_fraction, check_weight
from viewsmith.core.registry import register
from viewsmith.core.samples import Rows, apply_in_blocks, some_rows
from viewsmith.views.base import Pair, ViewContext, ViewMaker, rand, randint, randn
from viewsmith.views.fixed.table_columns import TableColumns, table_columns
from viewsmith.views.neighbor_graph import PrecomputedGraph
from viewsmith.views.neighbor_search import EXACT, NeighborSearch, SearchFacts
from viewsmith.views.neighbors import PrincipalSpace

Noise = Literal["gaussian", "uniform"]
Space = Callable[[Tensor], Tensor]


def unit_noise(like: Tensor, distribution: Noise, generator: torch.Generator | None) -> Tensor:
    """Gaussian or uniform draws with mean 0 and variance 1, in the shape of `like`."""
    if distribution == "gaussian":
        return randn(like, generator)
    return (2 * rand(tuple(like.shape), like, generator) - 1) * 3**0.5


class Identity(ViewMaker):
    """The unchanged sample."""

    mixes_rows = True

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x


class GaussianNoise(ViewMaker):
    """Noise of the same strength on every feature: x + s * e.

    Parameters
    ----------
    strength : float
        s, the standard deviation of the noise in scaled units (1 is the standard deviation of the data).
    distribution : {"gaussian", "uniform"}
        Distribution of the noise, with the same standard deviation.
    """

    def __init__(self, strength: float = 1.0, distribution: Noise = "gaussian") -> None:
        super().__init__()
        check_weight("strength", strength)
        check_choice("distribution", distribution, Noise)
        self.strength, self.distribution = strength, distribution

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.strength * unit_noise(x, self.distribution, generator)


class Corruption(ViewMaker):
    """A random fraction of the features replaced by values of other rows (SCARF: Bahri et al. 2022, Algorithm 1).

    Each feature is replaced with probability `rate` by a draw from its empirical marginal distribution: its value in a
    random row of the pool (of a pool on disk: of a sample, see `some_rows`), independently for each feature; in a
    table, for each column.

    Parameters
    ----------
    rate : float
        0 to 1.
    columns : TableColumns, optional
        Features of a table that are replaced together, from one row.
    """

    needs_pool = True

    def __init__(self, rate: float = 0.6, columns: TableColumns | None = None) -> None:
        super().__init__()
        check_fraction("rate", rate)
        self.rate, self.columns = rate, columns

    def prepare(self, pool: Rows) -> None:
        self.pool = some_rows(pool)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        pool, shape = self._pool(), tuple(x.shape)
        assert isinstance(pool, Tensor)  # vectors
        if self.columns is not None:
            replaced = self.columns.masked(x, self.rate, generator)
            return torch.where(replaced, pool.gather(0, self.columns.donors(x, len(pool), generator)), x)
        replaced = rand(shape, x, generator) < self.rate
        drawn = pool.gather(0, randint(len(pool), shape, x, generator))
        return torch.where(replaced, drawn, x)


class Mixup(ViewMaker):
    """The sample mixed with a random row: a x + (1 - a) x', a ~ U(minimum, 1) (DACL: Verma et al. 2021, section 3).

    Parameters
    ----------
    minimum : float
        Least weight of the sample, 0 to 1.
    """

    needs_pool = mixes_rows = True

    def __init__(self, minimum: float = 0.9) -> None:
        super().__init__()
        check_fraction("minimum", minimum)
        self.minimum = minimum

    def prepare(self, pool: Rows) -> None:
        self.pool = pool

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        pool = self._pool()
        return _mix(x, pool[randint(len(pool), (len(x),), x, generator)], self.minimum, generator)


class NeighborGraph(ViewMaker):
    """Base class of view makers that use a k-nearest-neighbor graph of the pool; edges are equally likely.

    The graph is the result of a `NeighborSearch`, or precomputed by the user. A precomputed graph belongs to the
    training rows; `release` removes it.
    """

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
        """Search the neighbors of the pool again, in the output of `encode`, which maps (n, ...) to (n, d)."""
        self._connect(encode(self._pool()))

    def _connect(self, coordinates: Tensor) -> None:
        # In training the encoder may run under autocast, but the search needs full precision.
        with torch.autocast(coordinates.device.type, enabled=False):
            search = NeighborSearch(coordinates, self.k)
            self.edges, facts = search.graph(), search.facts
        self.found = torch.tensor([facts.recall, facts.lists, facts.probes], dtype=torch.float64)

    def describe(self) -> dict[str, Any]:
        """``neighbor_graph``: method and recall of the search, or the size of a precomputed graph."""
        if self.graph is not None:
            isolated = int((self.graph.degrees == 0).sum())
            size = {"edges": len(self.graph.ends), "isolated_rows": isolated}
            return {"neighbor_graph": {"search": "precomputed", **size}}
        if self.edges is None or self.found is None:
            return {}
        recall, lists, probes = self.found.tolist()
        facts = SearchFacts("inverted lists", recall, int(lists), int(probes)) if lists else EXACT
        return {"neighbor_graph": {"neighbors": self.edges.shape[1], **asdict(facts)}}

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


class Neighbors(NeighborGraph):
    """A random neighbor of the sample in the k-nearest-neighbor graph.

    Parameters
    ----------
    k : int
        Neighbors of each row, excluding the row itself.
    space : callable, optional
        Maps rows to the coordinates, (n, d), in which neighbors are searched. Default: the rows themselves.
    refreshed : bool
        Whether `refresh` will be called during training.
    graph : PrecomputedGraph, optional
        Precomputed graph of the rows of the first `prepare`, used instead of a search until `release`. A row without
        neighbors is its own neighbor.
    """

    views_made = 1

    def __init__(
        self, k: int = 5, space: Space | None = None, refreshed: bool = False, graph: PrecomputedGraph | None = None
    ) -> None:
        super().__init__(k, space, refreshed, graph)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.rows(self.random_neighbors(x, index, generator))

    def pair(self, pair: Pair, *, generator: torch.Generator | None = None) -> Pair:
        """As in `ViewMaker`; the second view shows another row, so the ids of the pair change."""
        first_ids, second_ids = pair.ids or (None, None)
        neighbors = self.random_neighbors(pair.second, second_ids, generator)
        ids = None if first_ids is None else (first_ids, neighbors)
        return Pair(pair.first, self.rows(neighbors), ids, pair.local)


class NeighborMix(NeighborGraph):
    """The sample mixed with one of its k nearest rows: a x + (1 - a) x', a ~ U(minimum, 1).

    Parameters
    ----------
    k, space, refreshed, graph
        As in `Neighbors`.
    minimum : float
        Least weight of the sample, 0 to 1.
    """

    def __init__(
        self,
        k: int = 10,
        minimum: float = 0.5,
        space: Space | None = None,
        refreshed: bool = False,
        graph: PrecomputedGraph | None = None,
    ) -> None:
        super().__init__(k, space, refreshed, graph)
        check_fraction("minimum", minimum)
        self.minimum = minimum

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return _mix(x, self.rows(self.random_neighbors(x, index, generator)), self.minimum, generator)


def _mix(x: Tensor, other: Tensor, minimum: float, generator: torch.Generator | None) -> Tensor:
    weight = minimum + (1 - minimum) * rand((len(x), *[1] * (x.ndim - 1)), x, generator)
    return weight * x + (1 - weight) * other


# ---- registered names ------------------------------------------------------------------------------------------


@register("view maker", "identity", help="the sample itself")
def _identity(context: ViewContext) -> Identity:
    return Identity()


@register(
    "view maker",
    "noise",
    help="Gaussian or uniform noise of the same strength on every feature or pixel",
    domains=("vectors", "images"),
    searches="noise_strength",
)
def _noise(
    context: ViewContext, *, noise_strength: float = 1.0, noise_distribution: Noise = "gaussian"
) -> GaussianNoise:
    return GaussianNoise(noise_strength, noise_distribution)


@register(
    "view maker",
    "corruption",
    help="a fraction of the features replaced by values of other rows (SCARF)",
    domains="vectors",
    source="Bahri et al. 2022",
)
def _corruption(context: ViewContext, *, corruption_rate: float = 0.6) -> Corruption:
    return Corruption(corruption_rate, table_columns(context.stats))


@register(
    "view maker",
    "mixup",
    help="mixed with a random sample (DACL)",
    domains=("vectors", "images"),
    source="Verma et al. 2021",
)
def _mixup(context: ViewContext, *, mixup_minimum: float = 0.9) -> Mixup:
    return Mixup(mixup_minimum)


@register(
    "view maker",
    "neighbor-mix",
    help="mixed with one of the nearest samples",
    domains=("vectors", "images"),
    neighbors=True,
)
def _neighbor_mix(context: ViewContext, *, n_neighbors: int = 5, neighbor_mix_minimum: float = 0.5) -> NeighborMix:
    return NeighborMix(n_neighbors, neighbor_mix_minimum, context.space, context.refreshed, context.graph)


@register(
    "view maker",
    "neighbors",
    help="a random neighbor in the nearest-neighbor graph",
    neighbors=True,
    other_samples=True,
)
def _neighbors(context: ViewContext, *, n_neighbors: int = 5) -> Neighbors:
    return Neighbors(n_neighbors, context.space, context.refreshed, context.graph)
