"""View makers of recordings: windows of time, noise, amplitude, channels left out.

Values that are not known (NaN) stay so: a view of a shorter recording ends where it ends.
"""

from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from viewsmith.core.errors import InputError, check_fraction, check_weight
from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.series.networks import known_points, last_points
from viewsmith.views.base import ViewContext, ViewMaker, at, rand, randn

view = partial(register, "view maker", modalities="series")


class TimeWindow(ViewMaker):
    """A random part of the recording, stretched to its own length (window slicing: Le Guennec et al. 2016).

    Parameters
    ----------
    minimum : float
        Least length of the part, as a fraction, more than 0 and at most 1; uniform up to 1.
    reversal : float
        Probability that the part runs backward.
    """

    static_step = True

    def __init__(self, minimum: float = 0.5, reversal: float = 0.0) -> None:
        super().__init__()
        check_fraction("minimum", minimum)
        check_fraction("reversal", reversal)
        self.minimum, self.reversal = minimum, reversal

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        n, _, length = x.shape
        fraction = self.minimum + (1 - self.minimum) * rand((n, 1), x, generator)
        start = (1 - fraction) * rand((n, 1), x, generator)
        known = known_points(x)
        last = last_points(x, known)
        if known is None:
            steps = torch.linspace(0, 1, length, device=x.device, dtype=x.dtype)
        else:
            steps = torch.arange(length, device=x.device, dtype=x.dtype) / last.clamp_min(1)
        ended = steps > 1
        if self.reversal:
            steps = torch.where(rand((n, 1), x, generator) < self.reversal, 1 - steps, steps)
        position = ((start + fraction * steps) * last).clamp(0, length - 1)
        view = interpolated(x, position, last)
        return view if known is None else view.masked_fill(ended[:, None], torch.nan)


def interpolated(x: Tensor, position: Tensor, last: Tensor) -> Tensor:
    """Recordings (B, C, T) between their points, at positions (B, T) up to the `last` one of each, (B, 1)."""
    before = torch.minimum(position.long(), last - 1).clamp_min(0)
    weight = (position - before).clamp_max(1)[:, None]
    before = before[:, None].expand(-1, x.shape[1], -1)
    return torch.lerp(x.gather(2, before), x.gather(2, before + 1), weight)


class Speed(ViewMaker):
    """Play the recording faster or slower by a log-uniform factor up to `limit`, which also moves its pitch (Ko et al.
    2015); after the end of a faster one values are not known, or zeros if all recordings have one length."""

    static_step = True

    def __init__(self, limit: float = 1.18) -> None:
        super().__init__()
        if not limit >= 1:
            raise InputError(f"limit is {limit}, expected a factor of at least 1")
        self.limit = limit

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        n, _, length = x.shape
        factor = self.limit ** (2 * rand((n, 1), x, generator) - 1)
        position = factor * torch.arange(length, device=x.device, dtype=x.dtype)
        known = known_points(x)
        last = last_points(x, known)
        view, ended = interpolated(x, position, last), (position > last)[:, None]
        if known is None:
            return view * ~ended
        return torch.where(ended, torch.where(known.all(), 0.0, torch.nan).to(x), view)


class Jitter(ViewMaker):
    """Gaussian noise on every value: x + s e (Um et al. 2017, jittering).

    Parameters
    ----------
    strength : float
        s, in scaled units: 1 is the standard deviation of a channel.
    """

    static_step = True

    def __init__(self, strength: float = 0.1) -> None:
        super().__init__()
        check_weight("strength", strength)
        self.strength = strength

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.strength * randn(x, generator)


class Amplitude(ViewMaker):
    """Each channel times a random factor 1 + s e, with Gaussian e (Um et al. 2017, scaling).

    Parameters
    ----------
    strength : float
        s.
    sign_flip : float
        Probability that all channels change their sign.
    """

    static_step = True

    def __init__(self, strength: float = 0.1, sign_flip: float = 0.0) -> None:
        super().__init__()
        check_weight("strength", strength)
        check_fraction("sign_flip", sign_flip)
        self.strength, self.sign_flip = strength, sign_flip

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        factor = 1 + self.strength * randn(x[..., :1], generator)
        if self.sign_flip:
            factor = torch.where(rand((len(x), 1, 1), x, generator) < self.sign_flip, -factor, factor)
        return x * factor


class ChannelMask(ViewMaker):
    """Each channel set to zero, the scaled mean, with some probability; at least one channel stays.

    Parameters
    ----------
    rate : float
        The probability, 0 to 1.
    """

    static_step = True

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__()
        check_fraction("rate", rate)
        self.rate = rate

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        drawn = rand((*x.shape[:2], 1), x, generator)
        keep = (drawn >= self.rate) | (drawn == drawn.amax(dim=1, keepdim=True))
        return x * keep


@view(
    "window",
    help="a random part, stretched",
    source="Le Guennec et al. 2016",
    symmetry={"time_reversal": ("time-reversal", 0.0)},
    strengths=(*at(window_minimum=(0.7, 0.9, 0.4)), {"window_minimum": 1.0, "time_reversal": 0.5}),
    alone={"time_reversal": 0.0},
)
def _window(
    context: ViewContext, *, window_minimum: float = 0.5, time_reversal: float | Literal["auto"] = "auto"
) -> TimeWindow:
    return TimeWindow(window_minimum, 0.0 if time_reversal == "auto" else time_reversal)


@view("speed", help="faster or slower, with its pitch", source="Ko et al. 2015", strengths=at(speed_limit=(1.18,)))
def _speed(context: ViewContext, *, speed_limit: Annotated[float, Bounds(ge=1)] = 1.18) -> Speed:
    return Speed(speed_limit)


@view("jitter", help="Gaussian noise", source="Um et al. 2017", strengths=at(jitter_strength=(0.1, 0.03, 0.3)))
def _jitter(context: ViewContext, *, jitter_strength: float = 0.1) -> Jitter:
    return Jitter(jitter_strength)


@view(
    "scale",
    help="random amplitudes of the channels",
    source="Um et al. 2017",
    symmetry={"sign_flip": ("sign-flip", 0.0)},
    strengths=({"scale_strength": 0.1}, {"scale_strength": 0.3}, {"scale_strength": 0.0, "sign_flip": 0.5}),
    alone={"sign_flip": 0.0},
)
def _scale(
    context: ViewContext, *, scale_strength: float = 0.1, sign_flip: float | Literal["auto"] = "auto"
) -> Amplitude:
    return Amplitude(scale_strength, 0.0 if sign_flip == "auto" else sign_flip)


@view("channel-mask", help="random channels set to zero", strengths=at(channel_mask_rate=(0.2,)))
def _channel_mask(context: ViewContext, *, channel_mask_rate: float = 0.2) -> ChannelMask:
    return ChannelMask(channel_mask_rate)
