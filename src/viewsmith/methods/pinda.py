"""PiNDA: learn the noise that helps (Data Augmentation of Contrastive Learning is Estimating Positive-incentive Noise).

Symbols: x a sample, f the encoder with its head, a the framework's other augmentation (identity where there is
none), psi the generator, eps = mu + sigma * e the noise, e ~ N(0, I). One joint update moves encoder and generator
through the reparameterized noise (equation 17, Algorithms 1 and 2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.core.samples import Rows
from viewsmith.frameworks import Framework
from viewsmith.views.learned.pi_noise import PiNoise, inverse_norm, log_barrier
from viewsmith.views.pair import ViewPair

Penalty = Literal["none", "inverse_norm", "log_barrier"]


class PiNDAMethod(Method):
    """A framework whose views carry learned noise.

    Parameters
    ----------
    framework : Framework
        Encoder, head and pair loss.
    views : ViewPair
        The other augmentation a. The smaller views of multi-crop carry no noise.
    noise : PiNoise
        The generator psi.
    two_sided : bool
        Noise on both views; otherwise on the first alone, as in Algorithm 1.
    penalty : {"none", "inverse_norm", "log_barrier"}
        Added to the loss, times `penalty_weight`; see `viewsmith.views.learned.pi_noise`.
    epochs : int
    optimizer : Optimizer
    """

    def __init__(
        self,
        framework: Framework,
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
        trains = (self.framework, self.views, self.noise)
        return [Phase("train", self.epochs, [Update("encoder and noise", self.joint_step, trains, self.optimizer)])]

    def joint_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The framework's losses of noisy views, and the penalty on the noise; moves encoder and generator."""
        pair = self.views.for_batch(batch, self.framework)
        # One pass of the generator: of the sample where both views start from it, else of both together.
        same = pair.first is pair.second
        inputs = pair.first if same or not self.two_sided else torch.cat([pair.first, pair.second])
        eps, sigma = self.noise.noise(inputs, batch.generator, draws=2 if self.two_sided and same else 1)
        if self.two_sided:
            first, second = (torch.cat([pair.first, pair.second]) + eps).chunk(2)
        else:
            first, second = pair.first + eps, pair.second
        contrast = self.framework(replace(pair, first=first, second=second), batch.progress)
        penalty = self._penalty(eps, sigma, self.noise.real(inputs), len(contrast))
        return contrast + self.penalty_weight * penalty, {"contrast": contrast.mean(), "penalty": penalty.mean()}

    def _penalty(self, eps: Tensor, sigma: Tensor, real: Tensor | None, batch: int) -> Tensor:
        if self.penalty == "inverse_norm":
            return inverse_norm(eps).expand(batch)
        if self.penalty == "log_barrier":
            # Against the opposite sign of a reversed generator the barrier has to be reversed too.
            if self.noise.adversarial:
                sigma = 2 * sigma.detach() - sigma
            return log_barrier(sigma / self.noise.strength, real).view(-1, batch).mean(dim=0)
        return eps.new_zeros(batch)

    def prepare(self, x: Rows, seed: int) -> None:
        self.views.prepare(x)

    def describe(self) -> dict[str, Any]:
        return self.views.describe()

    def release(self) -> None:
        self.views.release()

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        h: Tensor = self.framework.encoder(x)
        return h if output == "representation" else self.framework.head(h)

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.noise(x, index=index, generator=generator)

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        """Noise that sits on few features, has collapsed, or has grown."""
        diagnosed = [row for row in rows if "noise_level" in row]
        return noise_warnings(diagnosed[0], diagnosed[-1]) if diagnosed else []

    @torch.no_grad()
    def noise_parts(self, x: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """``sigma`` (predicted deviation), ``noise`` (a draw of it) and ``view`` (x + noise), of the shape of `x`."""
        eps, sigma = self.noise.noise(x, generator)
        return {"sigma": sigma, "noise": eps, "view": x + eps.to(x.dtype)}

    @torch.no_grad()
    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Noise level (root mean square of sigma) and its spread over features (standard deviation over mean).

        Features are pixels of each channel or positions of each letter; padding counts nowhere.
        """
        sigma = self.noise.noise_parameters(x)[0]
        real = self.noise.real(x)
        counted = torch.ones_like(sigma) if real is None else real.expand_as(sigma).to(sigma.dtype)
        times = counted.sum(dim=0)
        # Padding has sigma = 0, so that it adds nothing to the sums.
        profile = (sigma.sum(dim=0) / times.clamp_min(1))[times > 0]
        spread = profile.std(correction=0) / profile.mean()
        level = (sigma.square().sum() / counted.sum()).sqrt()
        return {"noise_level": float(level), "noise_spread": float(spread)}


def noise_warnings(first: dict[str, Any], last: dict[str, Any]) -> list[str]:
    """What is wrong with learned noise, and what to do, from the first and the last diagnosis of a training."""
    found = []
    if last["noise_spread"] > 1:
        found.append(
            f"the learned noise sits on few features: its spread over features is {last['noise_spread']:.1f} "
            "(standard deviation over mean, above 1); raise penalty_weight or use penalty='log_barrier'"
        )
    if last["noise_level"] < min(0.02, first["noise_level"] / 2):
        found.append(
            f"the learned noise has collapsed to {last['noise_level']:.3f} standard deviations: "
            "views equal their samples; use level='fixed' or a larger penalty_weight"
        )
    elif last["noise_level"] > 3 * max(first["noise_level"], 1.0):
        found.append(
            f"the learned noise has grown to {last['noise_level']:.1f} standard deviations: "
            "use level='fixed' or a smaller penalty_weight"
        )
    return found
