"""The pi-noise generator: noise on every feature, pixel or base, with learned strengths for each sample (PiNDA)."""

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewsmith.core.errors import InputError
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.modalities.vectors.views import Noise, unit_noise
from viewsmith.networks.base import MLP
from viewsmith.views.base import ViewMaker


def inverse_norm(eps: Tensor, floor: float = 1e-3) -> Tensor:
    """The published penalty ``1 / mean_i ||eps_i||_2`` (PiNDA, appendix B.4)."""
    return 1 / torch.linalg.vector_norm(eps.flatten(1), dim=1).mean().clamp_min(floor)


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
    distribution : {"gaussian", "uniform"}
        e has mean 0 and variance 1 in both cases. The paper's uniform form (2 e - 1) u has u = sqrt(3) * sigma.
    learn_mean : bool
        Predict mu; otherwise it is 0, as the authors recommend.
    strength : float
        Noise level s in scaled units: the level at the start of training, and always if `level` is "fixed".
    level : {"fixed", "drawn", "free"}
        "fixed": sigma has root mean square s over the features of each sample; only its distribution over the features
        is learned. "drawn": like "fixed", and every draw of the noise has root mean square s, too (figure 1: noise is
        normalized before the contrast). "free": the level is learned, too, as published.
    random_fraction : float
        With a fixed level, the fraction of the noise power that is distributed evenly over all features, 0 to 1.
    adversarial : bool
        Reverse the gradient of sigma, so that the generator increases the loss.

    Raises
    ------
    InputError
        The last layer of the network has no bias.
    """

    static_step = True

    def __init__(
        self,
        network: nn.Module,
        *,
        distribution: Noise = "gaussian",
        learn_mean: bool = False,
        strength: float = 1.0,
        level: Level = "fixed",
        random_fraction: float = 0.0,
        adversarial: bool = False,
    ) -> None:
        super().__init__()
        self.distribution: Noise = distribution
        self.learn_mean, self.strength = learn_mean, strength
        self.level: Level = level
        self.random_fraction, self.adversarial = random_fraction, adversarial
        self.network = network
        weight, bias = _last_layer(network)
        # At initialization the noise has the given strength everywhere: sigma = softplus(bias) = s, mu = 0.
        nn.init.zeros_(weight)
        nn.init.zeros_(bias)
        with torch.no_grad():
            # The inverse of softplus, in a form that does not overflow.
            bias.chunk(2 if learn_mean else 1)[0].fill_(strength + math.log(-math.expm1(-strength)))

    @classmethod
    def for_vectors(
        cls, n_features: int, *, hidden: Sequence[int] = (256,), learn_mean: bool = False, **options: Any
    ) -> Self:
        """A noise generator of vectors (B, n_features): an MLP with hidden widths `hidden`; options as in the class."""
        network = MLP(n_features, [*hidden, n_features * (2 if learn_mean else 1)])
        return cls(network, learn_mean=learn_mean, **options)

    @staticmethod
    def real(x: Tensor) -> Tensor | None:
        """Positions that get noise: bool (B, 1, L) for DNA (B, 4, L), which may be padded; None means all."""
        return real_positions(x)[:, None] if x.ndim == 3 else None

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
        unit = unit_noise(deviation, self.distribution, generator)
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
