"""The pi-noise generator: per-sample, per-feature noise whose shape is learned (PiNDA)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewsmith.networks.mlp import MLP
from viewsmith.views.fixed.vectors import Noise, unit_noise
from viewsmith.views.maker import ViewMaker


def inverse_norm(eps: Tensor, floor: float = 1e-3) -> Tensor:
    """The published penalty, 1 / mean_i ||eps_i||_2 over the batch of noise (B, d); a scalar (PiNDA, appendix B.4).

    Its gradient grows as 1 / norm^2, so the mean norm is kept above `floor`.
    """
    return 1 / torch.linalg.vector_norm(eps.flatten(1), dim=1).mean().clamp_min(floor)


def log_barrier(sigma: Tensor) -> Tensor:
    """Mean over features of -log(sigma), one value per sample, (B,) from (B, d).

    At a fixed root mean square it is smallest for equal noise on all features and grows without bound as a
    feature loses its noise, so the noise cannot move onto one feature.
    """
    return -sigma.flatten(1).log().mean(dim=1)


class PiNoise(ViewMaker):
    """Noise predicted from the sample: x + mu(x) + sigma(x) * e (PiNDA: equation 19; Sigma is a standard deviation).

    Parameters
    ----------
    n_features : int
    hidden : sequence of int
        Widths of the generator's hidden layers.
    distribution : {"gaussian", "uniform"}
        e has mean 0 and variance 1 in both. The paper's uniform form (2 e - 1) u has u = sqrt(3) * sigma.
    learn_mean : bool
        Predict mu; otherwise it is 0, as the authors recommend.
    strength : float
        Noise level s in scaled units: where training starts, and the level kept when `level` is "fixed".
    level : {"fixed", "free"}
        "fixed": sigma has root mean square s over the features of every sample and only its shape is learned.
        "free": the level is learned too, as published.
    random_share : float
        With a fixed level, the share of the noise power spread evenly over all features, 0 to 1.
    adversarial : bool
        Reverse the gradient of sigma: the generator raises the loss instead of lowering it.
    """

    def __init__(
        self,
        n_features: int,
        *,
        hidden: Sequence[int] = (256,),
        distribution: Noise = "gaussian",
        learn_mean: bool = False,
        strength: float = 1.0,
        level: Literal["fixed", "free"] = "fixed",
        random_share: float = 0.0,
        adversarial: bool = False,
    ) -> None:
        super().__init__()
        self.distribution: Noise = distribution
        self.learn_mean, self.strength, self.level = learn_mean, strength, level
        self.random_share, self.adversarial = random_share, adversarial
        self.network = MLP(n_features, [*hidden, n_features * (2 if learn_mean else 1)])
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        # Training starts from plain random noise of the given strength: sigma = softplus(bias) = s, mu = 0.
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        with torch.no_grad():
            last.bias[:n_features] = strength + math.log(-math.expm1(-strength))  # softplus inverted; never overflows

    def parameters_of_noise(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """sigma(x) and mu(x) (None when fixed to 0), each of the shape of `x`, in scaled units."""
        out = self.network(x)
        out = out if out.dtype == torch.float64 else out.float()
        raw, mean = out.chunk(2, dim=1) if self.learn_mean else (out, None)
        sigma = F.softplus(raw) + 1e-6
        if self.level == "fixed":
            shape = sigma.square() / sigma.square().mean(dim=1, keepdim=True)
            sigma = self.strength * (self.random_share + (1 - self.random_share) * shape).sqrt()
        if self.adversarial:
            sigma = 2 * sigma.detach() - sigma
        return sigma, mean

    def noise(self, x: Tensor, generator: torch.Generator | None = None, draws: int = 1) -> tuple[Tensor, Tensor]:
        """`draws` independent draws of the noise, (draws * B, d), and the sigma they were drawn with, (B, d)."""
        sigma, mean = self.parameters_of_noise(x)
        repeated = sigma.repeat(draws, 1)
        eps = repeated * unit_noise(repeated, self.distribution, generator)
        return (eps if mean is None else eps + mean.repeat(draws, 1)), sigma

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.noise(x, generator)[0].to(x.dtype)
