"""Fixed (not learned) view makers for vectors and for the columns of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import check_choice, check_fraction, check_weight
from viewsmith.core.registry import Bounds, register
from viewsmith.core.rows import Rows, some_rows
from viewsmith.views.base import PositivePair, PrecomputedGraph, ViewContext, ViewMaker, rand, randint, randn
from viewsmith.views.neighbors import NeighborGraph, Space


class TableColumns(nn.Module):
    """Which features are of one column, so that views change whole columns: a category, never half an indicator."""

    columns: Tensor

    def __init__(self, columns: Sequence[int], categories: Sequence[Sequence[int]] = ()) -> None:
        super().__init__()
        # Known from the configuration, so it is not saved with the weights.
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.int64), persistent=False)
        self.count = max(columns) + 1
        self.categories = [(int(first), int(end)) for first, end in categories]

    def masked(self, x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
        """Features of columns that are chosen with probability `rate` each, bool (B, d)."""
        return (rand((len(x), self.count), x, generator) < rate)[:, self.columns]

    def donors(self, x: Tensor, n_rows: int, generator: torch.Generator | None) -> Tensor:
        """For each feature a random row of `n_rows`, int64 (B, d), the same row for all features of a column."""
        return randint(n_rows, (len(x), self.count), x, generator)[:, self.columns]

    def snapped(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Rows whose categories are the value with the largest indicator."""
        parts, done = [], 0
        span = torch.where(high > low, high - low, 1.0)
        for first, end in self.categories:
            size = torch.where(high > low, (x - low) / span, -torch.inf)[:, first:end]
            hot = torch.arange(end - first, device=x.device) == size.argmax(dim=1, keepdim=True)
            parts += [x[:, done:first], torch.where(hot, high[first:end], low[first:end])]
            done = end
        return torch.cat([*parts, x[:, done:]], dim=1)


def table_columns(statistics: Mapping[str, Any]) -> TableColumns | None:
    """The columns of a table from the statistics of its rows (`ViewContext.statistics`); None for other rows."""
    return TableColumns(statistics["columns"], statistics["categories"]) if "columns" in statistics else None


Noise = Literal["gaussian", "uniform"]


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

    def pair(self, pair: PositivePair, *, generator: torch.Generator | None = None) -> PositivePair:
        """As in `ViewMaker`; the second view shows another row, so the ids of the pair change."""
        first_ids, second_ids = pair.ids or (None, None)
        neighbors = self.random_neighbors(pair.second, second_ids, generator)
        ids = None if first_ids is None else (first_ids, neighbors)
        return PositivePair(pair.first, self.rows(neighbors), ids, pair.local)


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
    modalities=("vectors", "images"),
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
    modalities="vectors",
    source="Bahri et al. 2022",
)
def _corruption(context: ViewContext, *, corruption_rate: float = 0.6) -> Corruption:
    return Corruption(corruption_rate, table_columns(context.statistics))


@register(
    "view maker",
    "mixup",
    help="mixed with a random sample (DACL)",
    modalities=("vectors", "images"),
    source="Verma et al. 2021",
)
def _mixup(context: ViewContext, *, mixup_minimum: float = 0.9) -> Mixup:
    return Mixup(mixup_minimum)


@register(
    "view maker",
    "neighbor-mix",
    help="mixed with one of the nearest samples",
    modalities=("vectors", "images"),
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


class Masking(ViewMaker):
    """Each feature is set to zero with probability `rate`, independently of the others.

    For cells this is random masking of genes (Richter et al. 2025, scSSL-Bench): a masked gene looks like one that was
    not detected.

    Parameters
    ----------
    rate : float
        0 to 1.
    zero : Tensor, shape (d,), or float
        Zero in scaled units. Default: 0, which is right for scaled rows that are not centered.
    """

    zero: Tensor

    def __init__(self, rate: float = 0.5, zero: Tensor | float = 0.0) -> None:
        super().__init__()
        check_fraction("rate", rate)
        self.rate = rate
        self.register_buffer("zero", torch.as_tensor(zero))

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        masked = rand(tuple(x.shape), x, generator) < self.rate
        return torch.where(masked, self.zero.to(x.dtype), x)


@register(
    "view maker",
    "mask",
    help="a fraction of the features (genes) set to zero, in the units of the data",
    modalities="vectors",
)
def _mask(context: ViewContext, *, mask_rate: Annotated[float, Bounds(ge=0, le=1)] = 0.5) -> Masking:
    if context.layer is None:
        return Masking(mask_rate)
    # A model that is loaded gets this value with its weights.
    return Masking(mask_rate, context.layer(torch.zeros(1, *context.row_shape))[0])
