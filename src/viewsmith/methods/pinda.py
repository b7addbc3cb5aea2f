"""PiNDA: learn the noise that helps (Data Augmentation of Contrastive Learning is Estimating Positive-incentive Noise).

Symbols: x a sample, f the encoder with its head, a the framework's other augmentation (identity where there is
none), psi the generator, eps = mu + sigma * e the noise, e ~ N(0, I). One joint update moves encoder and generator
through the reparameterised noise (equation 17, Algorithms 1 and 2).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.frameworks.simclr import SimCLR
from viewsmith.views.pair import Pair, ViewPair
from viewsmith.views.pi_noise import PiNoise, inverse_norm, log_barrier

Penalty = Literal["none", "inverse_norm", "log_barrier"]


class PiNDAMethod(Method):
    """A framework whose views carry learned noise.

    Parameters
    ----------
    framework : SimCLR
        Encoder, head and pair loss.
    views : ViewPair
        The other augmentation a.
    noise : PiNoise
        The generator psi.
    two_sided : bool
        Noise on both views; otherwise on the first alone, as in Algorithm 1.
    penalty : {"none", "inverse_norm", "log_barrier"}
        Added to the loss, times `penalty_weight`; see `viewsmith.views.pi_noise`.
    epochs : int
    optimizer : Optimizer
    """

    def __init__(
        self,
        framework: SimCLR,
        views: ViewPair,
        noise: PiNoise,
        *,
        two_sided: bool,
        penalty: Penalty,
        penalty_weight: float,
        epochs: int,
        optimizer: Optimizer,
    ) -> None:
        super().__init__()
        self.framework, self.views, self.noise = framework, views, noise
        self.two_sided = two_sided
        self.penalty: Penalty = penalty
        self.penalty_weight = penalty_weight
        self.epochs, self.optimizer = epochs, optimizer

    def phases(self) -> list[Phase]:
        return [Phase("train", self.epochs, [Update("encoder and noise", self, optimizer=self.optimizer)])]

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        pair = self.views(batch.x, index=batch.index, generator=batch.generator)
        if not self.two_sided:
            eps, sigma = self.noise.noise(pair.first, batch.generator)
            first, second = pair.first + eps, pair.second
        else:
            # One pass of the generator: of the sample where both views start from it, else of both together.
            same = pair.first is pair.second
            inputs = pair.first if same else torch.cat([pair.first, pair.second])
            eps, sigma = self.noise.noise(inputs, batch.generator, draws=2 if same else 1)
            first, second = (torch.cat([pair.first, pair.second]) + eps).chunk(2)
        contrast = self.framework(Pair(first, second, pair.ids))
        penalty = self._penalty(eps, sigma, len(contrast))
        return contrast + self.penalty_weight * penalty, {"contrast": contrast.mean(), "penalty": penalty.mean()}

    def _penalty(self, eps: Tensor, sigma: Tensor, batch: int) -> Tensor:
        if self.penalty == "inverse_norm":
            return inverse_norm(eps).expand(batch)
        if self.penalty == "log_barrier":
            # Against the opposite sign of a reversed generator the barrier has to be reversed too.
            if self.noise.adversarial:
                sigma = 2 * sigma.detach() - sigma
            return log_barrier(sigma / self.noise.strength).view(-1, batch).mean(dim=0)
        return eps.new_zeros(batch)

    def prepare(self, x: Tensor, seed: int) -> None:
        self.views.prepare(x)

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        h: Tensor = self.framework.encoder(x)
        return h if output == "representation" else self.framework.head(h)

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.noise(x, index=index, generator=generator)

    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Noise level (root mean square of sigma) and its spread over features (standard deviation over mean)."""
        sigma = self.noise.parameters_of_noise(x)[0]
        profile = sigma.mean(dim=0)
        spread = profile.std(correction=0) / profile.mean()
        return {"noise_level": float(sigma.square().mean().sqrt()), "noise_spread": float(spread)}
