"""Noise schedules of the diffusion, and the relations of sample, noise, noised sample and prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from viewsmith.core.errors import InputError

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
        """Factors of signal and noise at the time of each sample.

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
