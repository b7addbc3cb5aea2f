"""View makers for vectors and for the columns of tables: fixed ones, and those from a loss or a small model."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import check_time, together
from viewsmith.core.errors import InputError, check_fraction
from viewsmith.core.registry import Fraction, Weight, register
from viewsmith.core.samples import Rows, some_rows
from viewsmith.core.tensors import HostNumbers
from viewsmith.networks.base import MLP, eval_mode
from viewsmith.views.base import PositivePair, PrecomputedGraph, ViewContext, ViewMaker, at, rand, randint, randn
from viewsmith.views.neighbors import NeighborGraph, Space

view = partial(register, "view maker")


class TableColumns(nn.Module):
    """Which features are of one column, so that views change whole columns: a category, never half an indicator."""

    def __init__(self, columns: Sequence[int], categories: Sequence[Sequence[int]] = ()) -> None:
        super().__init__()
        # Known from the configuration, so it is not saved with the weights.
        self.columns = nn.Buffer(torch.tensor(columns, dtype=torch.int64), persistent=False)
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


@view("identity", help="the sample itself")
class Identity(ViewMaker):
    """The unchanged sample."""

    static_step = True
    mixes_rows = True

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x


@view(
    "noise",
    help="Gaussian or uniform noise of the same strength on every feature or pixel",
    modalities=("vectors", "images"),
    searches="noise_strength",
    strengths=at(noise_strength=(0.25, 0.1, 1.0)),
    named={"noise_strength": "strength", "noise_distribution": "distribution"},
)
class GaussianNoise(ViewMaker):
    """Noise of the same strength on every feature: x + s * e."""

    static_step = True
    strength: Weight = 1.0
    """s, the standard deviation of the noise in scaled units (1 is the standard deviation of the data)."""
    distribution: Noise = "gaussian"
    """Distribution of the noise, with the same standard deviation."""

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
    static_step = True

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


@view(
    "mixup",
    help="mixed with a random sample (DACL)",
    modalities=("vectors", "images"),
    source="Verma et al. 2021",
    strengths=at(mixup_minimum=(0.9,)),
    named={"mixup_minimum": "minimum"},
)
class Mixup(ViewMaker):
    """The sample mixed with a random row: a x + (1 - a) x', a ~ U(minimum, 1) (DACL: Verma et al. 2021, section 3)."""

    needs_pool = mixes_rows = True
    minimum: Fraction = 0.9
    """Least weight of the sample, 0 to 1."""

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


@view(
    "corruption",
    help="a fraction of the features replaced by values of other rows (SCARF)",
    modalities="vectors",
    source="Bahri et al. 2022",
    strengths=at(corruption_rate=(0.6, 0.2)),
)
def _corruption(context: ViewContext, *, corruption_rate: float = 0.6) -> Corruption:
    return Corruption(corruption_rate, table_columns(context.statistics))


@view(
    "neighbor-mix",
    help="mixed with one of the nearest samples",
    modalities=("vectors", "images"),
    neighbors=True,
    strengths=at(neighbor_mix_minimum=(0.5,)),
)
def _neighbor_mix(context: ViewContext, *, n_neighbors: int = 5, neighbor_mix_minimum: float = 0.5) -> NeighborMix:
    return NeighborMix(n_neighbors, neighbor_mix_minimum, context.space, context.refreshed, context.graph)


@view(
    "neighbors",
    help="a random neighbor in the nearest-neighbor graph",
    neighbors=True,
    other_samples=True,
    strengths=({},),
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

    static_step = True

    def __init__(self, rate: float = 0.5, zero: Tensor | float = 0.0) -> None:
        super().__init__()
        check_fraction("rate", rate)
        self.rate = rate
        self.zero = nn.Buffer(torch.as_tensor(zero))

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        masked = rand(tuple(x.shape), x, generator) < self.rate
        return torch.where(masked, self.zero.to(x.dtype), x)


@view(
    "mask",
    help="a fraction of the features (genes) set to zero, in the units of the data",
    modalities="vectors",
    strengths=at(mask_rate=(0.5,)),
)
def _mask(context: ViewContext, *, mask_rate: Fraction = 0.5) -> Masking:
    if context.layer is None:
        return Masking(mask_rate)
    # A model that is loaded gets this value with its weights.
    return Masking(mask_rate, context.layer(torch.zeros(1, *context.row_shape))[0])


#: Maps a pair to its losses, (B,): a framework, or a function that does not change its state.
PairLoss = Callable[[PositivePair], Tensor]


@view(
    "adversarial",
    help="a gradient step that raises the loss (CLAE)",
    source="Ho and Vasconcelos 2020",
    named={"adversarial_strength": "strength"},
)
class AdversarialViews(ViewMaker):
    """A gradient step that raises the pair loss: x + s * sign(g) (CLAE: Ho and Vasconcelos 2020, section 3).

    The loss is an argument, ``maker.pair(pair, loss=framework)``: any function of a `PositivePair` that returns losses
    (B,). g is the gradient of the loss of the whole batch with respect to x, computed without autocast and with the
    framework in evaluation mode: BatchNorm uses its running statistics, and neither these nor queues and momentum
    copies change. The step itself is not differentiated.

    A single view (``maker(x, loss=framework)``) is the second view of a pair whose first view is the sample with
    Gaussian noise of standard deviation s.
    """

    needs_loss = True
    strength: Weight = 0.1
    """S in scaled units: the step of each feature ("sign") or its root mean square over the features ("length")."""
    step: Literal["sign", "length"] = "sign"
    """"sign": as above. "length": x + s * sqrt(d) * g / ||g||, which does not change features without gradient."""
    both: bool = False
    """Move both views of a pair, each by its own gradient. Default: only the second."""

    def __post_init__(self) -> None:
        self.views_made = 2 if self.both else 1

    def forward(
        self,
        x: Tensor,
        *,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
        loss: PairLoss | None = None,
    ) -> Tensor:
        noisy = torch.where(_real(x), x + self.strength * randn(x, generator), x)
        return self.pair(PositivePair(noisy, x, None if index is None else (index, index)), loss=loss).second

    def pair(
        self, pair: PositivePair, *, generator: torch.Generator | None = None, loss: PairLoss | None = None
    ) -> PositivePair:
        """The pair with its second view (or both) moved, so that the loss grows; `loss` is required."""
        if loss is None:
            raise RuntimeError("adversarial views need a pair loss: give the framework, as loss=framework")
        views = [pair.first, pair.second]
        inputs = [view.detach().requires_grad_() for view in views]
        parts = [loss] if isinstance(loss, nn.Module) else []
        with eval_mode(*parts), torch.enable_grad(), torch.autocast(pair.first.device.type, enabled=False):
            # The sum instead of the mean: the sign is the same, and small gradients do not underflow.
            total = loss(PositivePair(inputs[0], inputs[1], pair.ids, pair.local)).sum()
            gradients = torch.autograd.grad(total, inputs, allow_unused=True)
        # If the loss has no gradient with respect to the second views (MoCo's keys), the first views are moved.
        moved = (0, 1) if self.views_made == 2 else (1,) if gradients[1] is not None else (0,)
        for i in moved:
            if (gradient := gradients[i]) is not None:
                views[i] = views[i] + self._step(gradient, views[i])
        return PositivePair(views[0], views[1], pair.ids, pair.local)

    def _step(self, gradient: Tensor, x: Tensor) -> Tensor:
        gradient = torch.where(_real(x), gradient, 0)
        if self.step == "sign":
            return self.strength * gradient.sign()
        mean_square = gradient.flatten(1).square().mean(1).view(-1, *[1] * (x.ndim - 1))
        return self.strength * gradient / torch.where(mean_square > 0, mean_square, 1).sqrt()


def _real(x: Tensor) -> Tensor:
    """The positions that may change: the padding of sequences, (B, 4, L), must stay zero."""
    return (x != 0).any(1, keepdim=True) if x.ndim == 3 else torch.ones((), dtype=torch.bool, device=x.device)


class ConditionalCorruption(ViewMaker):
    """Replace a random fraction of the features by draws from a masked-prediction model of them.

    A network with one hidden layer gets rows in which each feature is set to 0 (the mean of scaled rows) with
    probability `rate`, and predicts these features (squared error, Adam with learning rate 1e-3). A view has features
    masked in the same way and replaced by the prediction plus Gaussian noise with the standard deviation of the
    feature's residual. This is corruption (SCARF) with the conditional instead of the marginal distribution. The
    network is trained by likelihood, not by the contrastive loss, so it cannot collapse.

    The first call of `prepare` trains the network; later calls do not change it. It is saved with the weights. It
    depends on the rows only, not on the seed of the run.

    Parameters
    ----------
    n_features : int
        d.
    columns : TableColumns, optional
        Features of a table that are masked and drawn together; drawn categories are the most probable value.

    Attributes
    ----------
    network : MLP
    residual : Tensor, shape (d,)
        Standard deviation of the residual of each feature.
    low, high : Tensor, shape (d,)
        Smallest and largest value of each feature of a table; other rows have none.
    numbers : HostNumbers
        ``learned``: whether the network is trained.
    """

    rate: Fraction = 0.6
    """Probability that a feature is replaced; 0.6 to 0.8 works for most data."""
    hidden: int = 512
    """Width of the hidden layer."""
    steps: int = 250
    """Steps of the training."""
    batch: int = 256
    """Rows in a step."""

    def __init__(
        self, n_features: int, rate: float = 0.6, *, columns: TableColumns | None = None, **options: Any
    ) -> None:
        super().__init__(rate, **options)
        self.columns, self.n_features = columns, n_features
        if columns is not None:
            self.low = nn.Buffer(torch.zeros(n_features))
            self.high = nn.Buffer(torch.ones(n_features))
        self.network = MLP(n_features, [self.hidden, n_features])
        # The optimizer of the method must not change this network.
        self.network.requires_grad_(False)
        self.residual = nn.Buffer(torch.ones(n_features))
        self.numbers = HostNumbers(learned=0)

    @property
    def needs_pool(self) -> bool:  # type: ignore[override]
        """Whether `prepare` must be called: only while the network is not trained."""
        return not self.numbers["learned"]

    def prepare(self, pool: Rows) -> None:
        """Train the network on the scaled training rows, (n, d), unless it is already trained."""
        pool = some_rows(pool)
        if pool.ndim != 2 or pool.shape[1] != self.n_features:
            raise InputError(
                f"conditional corruption was given rows of shape {tuple(pool.shape[1:])}, expected ({self.n_features},)"
            )
        if self.numbers["learned"]:
            return
        generator = torch.Generator(pool.device).manual_seed(0)
        self._initialize(generator)
        self.network.requires_grad_(True)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3, fused=True)
        with together(), torch.enable_grad(), torch.autocast(pool.device.type, enabled=False):
            for _ in range(self.steps):
                check_time()
                x = pool[torch.randint(len(pool), (self.batch,), device=pool.device, generator=generator)]
                masked = self._masked(x, generator)
                errors = (self._predict(x, masked) - x).square().where(masked, 0)
                optimizer.zero_grad(set_to_none=True)
                (errors.sum() / masked.sum().clamp_min(1)).backward()
                optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        self.network.requires_grad_(False)
        self.residual.copy_(self._residual_deviation(pool, generator))
        if self.columns is not None:
            self.low.copy_(pool.amin(0))
            self.high.copy_(pool.amax(0))
        self.numbers["learned"] = 1

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        if not self.numbers["learned"]:
            raise RuntimeError("ConditionalCorruption must be trained on the training rows: call prepare(rows) first")
        masked = self._masked(x, generator)
        drawn = self._predict(x, masked) + self.residual * randn(x, generator)
        if self.columns is not None:
            drawn = self.columns.snapped(drawn, self.low, self.high)
        return torch.where(masked, drawn.to(x.dtype), x)

    def _masked(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        if self.columns is not None:
            return self.columns.masked(x, self.rate, generator)
        return rand(tuple(x.shape), x, generator) < self.rate

    def _predict(self, x: Tensor, masked: Tensor) -> Tensor:
        return self.network(x.masked_fill(masked, 0))

    def _initialize(self, generator: torch.Generator) -> None:
        """Torch's default initialization, drawn from `generator` instead of the global generator."""
        for layer in self.network:
            if isinstance(layer, nn.Linear):
                bound = 1 / math.sqrt(layer.in_features)
                nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)

    @torch.no_grad()
    def _residual_deviation(self, pool: Tensor, generator: torch.Generator) -> Tensor:
        """Root mean square error of each masked feature, (d,), over 16 batches."""
        total, count = torch.zeros_like(pool[0]), torch.zeros_like(pool[0])
        for _ in range(16):
            x = pool[torch.randint(len(pool), (self.batch,), device=pool.device, generator=generator)]
            masked = self._masked(x, generator)
            total += (self._predict(x, masked) - x).square().where(masked, 0).sum(0)
            count += masked.sum(0)
        return (total / count.clamp_min(1)).sqrt()


@view(
    "conditional", help="a fraction of the features drawn from a masked-prediction model of them", modalities="vectors"
)
def _conditional(context: ViewContext, *, corruption_rate: float = 0.6) -> ConditionalCorruption:
    return ConditionalCorruption(context.row_shape[0], corruption_rate, columns=table_columns(context.statistics))
