"""The generator of DiffAug: a diffusion model conditioned on the representation of the sample to vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows
from viewsmith.networks.inputs.codes import Codes
from viewsmith.networks.momentum import momentum_copy
from viewsmith.views.base import Generators, rand, randint, randn
from viewsmith.views.generated.diffusion import samplers
from viewsmith.views.generated.diffusion.samplers import Sampler
from viewsmith.views.generated.diffusion.schedule import Prediction, Schedule, ScheduleName, noised, target


class ConditionalDiffusion(nn.Module):
    """Learns to remove noise from samples given their representation, and makes new samples for a representation.

    DiffAug (Zang et al. 2024), equations 4 to 6, with the corrections that `Schedule` names. Times are drawn evenly,
    the loss is the plain mean squared error (DDPM: Ho et al. 2020, equation 14). Samples come from a running average
    of the weights, which starts as the network itself and has no say of the first weights left after few steps.

    Parameters
    ----------
    denoiser : nn.Module
        ``denoiser(x, t, condition)``: noised codes (B, ...), times int64 (B,) and conditions (B, c) to a prediction
        like x. Where the codes are padding, x is 0. No BatchNorm: a sample must not depend on its batch.
    codes : VectorCodes, PixelCodes or LetterCodes
        From scaled samples to what the denoiser sees, and back.
    condition : int
        Width c of the representation.
    schedule : {"linear", "cosine"}
        See `Schedule.named`.
    prediction : {"eps", "v", "x0"}
        What the denoiser learns to say: the noise, the velocity or the sample.
    sampler : {"ddim", "ddpm", "dpm"}
        See `viewsmith.views.generated.diffusion.samplers`.
    steps : int
        Times at which the denoiser is asked for a sample. Ten steps of "dpm" gave samples as spread out, and as near to
        the data, as 1,000 of "ddpm" in trials on vectors; "ddim" and "ddpm" in ten steps are less spread out.
    strength : float
        1: samples start from pure noise and know the source by its representation alone, as published. Less, above 0:
        they start from the source with noise up to that share of the times (SDEdit: Meng et al. 2022).
    guidance : float
        g in ``null + g (conditional - null)`` (Ho & Salimans 2022, equation 6, with g = 1 + w). 1: none, as
        published; other values need `drop` and twice the work.
    drop : float
        Probability that the loss shows a learned vector in place of the representation, 0 to less than 1.
    blur : float
        Standard deviation of noise on the standardized representation, in training and in sampling (conditioning
        augmentation: Ho et al. 2022, Cascaded diffusion models). 0: the representation as it is. A rich one says nearly
        everything of a sample, which is then made again; a blurred one leaves room for others like it.
    average : float
        Largest decay of the average, 0 to less than 1: after n updates ``min(average, (1 + n) / (10 + n))``.

    Attributes
    ----------
    averaged : nn.Module
        The denoiser with averaged weights; no gradient reaches it.
    null, averaged_null : Tensor, shape (c,), or None
        The learned vector and its average, with `drop` above 0.
    condition_mean, condition_scale : Tensor, shape (c,)
    updates : int64 Tensor, shape ()
        n.

    Raises
    ------
    InputError
        An argument lies outside its range.
    """

    condition_mean: Tensor
    condition_scale: Tensor
    updates: Tensor
    averaged_null: Tensor | None

    def __init__(
        self,
        denoiser: nn.Module,
        codes: Codes,
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
        for name, share in (("drop", drop), ("average", average)):
            if not 0 <= share < 1:
                raise InputError(f"{name} is {share}, expected a number from 0 to less than 1")
        if not blur >= 0:
            raise InputError(f"blur is {blur}, expected a number of at least 0")
        if guidance != 1 and not drop:
            raise InputError(
                f"guidance is {guidance} with drop 0: without a condition nothing was learned; give drop, such as 0.1"
            )
        self.schedule = Schedule.named(schedule)
        self.times = samplers.timesteps(self.schedule, steps, strength)
        self.prediction: Prediction = prediction
        self.sampler: Sampler = sampler
        self.steps, self.strength, self.guidance = steps, strength, guidance
        self.drop, self.blur, self.decay = drop, blur, average
        self.codes = codes
        self.denoiser = denoiser
        self.averaged = momentum_copy(denoiser)
        self.null = nn.Parameter(torch.zeros(condition)) if drop else None
        self.register_buffer("averaged_null", torch.zeros(condition) if drop else None)
        self.register_buffer("condition_mean", torch.zeros(condition))
        self.register_buffer("condition_scale", torch.ones(condition))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def fit(self, rows: Rows, conditions: Tensor) -> None:
        """Take the range of the scaled training rows and the scale of their representations.

        Parameters
        ----------
        rows : Tensor or Samples, shape (n, ...)
        conditions : Tensor, shape (n, c)

        Raises
        ------
        InputError
            The representations have another width.
        """
        if conditions.ndim != 2 or conditions.shape[1] != len(self.condition_mean):
            raise InputError(
                f"the generator was given conditions of shape {tuple(conditions.shape)}, expected "
                f"(n, {len(self.condition_mean)})"
            )
        self.codes.fit(rows)
        deviation, mean = torch.std_mean(conditions.double(), dim=0, correction=0)
        varies = conditions.amax(0) > conditions.amin(0)
        self.condition_mean.copy_(mean)
        # What never varies says nothing, and must say nothing of other rows either.
        self.condition_scale.copy_(torch.where(varies, 1 / deviation.clamp_min(1e-12), 0))

    def loss(
        self, x: Tensor, condition: Tensor, generator: torch.Generator | None = None, *, averaged: bool = False
    ) -> Tensor:
        """Mean squared error of the denoiser at a random time, one value per sample, (B,).

        Parameters
        ----------
        x : Tensor, shape (B, ...)
            Scaled samples.
        condition : Tensor, shape (B, c)
            Their representations; no gradient goes there.
        generator : torch.Generator, optional
            Draws, in order: the times, the noise, with `blur` that of the conditions, with `drop` which are dropped.
        averaged : bool
            Judge the averaged weights, which make the samples.
        """
        u, real = self.codes.encode(x), self.codes.mask(x)
        t = randint(len(self.schedule), (len(u),), u, generator)
        eps = randn(u, generator)
        rates = self.schedule.gather(t, u)
        condition = self._standard(condition.detach(), generator)
        denoiser, null = (self.averaged, self.averaged_null) if averaged else (self.denoiser, self.null)
        if null is not None:
            dropped = rand((len(u), 1), u, generator) < self.drop
            condition = torch.where(dropped, null, condition)
        output = denoiser(_real(noised(u, eps, rates), real), t, condition)
        errors = (output.to(u.dtype) - target(u, eps, rates, self.prediction)).square()
        if real is None:
            return errors.flatten(1).mean(1)
        counted = real.expand_as(errors).flatten(1)
        return (errors.flatten(1) * counted).sum(1) / counted.sum(1).clamp_min(1)

    @torch.no_grad()
    def restart_average(self) -> None:
        """Make the average equal to the denoiser, as at the start of a phase of its training."""
        self.averaged.load_state_dict(self.denoiser.state_dict())
        if self.null is not None and self.averaged_null is not None:
            self.averaged_null.copy_(self.null)
        self.updates.zero_()

    @torch.no_grad()
    def update_average(self) -> None:
        """Move the average towards the denoiser; to be called after each step of its optimizer."""
        averages: list[Tensor] = list(self.averaged.parameters())
        weights: list[Tensor] = list(self.denoiser.parameters())
        if self.null is not None and self.averaged_null is not None:
            averages.append(self.averaged_null)
            weights.append(self.null)
        # 1 - (1 + n) / (10 + n); the count stays on its device, because reading it would wait for a GPU at each step.
        share = (9 / (10 + self.updates)).clamp_min(1 - self.decay).to(weights[0])
        torch._foreach_lerp_(averages, weights, [share] * len(weights))
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
        """A new sample for each representation, from the averaged denoiser.

        Parameters
        ----------
        x : Tensor, shape (B, ...)
            Scaled source samples, which give shape and padding, and the start where `strength` is below 1.
        condition : Tensor, shape (B, c)
            Their representations.
        generator : torch.Generator, or a sequence of one for each sample, optional
            Draws, in order: the first noise, of the size of the codes; with `blur` that of the conditions; with "ddpm"
            as much as at first at each step but the last.
        strength : Tensor, shape (B,), optional
            Of each sample, above 0 and at most 1, in place of the model's. Samples of one strength go together, the
            weakest first.

        Returns
        -------
        Tensor, shape (B, ...)
            Scaled samples like `x`. Each depends on its own source, condition and noise alone.
        """
        if strength is None:
            return self._sample(x, condition, generator, self.strength, self.times)
        made = torch.empty_like(x)
        for one in strength.unique().tolist():
            here = (strength == one).nonzero()[:, 0]
            own = [generator[row] for row in here.tolist()] if isinstance(generator, Sequence) else generator
            times = samplers.timesteps(self.schedule, self.steps, one)
            made[here] = self._sample(x[here], condition[here], own, one, times)
        return made

    def _sample(
        self, x: Tensor, condition: Tensor, generator: Generators | None, strength: float, times: list[int]
    ) -> Tensor:
        u, real = self.codes.encode(x), self.codes.mask(x)
        eps = randn(u, generator)
        start = eps if strength == 1 else noised(u, eps, self.schedule.at(times[0]))
        condition = self._standard(condition, generator)
        if self.guidance != 1:
            assert self.averaged_null is not None
            condition = torch.cat([condition, self.averaged_null.expand_as(condition)])
        training = self.averaged.training
        self.averaged.eval()

        def predict(x_t: Tensor, t: int) -> Tensor:
            x_t = _real(x_t, real)
            time = torch.full((len(condition),), t, dtype=torch.int64, device=x_t.device)
            if self.guidance == 1:
                return self.averaged(x_t, time, condition).to(x_t.dtype)
            given, null = self.averaged(x_t.repeat(2, *[1] * (x_t.ndim - 1)), time, condition).to(x_t.dtype).chunk(2)
            return torch.lerp(null, given, self.guidance)

        try:
            u = samplers.sample(
                predict,
                start,
                self.schedule,
                times,
                sampler=self.sampler,
                prediction=self.prediction,
                clip=self.codes.clip,
                generator=generator,
            )
        finally:
            self.averaged.train(training)
        return self.codes.decode(u, x)

    def _standard(self, condition: Tensor, generator: Generators | None) -> Tensor:
        """Conditions as the denoiser takes them: mean 0 and standard deviation 1 over the training rows, blurred."""
        condition = (condition.to(self.condition_mean.dtype) - self.condition_mean) * self.condition_scale
        return condition + self.blur * randn(condition, generator) if self.blur else condition


def _real(u: Tensor, real: Tensor | None) -> Tensor:
    """Codes with 0 on the padding."""
    return u if real is None else torch.where(real, u, 0)
