"""From noise to samples: the reverse diffusion in few steps.

Each sampler is the loop of its paper over falling times, written for times of any spacing: ``estimate(x_t, t)`` gives
the sample x_0 that the network sees in x_t, within the range of the data. The noise is what is left of x_t, so that
nothing out of range is carried to the next step. Factors are Python floats made from the schedule: a GPU is never
waited for. Nothing is kept from earlier steps but what the solver needs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.views.base import Generators, randn
from viewsmith.views.generated.diffusion.schedule import Prediction, Schedule, noised, recover, remaining

Sampler = Literal["ddim", "ddpm", "dpm"]
Estimate = Callable[[Tensor, int], Tensor]


def timesteps(schedule: Schedule, steps: int, strength: float = 1.0) -> list[int]:
    """Falling times at which the network is asked, closer together towards the end ("quadratic" spacing).

    With N = strength * T and k steps, ``N (j / k)^2 - 1`` for j = k, ..., 1, rounded and at least j - 1 (DDIM: Song et
    al. 2021, appendix D.2): 999, 809, 639, ..., 9 for 10 steps of a whole schedule. The step from the last of them
    leads to the sample. Even spacing stops too early: the last step of ten from time 99 takes the mean of all samples
    that fit, and loses most of the spread that is finer than a third of a standard deviation.

    Parameters
    ----------
    schedule : Schedule
    steps : int
        From 1 on; more steps than there are times are cut to these.
    strength : float
        Above 0, at most 1. 1 starts from pure noise, less from a sample with noise up to that share of the times
        (SDEdit: Meng et al. 2022, algorithm 1).

    Raises
    ------
    InputError
        `steps` or `strength` lies outside its range.
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
    """Samples, (B, ...), from noised ones.

    Parameters
    ----------
    predict : callable
        ``predict(x_t, t)``: the network's output at one time, like x_t.
    start : Tensor, shape (B, ...)
        Samples noised to the first of the times: standard Gaussian noise for the last time of the schedule.
    schedule : Schedule
    times : sequence of int
        Falling, as from `timesteps`.
    sampler : {"ddim", "ddpm", "dpm"}
        See the functions of these names.
    prediction : {"eps", "v", "x0"}
        What the network says.
    clip : callable, optional
        Brings x_0 into the range of the data, at each step.
    generator : torch.Generator, or one for each sample, optional
        Noise of "ddpm": one draw of the size of `start` per step but the last. The others draw nothing.

    Raises
    ------
    InputError
        There is no such sampler.
    """
    loops = {"ddim": ddim, "ddpm": ddpm, "dpm": dpm}
    if sampler not in loops:
        raise InputError(f"the sampler is {sampler!r}, expected one of {', '.join(get_args(Sampler))}")

    def estimate(x: Tensor, t: int) -> Tensor:
        x0 = recover(predict(x, t), x, schedule.at(t), prediction)
        return x0 if clip is None else clip(x0)

    return loops[sampler](estimate, start, schedule, times, generator)


def _steps(times: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each time with the one it leads to; -1 after the last, which is the sample itself."""
    return itertools.pairwise([*times, -1])


def ddim(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """The deterministic sampler: the same sample and noise, mixed for the next time (Song et al. 2021, equation 12).

    Its sigma is 0 and it draws nothing.
    """
    for t, s in _steps(times):
        x0 = estimate(x, t)
        eps = remaining(x, x0, schedule.at(t))
        x = noised(x0, eps, schedule.at(s))
    return x


def ddpm(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """Ancestral sampling: from the Gaussian of x_s given x_t and x_0 (Ho et al. 2020, equation 7 and algorithm 2).

    Its variance is the posterior's, beta-tilde, which serves few steps better than the larger beta.
    """
    for t, s in _steps(times):
        x0 = estimate(x, t)
        share_t, share_s = schedule.share(t), schedule.share(s)
        alpha = share_t / share_s
        kept = (1 - share_s) / (1 - share_t)
        x = math.sqrt(share_s) * (1 - alpha) / (1 - share_t) * x0 + math.sqrt(alpha) * kept * x
        if s >= 0:
            x = x + math.sqrt(kept * (1 - alpha)) * randn(x, generator)
    return x


def dpm(
    estimate: Estimate, x: Tensor, schedule: Schedule, times: Sequence[int], generator: Generators | None = None
) -> Tensor:
    """DPM-Solver++ 2M, of second order from the last two x_0 (Lu et al. 2022, algorithm 2); draws nothing.

    Its first step and its last, which ends at an infinite signal-to-noise ratio, are of first order.
    """
    older = last_h = None
    for t, s in _steps(times):
        x0 = estimate(x, t)
        (signal_t, noise_t), (signal_s, noise_s) = schedule.at(t), schedule.at(s)
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
