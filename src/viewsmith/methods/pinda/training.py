"""PiNDA: learned noise (Data Augmentation of Contrastive Learning is Estimating Positive-incentive Noise).

Symbols: x a sample, f the encoder with its head, a the other augmentation (or the identity), psi the generator,
eps = mu + sigma * e the noise, e ~ N(0, I). One update trains encoder and generator together through the
reparameterized noise (equation 17, Algorithms 1 and 2).
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Fraction, Positive, Weight
from viewsmith.core.schedule import Batch, Optimizer, Phase, Update
from viewsmith.estimator.arguments import Auto, Widths
from viewsmith.estimator.options import Part
from viewsmith.frameworks import Framework
from viewsmith.methods.contrastive.training import PairMethod
from viewsmith.methods.pinda.views import PiNoise, inverse_norm, log_barrier
from viewsmith.networks.base import is_static
from viewsmith.training.callbacks import left_the_data
from viewsmith.views.base import PairMaker, PositivePair

Drawn = tuple[Tensor, Tensor, Tensor]  # the result of `PiNoise.noise`
OneOrTwo = Annotated[int, Bounds(ge=1, le=2)]


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Noise(Part):
    """The learned noise: its level, distribution, penalty and network."""

    slot = "noise"

    strength: Positive | Auto = 0.25
    """Noise level in scaled units: the average level if `level` is "fixed", otherwise the initial level. "auto" chooses
    among 0.25, 0.5, 1 and 2 without labels."""
    level: Literal["fixed", "drawn", "free"] = "fixed"
    """fixed: only how the noise is distributed over features is learned; drawn: so, and each draw has exactly the level
    `strength` (figure 1 of the paper); free, as published: the level is learned, too."""
    distribution: Literal["gaussian", "uniform"] = "gaussian"
    """Distribution of the learned noise."""
    learn_mean: bool = False
    """Also learn the mean mu of the noise; the authors recommend mu = 0."""
    algorithm: OneOrTwo = 1
    """The paper's algorithm. 1: one view of every pair carries noise, on top of `view_maker`. 2: each view of each
    sample is, with equal probability, the sample with noise or a view of `view_maker`."""
    two_sided: bool = False
    """Noise on both views of a pair instead of one."""
    penalty: Literal["log_barrier", "inverse_norm", "none"] = "log_barrier"
    """Penalty against collapse: log_barrier on features without noise, inverse_norm (published) on small noise."""
    penalty_weight: Weight = 1.0
    """Weight of the penalty."""
    objective: Literal["cooperative", "adversarial"] = "cooperative"
    """The generator decreases the loss (published), or increases it."""
    random_fraction: Fraction = 0.0
    """Fraction of the noise power spread evenly over all features, with a fixed level."""
    generator: str = "auto"
    """Network of the generator. Vectors: mlp. Images: low-resolution (a small map, upsampled), unet, resnet18 and
    resnet50 (without their classifiers, as published), shared (a small head on the first stage of the encoder). DNA:
    sequence, shared. Spectra: spectral. "auto": the first of these."""
    generator_hidden: Widths = (64,)
    """Widths of the hidden layers of the generators mlp and spectral."""
    noise_length: Weight = 0.25
    """Spectra: the length over which noise goes together, as a part of the axis; 0: each point has its own."""


class PiNDAMethod(PairMethod):
    """A framework with learned noise on views, but not on local ones; options as in `viewsmith.PiNDA`."""

    def __init__(
        self,
        framework: Framework,
        views: PairMaker,
        noise: PiNoise,
        *,
        options: Noise,
        epochs: int,
        optimizer: Optimizer,
    ) -> None:
        super().__init__(framework, views, epochs=epochs, optimizer=optimizer)
        self.noise, self.options = noise, options

    def phases(self) -> list[Phase]:
        trains = (self.framework, self.views, self.noise)
        update = Update(
            "encoder and noise",
            self.joint_step,
            trains,
            self.optimizer,
            static=is_static(*trains),
            network=self.framework.encoder,
        )
        return [Phase("train", self.epochs, [update])]

    def joint_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses of noisy views plus the penalty on the noise; trains encoder and generator."""
        pair = self.views.for_batch(batch, self.framework)
        pair, noise, inputs = self._noisy(pair, batch)
        contrast = self.framework(pair, batch.progress)
        penalty = self._penalty(noise, self.noise.real(inputs), len(contrast))
        logs = {"contrast": contrast.mean(), "penalty": penalty.mean(), "gamma": torch.exp(-contrast.detach()).mean()}
        return contrast + self.options.penalty_weight * penalty, logs

    def _noisy(self, pair: PositivePair, batch: Batch) -> tuple[PositivePair, Drawn, Tensor]:
        """The pair with noise, the noise, and the input of the generator."""
        if self.options.algorithm == 2:
            noise = self.noise.noise(batch.x, batch.generator, 2)
            return self._one_of_two(pair, batch, noise[0]), noise, batch.x
        # One pass of the generator: with the samples if both views are equal to them, else with both views.
        same = pair.first is pair.second
        inputs = pair.first if same or not self.options.two_sided else torch.cat([pair.first, pair.second])
        noise = self.noise.noise(inputs, batch.generator, 2 if self.options.two_sided and same else 1)
        if self.options.two_sided:
            first, second = (torch.cat([pair.first, pair.second]) + noise[0]).chunk(2)
            return replace(pair, first=first, second=second), noise, inputs
        return replace(pair, first=pair.first + noise[0]), noise, inputs

    def _one_of_two(self, pair: PositivePair, batch: Batch, eps: Tensor) -> PositivePair:
        """Replace views of a pair by samples with noise, with probability 1/2 each (Algorithm 2)."""
        if pair.first.shape != batch.x.shape:
            raise InputError(
                f"algorithm is 2 with views of shape {tuple(pair.first.shape[1:])}, expected the shape of samples, "
                f"{tuple(batch.x.shape[1:])}, which replace views: take algorithm 1"
            )
        chosen = torch.rand((2, len(batch.x)), generator=batch.generator, device=batch.x.device) < 0.5
        noisy = batch.x + eps.unflatten(0, (2, -1))
        where = chosen.view(2, -1, *[1] * (batch.x.ndim - 1))
        first, second = torch.where(where, noisy, torch.stack([pair.first, pair.second]))
        ids = None
        if pair.ids is not None:
            shown = torch.where(chosen, batch.index, torch.stack(pair.ids))
            ids = (shown[0], shown[1])
        return replace(pair, first=first, second=second, ids=ids)

    def _penalty(self, noise: Drawn, real: Tensor | None, batch: int) -> Tensor:
        _, sigma, eps = noise
        if self.options.penalty == "inverse_norm":
            return inverse_norm(eps).expand(batch)
        if self.options.penalty == "log_barrier":
            return log_barrier(sigma / self.noise.strength, real).view(-1, batch).mean(dim=0)
        return eps.new_zeros(batch)

    @property
    def needs_pool(self) -> bool:
        return False  # its view is the noise alone

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.noise(x, index=index, generator=generator)

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        """Warnings if the noise is on few features, has collapsed or has grown."""
        diagnosed = [row for row in rows if "noise_level" in row]
        return left_the_data(rows) + (noise_warnings(diagnosed[-1], self.noise.strength) if diagnosed else [])

    @torch.no_grad()
    def noise_parts(self, x: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """``sigma`` (deviation), ``noise`` (one draw), ``view`` (x + noise), and a learned ``mean``, each like `x`."""
        eps, sigma, _ = self.noise.noise(x, generator)
        mean = self.noise.noise_parameters(x)[1]
        learned = {} if mean is None else {"mean": mean}
        return {"sigma": sigma, **learned, "noise": eps, "view": x + eps.to(x.dtype)}

    @torch.no_grad()
    def diagnose(self, x: Tensor, generator: torch.Generator, index: Tensor | None = None) -> dict[str, float]:
        """Noise level (root mean square of sigma) and its spread over features (deviation over mean), no padding."""
        sigma = self.noise.noise_parameters(x)[0]
        real = self.noise.real(x)
        counted = torch.ones_like(sigma) if real is None else real.expand_as(sigma).to(sigma.dtype)
        times = counted.sum(dim=0)
        # Padding has sigma = 0, so it does not change the sums.
        profile = (sigma.sum(dim=0) / times)[times > 0]
        spread = profile.std(correction=0) / profile.mean()
        level = (sigma.square().sum() / counted.sum()).sqrt()
        return {"noise_level": float(level), "noise_spread": float(spread)}


def noise_warnings(last: dict[str, Any], start: float) -> list[str]:
    """Problems of learned noise, and what to do, from the last diagnostics of a training and the level at its start."""
    found, level = [], last["noise_level"]
    if last["noise_spread"] > 1:
        found.append(
            f"the learned noise sits on few features: its spread over features is {last['noise_spread']:.1f} "
            "(standard deviation over mean, above 1); raise penalty_weight or use penalty='log_barrier'"
        )
    if level < min(0.02, start / 2):
        found.append(
            f"the learned noise has collapsed from {start:g} to {level:.1g} standard deviations: views equal their "
            "samples; use level='fixed' with penalty='log_barrier'"
        )
    elif level > 3 * max(start, 1.0):
        found.append(
            f"the learned noise has grown to {level:.1f} standard deviations: "
            "use level='fixed' or a smaller penalty_weight"
        )
    return found
