"""The generator of DiffAug: a diffusion model conditioned on the representation of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.rows import Rows
from viewsmith.networks.base import Latents
from viewsmith.networks.wrappers import momentum_copy
from viewsmith.views.base import Generators, rand, randint, randn
from viewsmith.views.generated import samplers
from viewsmith.views.generated.samplers import Prediction, Sampler, Schedule, ScheduleName, add_noise, target


class ConditionalDiffusion(nn.Module):
    """A diffusion model of samples given their representations.

    DiffAug (Zang et al. 2024), equations 4 to 6, with the corrections described in `Schedule`. Training times are
    uniform, and the loss is the mean squared error (DDPM: Ho et al. 2020, equation 14). Samples are drawn with a moving
    average of the weights, whose decay starts low so that the initial weights are soon forgotten.

    Parameters
    ----------
    denoiser : nn.Module
        ``denoiser(x, t, condition)`` maps noised latents (B, ...), times int64 (B,) and conditions (B, c) to
        predictions with the shape of x. For padding, x is 0. It must not have BatchNorm: a sample must not depend on
        its batch.
    latents : VectorLatents, PixelLatents or LetterLatents
        Maps scaled samples to the latents that the denoiser gets, and back.
    condition : int
        Width c of the representation.
    schedule : {"linear", "cosine"}
        See `Schedule.named`.
    prediction : {"eps", "v", "x0"}
        What the denoiser predicts: the noise, the velocity or the sample.
    sampler : {"ddim", "ddpm", "dpm"}
        See `viewsmith.views.generated.samplers`.
    steps : int
        Evaluations of the denoiser per sample. In trials on vectors, samples of "dpm" with 10 steps had the same spread
        and distance to the data as those of "ddpm" with 1,000; with 10 steps "ddim" and "ddpm" have less spread.
    strength : float
        Above 0, at most 1. With 1 samples start from pure noise and depend on the source only by its representation,
        as published. With less they start from the source, noised up to that fraction of the times (SDEdit: Meng et al.
        2022).
    guidance : float
        g in ``null + g (conditional - null)`` (Ho & Salimans 2022, equation 6, with g = 1 + w). 1 means no guidance, as
        published; other values need `drop` and twice the work.
    drop : float
        Probability that the representation is replaced by a learned vector in the loss, 0 to less than 1.
    blur : float
        Standard deviation of noise added to the standardized representation, in training and sampling (conditioning
        augmentation: Ho et al. 2022, Cascaded diffusion models); 0 means none. A detailed representation determines the
        sample almost completely, so that generated samples are copies; the noise lets them vary.
    average : float
        Largest decay of the moving average, 0 to less than 1: after n updates ``min(average, (1 + n) / (10 + n))``.

    Attributes
    ----------
    averaged : nn.Module
        The denoiser with averaged weights, without gradient.
    null, averaged_null : Tensor, shape (c,), or None
        The learned vector and its average, if `drop` is above 0.
    condition_mean, condition_scale : Tensor, shape (c,)
        Standardization of the representation.
    updates : int64 Tensor, shape ()
        n.

    Raises
    ------
    InputError
        An argument is out of range.
    """

    condition_mean: Tensor
    condition_scale: Tensor
    updates: Tensor
    averaged_null: Tensor | None

    def __init__(
        self,
        denoiser: nn.Module,
        latents: Latents,
        *,
        condition: int,
        schedule: ScheduleName = "linear",
        prediction: Prediction = "eps",
        sampler: Sampler = "dpm",
        steps: int = 10,
        strength: float = 1.0,
        guidance: float = 1.0,
        drop: float = 0.0,
        blur: float = 0.0,
        average: float = 0.999,
    ) -> None:
        super().__init__()
        for name, given, kinds in (("prediction", prediction, Prediction), ("sampler", sampler, Sampler)):
            if given not in get_args(kinds):
                raise InputError(f"{name} is {given!r}, expected one of {', '.join(get_args(kinds))}")
        for name, value in (("drop", drop), ("average", average)):
            if not 0 <= value < 1:
                raise InputError(f"{name} is {value}, expected a number from 0 to less than 1")
        if not blur >= 0:
            raise InputError(f"blur is {blur}, expected a number of at least 0")
        if guidance != 1 and not drop:
            raise InputError(
                f"guidance is {guidance} with drop 0, which trains no unconditional prediction: give drop, such as 0.1"
            )
        self.schedule = Schedule.named(schedule)
        self.times = samplers.timesteps(self.schedule, steps, strength)
        self.prediction: Prediction = prediction
        self.sampler: Sampler = sampler
        self.steps, self.strength, self.guidance = steps, strength, guidance
        self.drop, self.blur, self.decay = drop, blur, average
        self.latents = latents
        self.denoiser = denoiser
        self.averaged = momentum_copy(denoiser)
        self.null = nn.Parameter(torch.zeros(condition)) if drop else None
        self.register_buffer("averaged_null", torch.zeros(condition) if drop else None)
        self.register_buffer("condition_mean", torch.zeros(condition))
        self.register_buffer("condition_scale", torch.ones(condition))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def fit(self, rows: Rows, conditions: Tensor) -> None:
        """Fit the latents to scaled training rows, (n, ...), and the standardization to representations, (n, c)."""
        if conditions.ndim != 2 or conditions.shape[1] != len(self.condition_mean):
            raise InputError(
                f"the generator was given conditions of shape {tuple(conditions.shape)}, expected "
                f"(n, {len(self.condition_mean)})"
            )
        self.latents.fit(rows)
        deviation, mean = torch.std_mean(conditions.double(), dim=0, correction=0)
        varies = conditions.amax(0) > conditions.amin(0)
        self.condition_mean.copy_(mean)
        # A constant feature has no information, and must have no effect for other rows.
        self.condition_scale.copy_(torch.where(varies, 1 / deviation.clamp_min(1e-12), 0))

    def loss(
        self, x: Tensor, condition: Tensor, generator: torch.Generator | None = None, *, averaged: bool = False
    ) -> Tensor:
        """Mean squared error of the denoiser at a random time, (B,).

        Parameters
        ----------
        x, condition : Tensor, shapes (B, ...) and (B, c)
            Scaled samples and their representations, which get no gradient.
        generator : torch.Generator, optional
            Source, in this order, of the times, the noise, the noise of the conditions (with `blur`), and the dropped
            conditions (with `drop`).
        averaged : bool
            Evaluate the averaged weights.
        """
        u, real = self.latents.encode(x), self.latents.mask(x)
        t = randint(len(self.schedule), (len(u),), u, generator)
        eps = randn(u, generator)
        rates = self.schedule.rates_of(t, u)
        condition = self._standardize(condition.detach(), generator)
        denoiser, null = (self.averaged, self.averaged_null) if averaged else (self.denoiser, self.null)
        if null is not None:
            dropped = rand((len(u), 1), u, generator) < self.drop
            condition = torch.where(dropped, null, condition)
        output = denoiser(_zero_padding(add_noise(u, eps, rates), real), t, condition)
        errors = (output.to(u.dtype) - target(u, eps, rates, self.prediction)).square()
        if real is None:
            return errors.flatten(1).mean(1)
        included = real.expand_as(errors).flatten(1)
        return (errors.flatten(1) * included).sum(1) / included.sum(1).clamp_min(1)

    @torch.no_grad()
    def restart_average(self) -> None:
        """Set the average to the weights of the denoiser, at the start of a phase of its training."""
        self.averaged.load_state_dict(self.denoiser.state_dict())
        if self.null is not None and self.averaged_null is not None:
            self.averaged_null.copy_(self.null)
        self.updates.zero_()

    @torch.no_grad()
    def update_average(self) -> None:
        """Update the average. Call this after each step of the denoiser's optimizer."""
        averages: list[Tensor] = list(self.averaged.parameters())
        weights: list[Tensor] = list(self.denoiser.parameters())
        if self.null is not None and self.averaged_null is not None:
            averages.append(self.averaged_null)
            weights.append(self.null)
        # 1 - (1 + n) / (10 + n). The count stays on its device, because reading it would synchronize a GPU.
        rate = (9 / (10 + self.updates)).clamp_min(1 - self.decay).to(weights[0])
        torch._foreach_lerp_(averages, weights, [rate] * len(weights))
        self.updates += 1

    @torch.no_grad()
    def sample(
        self,
        x: Tensor,
        condition: Tensor,
        generator: Generators | None = None,
        *,
        strength: Tensor | None = None,
    ) -> Tensor:
        """Draw a new scaled sample (B, ...) for each representation, with the averaged denoiser.

        Each depends only on its source, condition and noise.

        Parameters
        ----------
        x, condition : Tensor, shapes (B, ...) and (B, c)
            Scaled sources, which determine shape, padding and, if the strength is below 1, the start; representations.
        generator : torch.Generator, or a sequence with one per sample, optional
            Source, in this order, of the initial noise, of the size of the latents, of the noise of the conditions
            (with `blur`), and of the noise in each step except the last (with "ddpm").
        strength : Tensor, shape (B,), optional
            Strength of each sample, above 0 and at most 1. Samples with equal strength are drawn together, the smallest
            strength first. Default: the strength of the model.
        """
        if strength is None:
            return self._sample(x, condition, generator, self.strength, self.times)
        samples = torch.empty_like(x)
        for value in strength.unique().tolist():
            rows = (strength == value).nonzero()[:, 0]
            streams = [generator[row] for row in rows.tolist()] if isinstance(generator, Sequence) else generator
            times = samplers.timesteps(self.schedule, self.steps, value)
            samples[rows] = self._sample(x[rows], condition[rows], streams, value, times)
        return samples

    def _sample(
        self, x: Tensor, condition: Tensor, generator: Generators | None, strength: float, times: list[int]
    ) -> Tensor:
        u, real = self.latents.encode(x), self.latents.mask(x)
        eps = randn(u, generator)
        start = eps if strength == 1 else add_noise(u, eps, self.schedule.rates(times[0]))
        condition = self._standardize(condition, generator)
        if self.guidance != 1:
            assert self.averaged_null is not None
            condition = torch.cat([condition, self.averaged_null.expand_as(condition)])
        training = self.averaged.training
        self.averaged.eval()

        def predict(x_t: Tensor, t: int) -> Tensor:
            x_t = _zero_padding(x_t, real)
            time = torch.full((len(condition),), t, dtype=torch.int64, device=x_t.device)
            if self.guidance == 1:
                return self.averaged(x_t, time, condition).to(x_t.dtype)
            both = self.averaged(x_t.repeat(2, *[1] * (x_t.ndim - 1)), time, condition).to(x_t.dtype)
            conditional, null = both.chunk(2)
            return torch.lerp(null, conditional, self.guidance)

        try:
            u = samplers.sample(
                predict,
                start,
                self.schedule,
                times,
                sampler=self.sampler,
                prediction=self.prediction,
                clip=self.latents.clip,
                generator=generator,
            )
        finally:
            self.averaged.train(training)
        return self.latents.decode(u, x)

    def _standardize(self, condition: Tensor, generator: Generators | None) -> Tensor:
        """Conditions with mean 0 and standard deviation 1 over the training rows, plus noise with `blur`."""
        condition = (condition.to(self.condition_mean.dtype) - self.condition_mean) * self.condition_scale
        return condition + self.blur * randn(condition, generator) if self.blur else condition


def _zero_padding(u: Tensor, real: Tensor | None) -> Tensor:
    """Latents with the padding set to 0."""
    return u if real is None else torch.where(real, u, 0)
