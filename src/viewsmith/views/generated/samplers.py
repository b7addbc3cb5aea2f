"""Diffusion: noise schedules, and samplers, which lead from noise to samples in few steps.

Each sampler is the loop of its paper over decreasing times, for any spacing of times. ``estimate(x_t, t)`` is the
network's estimate of the sample x_0, clipped to the range of the data; the noise is computed from x_t and this
estimate, so that no value out of range is passed to the next step. Factors are Python floats, so a GPU need not
synchronize.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.views.base import Generators, randn

ScheduleName = Literal["linear", "cosine"]

Prediction = Literal["eps", "v", "x0"]

# A factor for one time, or for the times of B samples, (B, 1, ...).
Rate = TypeVar("Rate", float, Tensor)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Fraction of the signal's power at each time, ``alpha_bar_t = prod_{s <= t} (1 - beta_s)``, decreasing.

    The noised sample is ``x_t = sqrt(alpha_bar_t) x_0 + sqrt(1 - alpha_bar_t) eps`` (DDPM: Ho et al. 2020, equation 4).
    DiffAug (Zang et al. 2024, below equation 6) prints alpha_bar as 1 - alpha_t; the authors' code uses the product.

    Parameters
    ----------
    alpha_bar : Tensor of float64, shape (T,)
        Between 0 and 1, decreasing. Times are 0 to T - 1; time -1 is the sample without noise.
    """

    alpha_bar: Tensor
    # By dtype and device, because a copy in each step would wait for a GPU.
    _tables: dict[tuple[torch.dtype, torch.device], Tensor] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def named(cls, name: ScheduleName) -> Schedule:
        """A standard schedule with 1,000 times.

        - "linear": beta from 1e-4 to 2e-2 in equal steps (Ho et al. 2020, section 4);
        - "cosine": ``alpha_bar_t = cos^2((t / T + s) / (1 + s) pi / 2)`` up to a factor, s = 0.008, beta at most 0.999
          (Nichol & Dhariwal 2021, equation 17), which adds noise more evenly.

        Raises
        ------
        InputError
            Unknown name.
        """
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
    """The target of the network's prediction: the noise eps, the sample x_0, or the velocity v.

    ``v = signal eps - noise x_0`` (Salimans & Ho 2022, appendix D).
    """
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

    Parameters
    ----------
    schedule : Schedule
    steps : int
        At least 1; at most one step per time.
    strength : float
        Above 0, at most 1. 1 starts from pure noise, less from a sample noised up to that fraction of the times
        (SDEdit: Meng et al. 2022, algorithm 1).

    Returns
    -------
    list of int

    Raises
    ------
    InputError
        `steps` or `strength` is out of range.
    """
    if steps < 1:
        raise InputError(f"the sampler was given {steps} steps, expected at least 1")
    if not 0 < strength <= 1:
        raise InputError(f"the strength of the noise is {strength}, expected a number above 0 and at most 1")
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
    if sampler not in loops:
        raise InputError(f"the sampler is {sampler!r}, expected one of {', '.join(get_args(Sampler))}")

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
    """The deterministic sampler: it mixes the same sample and noise for the next time (Song et al. 2021, equation 12).

    sigma is 0, so no random numbers are drawn.
    """
    for t, s in _steps(times):
        x0 = estimate(x, t)
        eps = recover_noise(x, x0, schedule.rates(t))
        x = add_noise(x0, eps, schedule.rates(s))
    return x


def ddpm(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """Ancestral sampling: from the Gaussian of x_s given x_t and x_0 (Ho et al. 2020, equation 7 and algorithm 2).

    The variance is that of the posterior, beta-tilde, which is better for few steps than the larger beta.
    """
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
    """DPM-Solver++ 2M, of second order, from the last two estimates of x_0 (Lu et al. 2022, algorithm 2).

    The first step and the last, which ends at an infinite signal-to-noise ratio, are of first order. No random
    numbers are drawn.
    """
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
