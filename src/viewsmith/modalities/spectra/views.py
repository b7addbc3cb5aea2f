"""View makers of spectra: what instruments and the grain of a sample change, and its chemistry does not."""

from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.views.base import ViewMaker, at, randn

view = partial(register, "view maker", modalities="spectra")
Strength = Annotated[float, Bounds(ge=0, le=10)]


def deviation(x: Tensor) -> Tensor:
    """Standard deviation of the values of each spectrum (B, 1, T) over its axis: (B, 1, 1)."""
    return (x - x.mean(2, keepdim=True)).square().mean(2, keepdim=True).sqrt()


def scattered(x: Tensor, b: Tensor, a: Tensor) -> Tensor:
    """Spectra (B, 1, T) with gains b (B, 1, 1) and polynomials of coefficients s a, (B, 1, 3), as in `Scatter`."""
    t = torch.linspace(-1, 1, x.shape[2], device=x.device, dtype=x.dtype)
    polynomials = torch.stack([torch.ones_like(t), t, (3 * t * t - 1) / 2])
    mean = x.mean(2, keepdim=True)
    return mean + b * (x - mean) + a @ polynomials


def moved(x: Tensor, points: Tensor) -> Tensor:
    """Spectra (B, 1, T) moved along the axis by numbers of points (B, 1, 1), linear between points."""
    last = x.shape[2] - 1
    at = (torch.arange(x.shape[2], device=x.device, dtype=x.dtype) + points).clamp(0, last)
    before = at.long().clamp_max(last - 1)
    return torch.lerp(x.gather(2, before), x.gather(2, before + 1), at - before)


@view(
    "scatter",
    help="another amplitude, level, slope and curvature",
    source="Martens and Stark 1991",
    strengths=at(scatter_baseline=(0.3, 0.1, 1.0)),
    named={"scatter_gain": "gain", "scatter_baseline": "baseline"},
)
class Scatter(ViewMaker):
    """``m + b (x - m) + s (a0 + a1 t + a2 (3 t^2 - 1) / 2)``, the model of extended multiplicative scatter correction
    (Martens and Stark 1991): m is the mean and s the deviation of the spectrum, t runs from -1 to 1 along the axis.
    """

    static_step = True
    gain: Strength = 0.1
    """Deviation of log b."""
    baseline: Strength = 0.3
    """Deviation of a0, a1 and a2."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        b = (self.gain * randn(x[..., :1], generator)).exp()
        return scattered(x, b, self.baseline * deviation(x) * randn(x[..., :3], generator))


@view(
    "axis-shift",
    help="moved along the axis by about half a point",
    strengths=at(shift_points=(0.5, 2.0)),
    named={"shift_points": "points"},
)
class AxisShift(ViewMaker):
    """The spectrum between its points, moved along the axis by a Gaussian number of points."""

    static_step = True
    points: Annotated[float, Bounds(ge=0, le=100)] = 0.5
    """Deviation of that number."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return moved(x, self.points * randn(x[..., :1], generator))


@view(
    "spectral-noise",
    help="Gaussian noise",
    strengths=at(spectral_noise=(0.01, 0.1)),
    named={"spectral_noise": "strength"},
)
class SpectralNoise(ViewMaker):
    """Gaussian noise on every value, by the deviation of the spectrum."""

    static_step = True
    strength: Strength = 0.01
    """1 is the deviation of the spectrum."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.strength * deviation(x) * randn(x, generator)
