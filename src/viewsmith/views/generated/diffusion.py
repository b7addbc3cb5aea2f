"""The generator of DiffAug, a diffusion model given representations: noise schedules, samplers of few steps, model.

Each sampler is the loop of its paper over decreasing times, for any spacing of times. ``estimate(x_t, t)`` is the
network's estimate of the sample x_0, clipped to the range of the data; the noise is computed from x_t and this
estimate, so that no value out of range is passed to the next step. Factors are Python floats, so a GPU need not
synchronize.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check, check_choice
from viewsmith.core.samples import Rows
from viewsmith.networks.base import Latents, momentum_copy
from viewsmith.views.base import Generators, rand, randint, randn

ScheduleName = Literal["linear", "cosine"]
Prediction = Literal["eps", "v", "x0"]

# A factor for one time, or for the times of B samples, (B, 1, ...).
Rate = TypeVar("Rate", float, Tensor)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Fraction of the signal's power at each time, ``alpha_bar_t = prod_{s <= t} (1 - beta_s)``, decreasing.

    The noised sample is ``x_t = sqrt(alpha_bar_t) x_0 + sqrt(1 - alpha_bar_t) eps`` (DDPM: Ho et al. 2020, equation 4).
    DiffAug (Zang et al. 2024, below equation 6) prints alpha_bar as 1 - alpha_t; the authors' code uses the product.
    """

    alpha_bar: Tensor
    # By dtype and device, because a copy in each step would wait for a GPU.
    _tables: dict[tuple[torch.dtype, torch.device], Tensor] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def named(cls, name: ScheduleName) -> "Schedule":
        """A schedule with 1,000 times: "linear", beta from 1e-4 to 2e-2 (Ho et al. 2020, section 4); "cosine", beta at
        most 0.999 (Nichol & Dhariwal 2021, equation 17), which adds noise more evenly."""
        if name == "linear":
            beta = torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64)
        elif name == "cosine":
            time = torch.linspace(0, 1, 1001, dtype=torch.float64)
            signal = torch.cos((time + 0.008) / 1.008 * math.pi / 2).square()
            beta = (1 - signal[1:] / signal[:-1]).clamp_max(0.999)
        else:
            raise InputError(f"the noise schedule is {name!r}, expected one of {', '.join(get_args(ScheduleName))}")
        return cls((1 - beta).cumprod(0))

    def __len__(self) -> int:
        return len(self.alpha_bar)

    def alpha_bar_at(self, t: int) -> float:
        """alpha_bar_t; 1 for t = -1."""
        return float(self.alpha_bar[t]) if t >= 0 else 1.0

    def rates(self, t: int) -> tuple[float, float]:
        """Factors of signal and noise, ``sqrt(alpha_bar_t)`` and ``sqrt(1 - alpha_bar_t)``, at a time from -1."""
        return math.sqrt(self.alpha_bar_at(t)), math.sqrt(1 - self.alpha_bar_at(t))

    def rates_of(self, t: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Factors of signal and noise at the times `t`, int64 (B,), of samples (B, ...): (B, 1, ...) each."""
        place = (like.dtype, like.device)
        if place not in self._tables:
            with torch.inference_mode(False):  # the next call may be in a training step
                # In float64, because 1 - alpha_bar loses precision at the first times.
                table = torch.stack([self.alpha_bar.sqrt(), (1 - self.alpha_bar).sqrt()])
                self._tables[place] = table.to(like.dtype).to(like.device)
        signal, noise = self._tables[place][:, t].view(2, -1, *[1] * (like.ndim - 1))
        return signal, noise


def add_noise(x0: Tensor, eps: Tensor, rates: tuple[Rate, Rate]) -> Tensor:
    """``x_t = signal x_0 + noise eps``, with the pair (signal, noise) of a `Schedule`."""
    signal, noise = rates
    return signal * x0 + noise * eps


def target(x0: Tensor, eps: Tensor, rates: tuple[Rate, Rate], prediction: Prediction) -> Tensor:
    """The network's target: noise eps, sample x_0, or ``signal eps - noise x_0`` (Salimans & Ho 2022, appendix D)."""
    signal, noise = rates
    if prediction == "v":
        return signal * eps - noise * x0
    return eps if prediction == "eps" else x0


def recover_sample(output: Tensor, x_t: Tensor, rates: tuple[Rate, Rate], prediction: Prediction) -> Tensor:
    """The sample x_0 from the noised sample and the network's prediction: the inverse of `target`."""
    signal, noise = rates
    if prediction == "v":
        return signal * x_t - noise * output
    return (x_t - noise * output) / signal if prediction == "eps" else output


def recover_noise(x_t: Tensor, x0: Tensor, rates: tuple[Rate, Rate]) -> Tensor:
    """The noise eps from the noised sample and the sample: the inverse of `add_noise`."""
    signal, noise = rates
    return (x_t - signal * x0) / noise


Sampler = Literal["ddim", "ddpm", "dpm"]
Estimate = Callable[[Tensor, int], Tensor]


def timesteps(schedule: Schedule, steps: int, strength: float = 1.0) -> list[int]:
    """Decreasing times at which the network is evaluated, closer together toward the end ("quadratic" spacing).

    With N = strength * T and k steps, the times are ``N (j / k)^2 - 1`` for j = k, ..., 1, rounded and at least j - 1
    (DDIM: Song et al. 2021, appendix D.2): 999, 809, 639, ..., 9 for 10 steps of a full schedule. The step from the
    last time leads to the sample. With even spacing, the last of ten steps would start at time 99. It returns the mean
    of all possible samples, so most details smaller than a third of a standard deviation would be lost.
    """
    if steps < 1:
        raise InputError(f"the sampler was given {steps} steps, expected at least 1")
    check(0 < strength <= 1, "the strength of the noise", strength, "a number above 0 and at most 1")
    noisy = max(1, round(strength * len(schedule)))
    steps = min(steps, noisy)
    return [max(round(noisy * (j / steps) ** 2), j) - 1 for j in range(steps, 0, -1)]


def sample(
    predict: Callable[[Tensor, int], Tensor],
    start: Tensor,
    schedule: Schedule,
    times: Sequence[int],
    *,
    sampler: Sampler = "ddim",
    prediction: Prediction = "eps",
    clip: Callable[[Tensor], Tensor] | None = None,
    generator: Generators | None = None,
) -> Tensor:
    """Draw samples by reverse diffusion, starting from noised samples.

    Parameters
    ----------
    predict : callable
        ``predict(x_t, t)`` is the network's prediction at a time, with the shape of x_t.
    start : Tensor, shape (B, ...)
        Samples noised to the first of the times: standard Gaussian noise for the last time of the schedule.
    schedule : Schedule
    times : sequence of int
        Decreasing, as from `timesteps`.
    sampler : {"ddim", "ddpm", "dpm"}
        See the functions of these names.
    prediction : {"eps", "v", "x0"}
        Kind of the network's prediction.
    clip : callable, optional
        Clips x_0 to the range of the data, in each step.
    generator : torch.Generator, or a sequence with one per sample, optional
        Noise of "ddpm": one draw of the size of `start` in each step except the last. The other samplers do not use it.

    Returns
    -------
    Tensor, shape (B, ...)

    Raises
    ------
    InputError
        Unknown sampler.
    """
    loops = {"ddim": ddim, "ddpm": ddpm, "dpm": dpm}
    check_choice("the sampler", sampler, Sampler)

    def estimate(x: Tensor, t: int) -> Tensor:
        x0 = recover_sample(predict(x, t), x, schedule.rates(t), prediction)
        return x0 if clip is None else clip(x0)

    return loops[sampler](estimate, start, schedule, times, generator)


def _steps(times: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of consecutive times; the last time is followed by -1, the sample without noise."""
    return itertools.pairwise([*times, -1])


def ddim(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """The deterministic sampler: the same sample and noise for the next time (Song et al. 2021, equation 12)."""
    for t, s in _steps(times):
        x0 = estimate(x, t)
        eps = recover_noise(x, x0, schedule.rates(t))
        x = add_noise(x0, eps, schedule.rates(s))
    return x


def ddpm(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """Ancestral sampling of x_s given x_t and x_0 (Ho et al. 2020, equation 7, algorithm 2), with beta-tilde."""
    for t, s in _steps(times):
        x0 = estimate(x, t)
        bar_t, bar_s = schedule.alpha_bar_at(t), schedule.alpha_bar_at(s)
        alpha = bar_t / bar_s
        ratio = (1 - bar_s) / (1 - bar_t)
        x = math.sqrt(bar_s) * (1 - alpha) / (1 - bar_t) * x0 + math.sqrt(alpha) * ratio * x
        if s >= 0:
            x = x + math.sqrt(ratio * (1 - alpha)) * randn(x, generator)
    return x


def dpm(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """DPM-Solver++ 2M from the last two estimates of x_0 (Lu et al. 2022, algorithm 2), without random numbers; the
    first and last steps are of first order."""
    older = last_h = None
    for t, s in _steps(times):
        x0 = estimate(x, t)
        (signal_t, noise_t), (signal_s, noise_s) = schedule.rates(t), schedule.rates(s)
        if s < 0:
            return x0
        h = math.log(signal_s / noise_s) - math.log(signal_t / noise_t)
        if older is None or last_h is None:
            d = x0
        else:
            r = last_h / h
            d = (1 + 1 / (2 * r)) * x0 - 1 / (2 * r) * older
        x = noise_s / noise_t * x - signal_s * math.expm1(-h) * d
        older, last_h = x0, h
    return x


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
        See `sample`.
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
        check_choice("prediction", prediction, Prediction)
        check_choice("sampler", sampler, Sampler)
        for name, value in (("drop", drop), ("average", average)):
            check(0 <= value < 1, name, value, "a number from 0 to less than 1")
        check(blur >= 0, "blur", blur, "a number of at least 0")
        if guidance != 1 and not drop:
            raise InputError(
                f"guidance is {guidance} with drop 0, which trains no unconditional prediction: give drop, such as 0.1"
            )
        self.schedule = Schedule.named(schedule)
        self.times = timesteps(self.schedule, steps, strength)
        self.prediction: Prediction = prediction
        self.sampler: Sampler = sampler
        self.steps, self.strength, self.guidance = steps, strength, guidance
        self.drop, self.blur, self.decay = drop, blur, average
        self.latents = latents
        self.denoiser = denoiser
        self.averaged = momentum_copy(denoiser)
        self.null = nn.Parameter(torch.zeros(condition)) if drop else None
        self.register_buffer("averaged_null", torch.zeros(condition) if drop else None)
        self.condition_mean = nn.Buffer(torch.zeros(condition))
        self.condition_scale = nn.Buffer(torch.ones(condition))
        self.updates = nn.Buffer(torch.zeros((), dtype=torch.int64))

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
        """Mean squared error of the (`averaged`) denoiser at a random time, (B,), for scaled samples (B, ...) and their
        representations (B, c), which get no gradient."""
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
        self.updates.add_(1)

    @torch.no_grad()
    def sample(
        self, x: Tensor, condition: Tensor, generator: Generators | None = None, *, strength: Tensor | None = None
    ) -> Tensor:
        """Draw a scaled sample (B, ...) for each representation (B, c), from its source, condition and noise alone;
        `strength` (B,) at most 1, the equal ones together, the smallest first."""
        if strength is None:
            return self._sample(x, condition, generator, self.strength, self.times)
        samples = torch.empty_like(x)
        for value in strength.unique().tolist():
            rows = (strength == value).nonzero()[:, 0]
            streams = [generator[row] for row in rows.tolist()] if isinstance(generator, Sequence) else generator
            times = timesteps(self.schedule, self.steps, value)
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
            u = sample(
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
