"""How much of a sample is left at each time of the diffusion, and what a network says of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from viewsmith.core.errors import InputError

ScheduleName = Literal["linear", "cosine"]
Prediction = Literal["eps", "v", "x0"]
# Of one time, or of each sample's own: (B, 1, ...).
Rate = TypeVar("Rate", float, Tensor)


@dataclass(frozen=True, eq=False)
class Schedule:
    """The share of the signal's power at each time, ``alpha_bar_t = prod_{s <= t} (1 - beta_s)``, falling.

    The noised sample is ``x_t = sqrt(alpha_bar_t) x_0 + sqrt(1 - alpha_bar_t) eps`` (DDPM: Ho et al. 2020, equation 4).
    DiffAug (Zang et al. 2024, below equation 6) prints alpha_bar as 1 - alpha_t; its program has the product.

    Parameters
    ----------
    alpha_bar : Tensor of float64, shape (T,)
        Between 0 and 1, falling. Times are 0 to T - 1; -1 is the sample itself.
    """

    alpha_bar: Tensor

    @classmethod
    def named(cls, name: ScheduleName) -> Schedule:
        """One of the usual schedules of 1,000 times.

        - "linear": beta from 1e-4 to 2e-2 in equal steps (Ho et al. 2020, section 4);
        - "cosine": ``alpha_bar_t = cos^2((t / T + s) / (1 + s) pi / 2)`` up to a factor, s = 0.008, beta at most 0.999
          (Nichol & Dhariwal 2021, equation 17): noise that comes more evenly.

        Raises
        ------
        InputError
            The name is none of these.
        """
        if name == "linear":
            beta = torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64)
        elif name == "cosine":
            share = torch.cos((torch.linspace(0, 1, 1001, dtype=torch.float64) + 0.008) / 1.008 * math.pi / 2).square()
            beta = (1 - share[1:] / share[:-1]).clamp_max(0.999)
        else:
            raise InputError(f"the noise schedule is {name!r}, expected one of {', '.join(get_args(ScheduleName))}")
        return cls((1 - beta).cumprod(0))

    def __len__(self) -> int:
        return len(self.alpha_bar)

    def share(self, t: int) -> float:
        """alpha_bar_t; 1 at time -1."""
        return float(self.alpha_bar[t]) if t >= 0 else 1.0

    def at(self, t: int) -> tuple[float, float]:
        """Factors of signal and noise, ``sqrt(alpha_bar_t)`` and ``sqrt(1 - alpha_bar_t)``, at one time from -1 on."""
        return math.sqrt(self.share(t)), math.sqrt(1 - self.share(t))

    def gather(self, t: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """The factors at each sample's own time.

        Parameters
        ----------
        t : Tensor of int64, shape (B,)
            Times from 0 to T - 1, on the device of `like`.
        like : Tensor, shape (B, ...)

        Returns
        -------
        pair of Tensor, shape (B, 1, ...)
            In the dtype and on the device of `like`.
        """
        # The roots are taken in float64, because 1 - alpha_bar loses digits at the first times.
        table = torch.stack([self.alpha_bar.sqrt(), (1 - self.alpha_bar).sqrt()]).to(like.dtype).to(like.device)
        signal, noise = table[:, t].view(2, -1, *[1] * (like.ndim - 1))
        return signal, noise


def noised(x0: Tensor, eps: Tensor, rates: tuple[Rate, Rate]) -> Tensor:
    """``x_t = signal x_0 + noise eps``, with the pair (signal, noise) of a `Schedule`."""
    signal, noise = rates
    return signal * x0 + noise * eps


def target(x0: Tensor, eps: Tensor, rates: tuple[Rate, Rate], prediction: Prediction) -> Tensor:
    """What the network is to predict from the noised sample: the noise, the sample, or the velocity.

    ``v = signal eps - noise x_0`` (Salimans & Ho 2022, appendix D).
    """
    signal, noise = rates
    if prediction == "v":
        return signal * eps - noise * x0
    return eps if prediction == "eps" else x0


def recover(output: Tensor, x_t: Tensor, rates: tuple[Rate, Rate], prediction: Prediction) -> Tensor:
    """The sample x_0 that a network's output sees in `x_t`: `target` turned round."""
    signal, noise = rates
    if prediction == "v":
        return signal * x_t - noise * output
    return (x_t - noise * output) / signal if prediction == "eps" else output


def remaining(x_t: Tensor, x0: Tensor, rates: tuple[Rate, Rate]) -> Tensor:
    """The noise eps in `x_t` once the sample is known: `noised` turned round."""
    signal, noise = rates
    return (x_t - signal * x0) / noise
