"""The default encoder of vectors; denoisers ``denoiser(x, t, condition)`` of noised latents (B, d), and these latents;
features: principal coordinates, and random ReLU features of them."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, register
from viewsmith.core.samples import Rows
from viewsmith.networks import base
from viewsmith.networks.base import PartContext
from viewsmith.networks.features import Features
from viewsmith.networks.scaling import PrincipalAxes, SkipAxes, SkipCoordinates, WithSkip, learned_columns

# Principal axes of wide vectors, of which the encoder reads 50 (benchmarks/results/do_no_harm.jsonl).
DEFAULT_SKIP = 256


@register(
    "encoder", "mlp", help="fully connected layers", modalities="vectors", default_width=256, default_skip=DEFAULT_SKIP
)
def vector_encoder(
    context: base.EncoderContext,
    *,
    hidden: tuple[int, ...] = (256,),
    norm: Literal["batch", "none"] = "batch",
    appended_pca: Annotated[int, Bounds(ge=0)] = 0,
    appended_length: Annotated[float, Bounds(gt=0)] = 6.0,
    appended_unit: bool = False,
) -> nn.Module:
    """Build the default encoder of vectors, (B, d) to (B, n_components)."""
    d, k = context.row_shape[0], context.input_components
    further = 0 < k < appended_pca
    skipped = min(appended_pca, d if further else k or d)
    learned = learned_columns(context.n_components, skipped, appended_pca)
    layers: list[nn.Module] = [PrincipalAxes(d, k)] if k else []
    last: Literal["activated", "linear"] = "activated" if norm == "batch" else "linear"
    network: nn.Module = base.MLP(k or d, [*hidden, learned], norm=norm, last=last)
    if further:
        axes = SkipAxes(d, skipped, length=appended_length, unit=appended_unit)
        return WithSkip(nn.Sequential(*layers, network), axes)
    if skipped:
        skip = SkipCoordinates(k or d, skipped, length=appended_length, unit=appended_unit, ordered=bool(k))
        network = WithSkip(network, skip)
    return nn.Sequential(*layers, network)


TIME_WIDTH = 64


class VectorDenoiser(nn.Module):
    """A residual MLP designed for one CPU core: a training step takes about as long as one of a small encoder.

    The condition is projected once and added after the first layer and in every block except the first. The time
    determines scale and shift after each block's norm (FiLM: Perez et al. 2018) and, per feature, the weight of the
    noised latents in the prediction. In trials, adding the condition was at least as good as scales that depend on both
    time and condition, with less than half the work. The network predicts 0 before training.

    Designed for "v" predictions and a learning rate of about 4e-3 at batch size 256.
    """

    def __init__(self, n_features: int, condition: int, *, width: int = 192, blocks: int = 2) -> None:
        super().__init__()
        self.time = base.TimestepEmbedding(TIME_WIDTH)
        self.condition = nn.Linear(condition, width)
        self.first = nn.Linear(n_features, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(blocks))
        self.last = base.zero_initialized(nn.Linear(width, n_features))
        self.input_weight = base.zero_initialized(nn.Linear(TIME_WIDTH, n_features))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, d) from noised latents (B, d), times (B,), 0 to 999, and conditions (B, c)."""
        time, projected = self.time(t), self.condition(condition)
        h = self.first(x) + projected
        for number, block in enumerate(self.blocks):
            # The input of the first block contains the condition: adding it again made learning slower on some data.
            h = block(h, time, projected if number else None)
        return self.last(_row_norm(h)) + self.input_weight(time) * x


class _Block(nn.Module):
    """``h + outer(SiLU(inner((1 + scale) * norm(h) + shift + condition)))``; the time determines scale and shift."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulate = base.Modulation(TIME_WIDTH, width)
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h: Tensor, time: Tensor, condition: Tensor | None) -> Tensor:
        return h + self.outer(F.silu(self.inner(self.modulate(_row_norm(h), time, condition))))


class PublishedVectorDenoiser(nn.Module):
    """DiffAug's network for vectors (Zang et al. 2024, listing 2), designed for "eps" predictions.

    Eight blocks d - width - d, with the outputs of earlier blocks added to later ones; time and condition are added to
    the input of every block. Where the listing and the authors' code differ, this class follows the code: the condition
    has separate layers, and the first block does not start with an activation and a norm. The InstanceNorm of (B, d) in
    the code is a norm of each row without scale and shift.

    As published, its last layer is initialized randomly: unlike the other denoisers it does not predict 0 before
    training.
    """

    def __init__(self, n_features: int, condition: int, *, width: int = 2000) -> None:
        super().__init__()
        self.time = nn.Embedding(1000, n_features)
        widths = [condition, 200, 200, n_features]
        first, second, third = (nn.Linear(n_in, n_out) for n_in, n_out in itertools.pairwise(widths))
        self.condition = nn.Sequential(first, nn.LeakyReLU(), second, nn.LeakyReLU(), third)
        self.blocks = nn.ModuleList(_PublishedBlock(n_features, width, leading=number > 0) for number in range(8))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, d) from noised latents (B, d), times (B,), 0 to 999 in whole steps, and conditions (B, c)."""
        c = self.time(t.long()) + self.condition(condition)
        e1 = self.blocks[0](x + c)
        e2 = self.blocks[1](e1 + c) + e1
        e3 = self.blocks[2](e2 + c) + e1 + e2
        e4 = self.blocks[3](e3 + c) + e1 + e2 + e3
        d1 = self.blocks[4](e4 + c)
        d2 = self.blocks[5](d1 + c) + e3 + d1
        d3 = self.blocks[6](d2 + c) + e2 + d1 + d2
        return self.blocks[7](d3 + c) + e1 + d1 + d2 + d3


class _PublishedBlock(nn.Module):
    """LeakyReLU - norm - Linear(d, width) - LeakyReLU - norm - Linear(width, d); the first two only if `leading`."""

    def __init__(self, n_features: int, width: int, *, leading: bool) -> None:
        super().__init__()
        self.leading = leading
        self.widen, self.narrow = nn.Linear(n_features, width), nn.Linear(width, n_features)

    def forward(self, h: Tensor) -> Tensor:
        if self.leading:
            h = _row_norm(F.leaky_relu(h))
        return self.narrow(_row_norm(F.leaky_relu(self.widen(h))))


def _row_norm(h: Tensor) -> Tensor:
    """Normalize each row to mean 0 and variance 1."""
    return F.layer_norm(h, h.shape[1:])


# Values of the training rows processed at a time.
BLOCK = 1 << 22


class VectorLatents(base.Latents):
    """Latents of vectors (B, d): centered and divided by one scale, so that they have mean 0 and root mean square 1.

    The ratios of the features' scales do not change. If the encoder starts with principal axes, the latents are the
    coordinates on these axes, so that the diffusion model generates 50 values instead of thousands. They are decoded by
    the linear regression of the rows on their latents, which has the smallest squared error of all linear decoders;
    ``encode(decode(u))`` is u.
    """

    def __init__(self, n_features: int, axes: PrincipalAxes | None = None) -> None:
        super().__init__()
        # The axes belong to the encoder, which saves them.
        self.source = None if axes is None else base.Reference(axes)
        self.n_latents = n_features if axes is None else axes.axes.shape[1]
        projection = (0, 0) if axes is None else (n_features, self.n_latents)
        self.mean = nn.Buffer(torch.zeros(n_features))
        self.scale = nn.Buffer(torch.ones(()))
        self.low = nn.Buffer(torch.full((self.n_latents,), -torch.inf))
        self.high = nn.Buffer(torch.full((self.n_latents,), torch.inf))
        self.axes = nn.Buffer(torch.zeros(projection))
        self.back = nn.Buffer(torch.zeros(projection[::-1]))

    @torch.no_grad()
    def fit(self, rows: Rows) -> None:
        """Fit center, scale, range and decoder to scaled training rows (n, d), block by block."""
        shape = tuple(rows[:1].shape)
        if shape != (1, len(self.mean)):
            raise InputError(
                f"the latents of vectors were given {len(rows)} rows of shape {shape[1:]}, expected at least one of "
                f"({len(self.mean)},)"
            )
        total = torch.zeros_like(self.mean, dtype=torch.float64)
        for block in _blocks(rows):
            total += block.sum(0)  # within a block float32, ten times faster on a CPU; over blocks float64
        self.mean.copy_(total / len(rows))
        if self.source is not None:
            self.axes.copy_(self.source.module.axes)
        self.scale.fill_(1)
        m = self.n_latents
        power = torch.zeros((m, m) if self._projects else (), dtype=torch.float64, device=self.mean.device)
        cross = torch.zeros(self.back.shape, dtype=torch.float64, device=self.mean.device)
        low, high = torch.full_like(self.low, torch.inf), torch.full_like(self.high, -torch.inf)
        for block in _blocks(rows):
            latents = self.encode(block)
            low, high = torch.minimum(low, latents.amin(0)), torch.maximum(high, latents.amax(0))
            if self._projects:
                power += latents.T @ latents
                cross += latents.T @ (block - self.mean)
            else:
                power += torch.linalg.vector_norm(latents).square()
        if self._projects:
            self.back.copy_(torch.linalg.pinv(power, hermitian=True) @ cross)
            power = power.trace()
        self.scale.copy_((power / (m * len(rows))).sqrt())
        if self.scale == 0:  # all rows are equal
            self.scale.fill_(1)
        self.low.copy_(low / self.scale)
        self.high.copy_(high / self.scale)

    @property
    def _projects(self) -> bool:
        return self.axes.numel() > 0

    def encode(self, x: Tensor) -> Tensor:
        """Latents (B, m) of scaled rows (B, d)."""
        if not self._projects:
            return (x - self.mean) / self.scale
        # (x - mean) @ axes without a centered copy of wide rows.
        return torch.addmm(-(self.mean @ self.axes), x, self.axes) / self.scale

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        """Scaled rows (B, d) from latents (B, m), in the dtype of `x`; constant features get their constant."""
        u = self.scale * u
        return (torch.addmm(self.mean, u, self.back) if self._projects else u + self.mean).to(x.dtype)

    def clip(self, u: Tensor) -> Tensor:
        """Latents clipped to the range of the training rows' latents."""
        return u.clamp(self.low, self.high)


def _blocks(rows: Rows) -> Iterator[Tensor]:
    """Rows (n, d) in blocks of about `BLOCK` values."""
    size = max(1, BLOCK // rows[:1].numel())
    return (rows[start : start + size] for start in range(0, len(rows), size))


@register(
    "features",
    "random-relu",
    help="principal coordinates, and random ReLU features of them",
    modalities="vectors",
    source="Rahimi and Recht 2008; Cho and Saul 2009",
)
class RandomReLU(Features):
    """Principal coordinates z of vectors (B, d), and relu(w z + b) with random w and b.

    Random features of a shallow network (Rahimi and Recht 2008, Weighted sums of random kitchen sinks), whose inner
    products are near those of an arc-cosine kernel (Cho and Saul 2009). Coordinates have root mean square 1; w is
    normal with variance 1 / m, so that w z has variance 1, and b is normal with variance 1.
    """

    coordinates: Annotated[int, Bounds(ge=1)] = 64
    """Number m of principal coordinates, at most d."""
    width: Annotated[int, Bounds(ge=1)] = 1500
    """Number of random features."""

    def set_up(self, context: PartContext) -> None:
        coordinates = min(self.coordinates, context.channels)
        self.axes = PrincipalAxes(context.channels, coordinates)
        self.projection = nn.Buffer(torch.zeros(coordinates, self.width))
        self.offset = nn.Buffer(torch.zeros(self.width))
        self.n_features = coordinates + self.width

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        self.axes.fit(x.to(self.axes.axes))
        if bool((x.amax(0) == x.amin(0)).all()):  # rows that do not differ have no direction
            self.axes.axes.zero_()
        self.projection.copy_(torch.randn(self.projection.shape, generator=generator) * len(self.projection) ** -0.5)
        self.offset.copy_(torch.randn(self.offset.shape, generator=generator))

    def block_size(self, x: Tensor) -> int:
        return 1024

    def of_block(self, x: Tensor) -> Tensor:
        coordinates = torch.addmm(-(self.axes.mean @ self.axes.axes), x, self.axes.axes)
        return torch.cat([coordinates, torch.addmm(self.offset, coordinates, self.projection).relu()], dim=1)
