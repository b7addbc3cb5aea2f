"""The pi-noise generator: noise on every feature, pixel or base, with learned strengths for each sample (PiNDA).

Its networks map images (B, C, H, W) or DNA (B, 4, L) to unconstrained maps, (B, outputs, ...) with the spatial size of
the sample, and end in a layer `last` with a bias. None has BatchNorm, because the noise of a view would then depend on
the other samples of the batch.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Annotated, Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Fraction, Positive, register
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.modalities.images.encoders import SMALLEST, BasicBlock, Bottleneck, ResNet, Stem
from viewsmith.modalities.vectors.views import Noise, unit_noise
from viewsmith.networks.base import MLP, NoiseContext, enlarged, eval_mode, find_stem
from viewsmith.views.base import ViewMaker, randn


def _block(n_in: int, n_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.GroupNorm(8, n_out), nn.ReLU(inplace=True)
    )


class LowResolutionMap(nn.Module):
    """A map computed at a quarter of the resolution and enlarged; about a hundredth of the work of a ResNet-18."""

    def __init__(self, channels: int, outputs: int | None = None, *, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(channels, width, 2), _block(width, 2 * width, 2))
        self.last = nn.Conv2d(2 * width, channels if outputs is None else outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return enlarged(self.last(self.body(x)), x.shape[2:])


class UNet(nn.Module):
    """A small U-Net for maps at full resolution (Ronneberger et al. 2015, arXiv:1505.04597)."""

    def __init__(self, channels: int, outputs: int | None = None, *, width: int = 16) -> None:
        super().__init__()
        self.down1 = _block(channels, width)
        self.down2 = nn.Sequential(_block(width, 2 * width, 2), _block(2 * width, 2 * width))
        self.down3 = nn.Sequential(_block(2 * width, 4 * width, 2), _block(4 * width, 4 * width))
        self.up2 = _block(6 * width, 2 * width)
        self.up1 = _block(3 * width, width)
        self.last = nn.Conv2d(width, channels if outputs is None else outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        full = self.down1(x)
        half = self.down2(full)
        h = self.down3(half)
        h = self.up2(torch.cat([half, enlarged(h, half.shape[2:])], dim=1))
        h = self.up1(torch.cat([full, enlarged(h, full.shape[2:])], dim=1))
        return self.last(h)


class ResNetMap(nn.Module):
    """A ResNet, as published, and a decoder, which is not published; here each of its stages doubles the map size."""

    def __init__(
        self, channels: int, outputs: int | None = None, *, stem: Stem = "small", depth: Literal[18, 50] = 18
    ) -> None:
        super().__init__()
        block, numbers = (BasicBlock, (2, 2, 2, 2)) if depth == 18 else (Bottleneck, (3, 4, 6, 3))
        self.trunk = ResNet(block, numbers, channels=channels, stem=stem, norm=lambda n: nn.GroupNorm(32, n))
        widths = [self.trunk.n_components, 128, 64, 32]
        self.decoder = nn.ModuleList(_block(n_in, n_out) for n_in, n_out in itertools.pairwise(widths))
        self.last = nn.Conv2d(widths[-1], channels if outputs is None else outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.trunk.stages(x)
        for block in self.decoder:
            h = block(enlarged(h, [min(2 * n, most) for n, most in zip(h.shape[2:], x.shape[2:], strict=True)]))
        return enlarged(self.last(h), x.shape[2:])


class SharedTrunkMap(nn.Module):
    """A small head on the first layer of the encoder (future work of PiNDA, section 5).

    Two convolutions, the second 1x1. The BatchNorms of the encoder use their running statistics here without updating
    them. The encoder is not a submodule: its weights are not saved here.

    `stem` is a bound method of the encoder, (B, C, H, W) to (B, stem_width, H', W'); with `detach` the gradient from
    the noise to the encoder stops.
    """

    def __init__(
        self,
        stem: Callable[[Tensor], Tensor],
        stem_width: int,
        outputs: int,
        *,
        dims: int = 2,
        detach: bool = True,
        width: int = 32,
    ) -> None:
        super().__init__()
        # copy.deepcopy of a model binds a method of the encoder to the copied encoder, but not other functions.
        if not (isinstance(stem, MethodType) and isinstance(stem.__self__, nn.Module)):
            raise InputError(f"stem is {stem!r}, expected a method of the encoder, as in encoder.stem")
        convolution = nn.Conv1d if dims == 1 else nn.Conv2d
        self.stem: MethodType = stem
        self.detach = detach
        self.head = nn.Sequential(convolution(stem_width, width, 3, padding=1), nn.ReLU(inplace=True))
        self.last = convolution(width, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        learns = torch.is_grad_enabled() and not self.detach
        encoder: Any = self.stem.__self__
        norms = (part for part in encoder.modules() if isinstance(part, _BatchNorm))
        with torch.set_grad_enabled(learns), eval_mode(*norms):
            h = self.stem(x)
        return enlarged(self.last(self.head(h)), x.shape[2:])


class SequenceMap(nn.Module):
    """Three convolutions along letters, (B, C, L) to (B, outputs, L); no output depends on padding."""

    def __init__(self, outputs: int = 4, *, width: int = 32, kernel: int = 9, channels: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv1d(channels, width, kernel, padding=kernel // 2)
        self.second = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.last = nn.Conv1d(width, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x)) * real_positions(x)[:, None]
        return self.last(F.relu(self.second(h)))


class SpectralMap(nn.Module):
    """Fully connected layers on the means of spectra (B, 1, T) in parts of the axis, to knots between which the map
    (B, outputs, T) is linear.

    Noise that it scales is smooth along the axis (`correlated`): values beside each other change together, as by
    baselines, and noise of single points is what derivatives amplify.
    """

    padded = False  # zeros are values

    def __init__(self, points: int, outputs: int = 1, *, hidden: Sequence[int] = (64,), length: float = 0.25) -> None:
        super().__init__()
        self.knots, self.length = min(points, KNOTS), length * points
        self.body = MLP(self.knots, hidden, last="activated")
        self.last = nn.Linear(hidden[-1] if hidden else self.knots, outputs * self.knots)

    def forward(self, x: Tensor) -> Tensor:
        h = self.last(self.body(F.adaptive_avg_pool1d(x, self.knots).flatten(1)))
        return F.interpolate(h.unflatten(1, (-1, self.knots)), x.shape[2], mode="linear", align_corners=True)

    def correlated(self, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """Gaussian noise (B, C, T) of variance 1 in the shape of `like`: bumps of deviation `length`, evenly spaced, of
        Gaussian heights."""
        if self.length < 0.5:
            return randn(like, generator)
        points = like.shape[2]
        bumps = min(points, MOST_BUMPS, 1 + math.ceil(4 * points / self.length))
        centers = torch.linspace(0, points - 1, bumps, device=like.device, dtype=like.dtype)
        at = torch.arange(points, device=like.device, dtype=like.dtype)
        weights = torch.exp(-0.5 * ((at - centers[:, None]) / self.length).square())
        heights = randn(like[..., :1].expand(*like.shape[:2], bumps), generator)
        return heights @ (weights / weights.square().sum(0).sqrt())


KNOTS, MOST_BUMPS = 32, 2048  # of maps of spectra, and of their noise


@register("noise generator", "mlp", help="fully connected layers", modalities="vectors", default=True)
def _mlp(context: NoiseContext, *, generator_hidden: tuple[int, ...] = (64,)) -> MLP:
    return MLP(context.channels, [*generator_hidden, context.outputs])


@register("noise generator", "low-resolution", help="a small map, enlarged", modalities="images", default=True)
def _low_resolution(context: NoiseContext) -> LowResolutionMap:
    return LowResolutionMap(context.channels, context.outputs)


@register("noise generator", "unet", help="a small U-Net", modalities="images")
def _unet(context: NoiseContext) -> UNet:
    return UNet(context.channels, context.outputs)


@register(
    "noise generator", "resnet18", help="the trunk of a ResNet-18, as published", modalities="images", smallest=SMALLEST
)
def _resnet18(context: NoiseContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNetMap:
    return ResNetMap(context.channels, context.outputs, stem=find_stem(stem, context.row_shape))


@register(
    "noise generator", "resnet50", help="the trunk of a ResNet-50, as published", modalities="images", smallest=SMALLEST
)
def _resnet50(context: NoiseContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNetMap:
    return ResNetMap(context.channels, context.outputs, stem=find_stem(stem, context.row_shape), depth=50)


@register(
    "noise generator",
    "sequence",
    help="convolutions over the letters",
    modalities=("dna", "proteins", "letters:"),
    default=True,
)
def _sequence(context: NoiseContext) -> SequenceMap:
    return SequenceMap(context.outputs, channels=context.channels)


@register(
    "noise generator",
    "spectral",
    help="fully connected layers; noise that is smooth along the axis",
    modalities="spectra",
    default=True,
)
def _spectral(
    context: NoiseContext,
    *,
    generator_hidden: tuple[int, ...] = (64,),
    noise_length: Annotated[float, Bounds(ge=0, le=10)] = 0.25,
) -> SpectralMap:
    """Build the network; `noise_length` is that over which noise goes together, as a part of the axis."""
    return SpectralMap(context.row_shape[1], context.outputs, hidden=generator_hidden, length=noise_length)


@register(
    "noise generator",
    "shared",
    help="a small head on the encoder's first layer",
    modalities=("images", "dna", "proteins", "letters:"),
    needs_first_stage=True,
)
def _shared(context: NoiseContext) -> SharedTrunkMap:
    trunk: Any = context.encoder
    return SharedTrunkMap(trunk.stem, trunk.stem_width, context.outputs, dims=len(context.row_shape[:2]))


def inverse_norm(eps: Tensor) -> Tensor:
    """The published penalty ``1 / mean_i ||eps_i||_2`` (PiNDA, appendix B.4)."""
    return 1 / torch.linalg.vector_norm(eps.flatten(1), dim=1).mean().clamp_min(1e-3)


def log_barrier(sigma: Tensor, real: Tensor | None = None) -> Tensor:
    """Mean over features of ``-log(sigma)``: grows without bound as the noise of a feature goes to 0."""
    # Padding has sigma 0: the gradient of its logarithm would be NaN, although it is not in the mean.
    positive = sigma if real is None else torch.where(real, sigma, 1)
    return -_mean(positive.log(), real)


def _mean(values: Tensor, real: Tensor | None) -> Tensor:
    """Mean of each sample, (B,), over its positions without padding."""
    if real is None:
        return values.flatten(1).mean(dim=1)
    real = real.expand_as(values)
    return torch.where(real, values, 0).flatten(1).sum(dim=1) / real.flatten(1).sum(dim=1).clamp_min(1)


Level = Literal["fixed", "drawn", "free"]


class PiNoise(ViewMaker):
    """Noise predicted from the sample: x + mu(x) + sigma(x) * e (PiNDA: equation 19; Sigma is a standard deviation).

    For vectors (B, d), images (B, C, H, W) and DNA (B, 4, L). The padding of DNA gets no noise and is left out of all
    means.

    Parameters
    ----------
    network : nn.Module
        Maps samples (B, C, ...) to unconstrained maps (B, k, ...): k is C, or 1 for noise of equal strength in all
        channels; twice that with `learn_mean`. Its last layer (`network.last` or the end of a Sequential) must have a
        bias; its weights and bias are set here.

    Raises
    ------
    InputError
        The last layer of the network has no bias.
    """

    static_step = True
    distribution: Noise = "gaussian"
    """e has mean 0 and variance 1 in both cases. The paper's uniform form (2 e - 1) u has u = sqrt(3) * sigma."""
    learn_mean: bool = False
    """Predict mu; otherwise it is 0, as the authors recommend."""
    strength: Positive = 1.0
    """Noise level s in scaled units: the level at the start of training, and always if `level` is "fixed"."""
    level: Level = "fixed"
    """"fixed": sigma has root mean square s over the features of each sample; only its distribution over the features
    is learned. "drawn": like "fixed", and every draw of the noise has root mean square s, too (figure 1: noise is
    normalized before the contrast). "free": the level is learned, too, as published."""
    random_fraction: Fraction = 0.0
    """With a fixed level, the fraction of the noise power that is distributed evenly over all features."""
    adversarial: bool = False
    """Reverse the gradient of sigma, so that the generator increases the loss."""

    def __init__(self, network: nn.Module, **options: Any) -> None:
        super().__init__(**options)
        self.network = network
        weight, bias = _last_layer(network)
        # At initialization the noise has the given strength everywhere: sigma = softplus(bias) = s, mu = 0.
        nn.init.zeros_(weight)
        nn.init.zeros_(bias)
        with torch.no_grad():
            # The inverse of softplus, in a form that does not overflow.
            initial = self.strength + math.log(-math.expm1(-self.strength))
            bias.chunk(2 if self.learn_mean else 1)[0].fill_(initial)

    @classmethod
    def for_vectors(
        cls, n_features: int, *, hidden: Sequence[int] = (256,), learn_mean: bool = False, **options: Any
    ) -> Self:
        """A noise generator of vectors (B, n_features): an MLP with hidden widths `hidden`; options as in the class."""
        network = MLP(n_features, [*hidden, n_features * (2 if learn_mean else 1)])
        return cls(network, learn_mean=learn_mean, **options)

    def real(self, x: Tensor) -> Tensor | None:
        """Positions that get noise: bool (B, 1, L) for DNA (B, 4, L), which may be padded; None means all."""
        return real_positions(x)[:, None] if x.ndim == 3 and getattr(self.network, "padded", True) else None

    def unit(self, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draws with mean 0 and variance 1 in the shape of `like`, that go together along an axis if the network says
        so: smooth uniform noise is the distribution function of smooth Gaussian noise."""
        correlated = getattr(self.network, "correlated", None)
        if correlated is None:
            return unit_noise(like, self.distribution, generator)
        found: Tensor = correlated(like, generator)
        return found if self.distribution == "gaussian" else (found / 2**0.5).erf() * 3**0.5

    def noise_parameters(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """sigma(x) and mu(x) (None if it is 0), with the shape of `x`, in scaled units; 0 for padding."""
        out = self.network(x)
        out = out if out.dtype == torch.float64 else out.float()
        raw, mean = out.chunk(2, dim=1) if self.learn_mean else (out, None)
        real = self.real(x)
        sigma = F.softplus(raw) + 1e-6
        if self.level != "free":
            power = sigma.square()
            # The lower bound, smaller than any level, avoids 0 / 0 for a sequence without a base.
            level = _mean(power, real).clamp_min(1e-13).view(-1, *[1] * (x.ndim - 1))
            sigma = self.strength * (self.random_fraction + (1 - self.random_fraction) * power / level).sqrt()
        if real is not None:
            sigma, mean = torch.where(real, sigma, 0), None if mean is None else torch.where(real, mean, 0)
        return sigma.expand_as(x), None if mean is None else mean.expand_as(x)

    def noise(
        self, x: Tensor, generator: torch.Generator | None = None, draws: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw noise `draws` times: eps (draws * B, ...) to add to scaled samples, sigma (B, ...), and eps for
        penalties, without an adversarial generator's reversed gradient."""
        sigma, mean = self.noise_parameters(x)
        copies = (draws, *[1] * (x.ndim - 1))
        deviation = sigma.repeat(copies)
        unit = self.unit(deviation, generator)
        shift = None if mean is None else mean.repeat(copies)
        real = self.real(x) if self.level == "drawn" else None
        real = None if real is None else real.repeat(copies)
        penalized = self._noise(deviation, unit, shift, real)
        if not self.adversarial:
            return penalized, sigma, penalized
        return self._noise(2 * deviation.detach() - deviation, unit, shift, real), sigma, penalized

    def _noise(self, deviation: Tensor, unit: Tensor, shift: Tensor | None, real: Tensor | None) -> Tensor:
        """Noise from standard noise; normalized if `level` is "drawn"."""
        eps = deviation * unit
        eps = eps if shift is None else eps + shift
        if self.level != "drawn":
            return eps
        power = _mean(eps.square(), real).clamp_min(1e-13)
        return self.strength * eps * power.rsqrt().view(-1, *[1] * (eps.ndim - 1))

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.noise(x, generator)[0].to(x.dtype)


def _last_layer(network: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of the last layer."""
    last = network[-1] if isinstance(network, nn.Sequential) else getattr(network, "last", None)
    weight, bias = getattr(last, "weight", None), getattr(last, "bias", None)
    if not (isinstance(weight, Tensor) and isinstance(bias, Tensor)):
        raise InputError(
            f"the noise generator {type(network).__name__} ends in {type(last).__name__}, expected a linear or "
            "convolutional layer with a bias, as its attribute `last` or at the end of a Sequential"
        )
    return weight, bias
