"""View makers of recordings: windows of time, noise, amplitude, channels left out, speed; of signals moves in time,
pitch, colored noise, filters, masks of time and of frequency.

Values that are not known (NaN) stay so: a view of a shorter recording ends where it ends.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from viewsmith.core.registry import Bounds, Fraction, Portion, Weight, register
from viewsmith.modalities.series.networks import filled, known_points, last_points
from viewsmith.views.base import ViewContext, ViewMaker, at, rand, randn

view = partial(register, "view maker", modalities="series")


class TimeWindow(ViewMaker):
    """A random part of the recording (window slicing: Le Guennec et al. 2016)."""

    static_step = True
    minimum: Fraction = 0.5
    """Least length of the part, as a fraction, more than 0 and at most 1; uniform up to 1."""
    reversal: Fraction = 0.0
    """Probability that the part runs backward."""
    stretch: bool = True
    """Stretch all parts to the length of their recordings. Else parts of recordings of unequal length keep their speed,
    which is a fact about them, and end earlier."""

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
            steps = steps if self.stretch else steps / fraction
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


@view(
    "speed",
    help="faster or slower, with its pitch",
    source="Ko et al. 2015",
    strengths=at(speed_limit=(1.18,)),
    named={"speed_limit": "limit"},
)
class Speed(ViewMaker):
    """Play the recording faster or slower by a log-uniform factor up to `limit`, which also moves its pitch (Ko et al.
    2015); after the end of a faster one values are not known, or zeros if all recordings have one length."""

    static_step = True
    limit: Annotated[float, Bounds(ge=1)] = 1.18

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


@view(
    "jitter",
    help="Gaussian noise",
    source="Um et al. 2017",
    strengths=at(jitter_strength=(0.1, 0.03, 0.3)),
    named={"jitter_strength": "strength", "jitter_relative": "relative"},
)
class Jitter(ViewMaker):
    """Gaussian noise on every value: x + s e (Um et al. 2017, jittering)."""

    static_step = True
    strength: Weight = 0.1
    """s, in scaled units: 1 is the standard deviation of a channel."""
    relative: bool = False
    """1 is the standard deviation of a channel of this recording, so that noise does not hide quiet ones."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        noise = self.strength * randn(x, generator)
        if not self.relative:
            return x + noise
        mean = x.nanmean(2, keepdim=True)
        return x + noise * (x - mean).square().nanmean(2, keepdim=True).sqrt().nan_to_num()


class Amplitude(ViewMaker):
    """Each channel times a random factor 1 + s e, with Gaussian e (Um et al. 2017, scaling)."""

    static_step = True
    strength: Weight = 0.1
    """s."""
    sign_flip: Fraction = 0.0
    """Probability that all channels change their sign."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        factor = 1 + self.strength * randn(x[..., :1], generator)
        if self.sign_flip:
            factor = torch.where(rand((len(x), 1, 1), x, generator) < self.sign_flip, -factor, factor)
        return x * factor


@view(
    "channel-mask",
    help="random channels set to zero",
    strengths=at(channel_mask_rate=(0.2,)),
    named={"channel_mask_rate": "rate"},
)
class ChannelMask(ViewMaker):
    """Each channel set to zero, the scaled mean, with some probability; at least one channel stays."""

    static_step = True
    rate: Fraction = 0.2
    """The probability, 0 to 1."""

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
    context: ViewContext,
    *,
    window_minimum: float = 0.5,
    time_reversal: float | Literal["auto"] = "auto",
    window_stretch: bool = True,
) -> TimeWindow:
    return TimeWindow(window_minimum, 0.0 if time_reversal == "auto" else time_reversal, window_stretch)


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


# ---- sound and other signals: none is a default, the table of views says which of them leave the data ----
Generator = torch.Generator | None
Octaves = Annotated[float, Bounds(gt=0, le=12)]
ORDER = 4  # of a filter: 24 decibels an octave
LOUDER = 20.0  # decibels between the loudest and the quietest noise
VOCODER_SECONDS, VOCODER_PART = 0.064, 1 / 16  # a window, in seconds or, of an unknown rate, as a part of a recording


class SignalViews(ViewMaker):
    """A random change of scaled recordings (B, C, T), their last points (B, 1) and a generator; values that are not
    known (NaN) are zeros for it, and stay unknown."""

    static_step = True

    def __init__(self, change: Callable[[Tensor, Tensor, Generator], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: Generator = None) -> Tensor:
        known = known_points(x)
        changed = self.change(x if known is None else filled(x), last_points(x, known), generator)
        return changed if known is None else torch.where(x.isnan(), x, changed)


@view(
    "shift", help="moved in time, around the ends", strengths=at(shift_limit=(0.1, 0.5)), named={"shift_limit": "limit"}
)
class TimeShift(ViewMaker):
    """Recordings moved in time by `time_shift`, with their gaps, by up to a fraction `limit` of their length."""

    static_step = True
    limit: Fraction = 0.1

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: Generator = None) -> Tensor:
        return time_shift(x, last_points(x, known_points(x)), self.limit, generator)


def time_shift(x: Tensor, last: Tensor, limit: float, generator: Generator = None) -> Tensor:
    """Moved by up to a fraction `limit` of its length, either way; what leaves at one end comes in at the other."""
    moved = (limit * (2 * rand((len(x), 1), x, generator) - 1) * (last + 1)).round().long()
    at = torch.arange(x.shape[2], device=x.device)
    at = torch.where(at <= last, (at - moved) % (last + 1), at)
    return x.gather(2, at[:, None].expand_as(x))


def time_mask(x: Tensor, last: Tensor, fraction: float, generator: Generator = None) -> Tensor:
    """A part of up to a fraction of its length set to zero, the scaled mean (SpecAugment: Park et al. 2019)."""
    width = fraction * rand((len(x), 1), x, generator)
    start = (1 - width) * rand((len(x), 1), x, generator)
    at = torch.arange(x.shape[2], device=x.device) / (last + 1)
    return x * ((at < start) | (at >= start + width))[:, None]


def frequency_mask(x: Tensor, octaves: float, within: float, generator: Generator = None) -> Tensor:
    """A band of up to so many octaves, somewhere in those `within` the highest frequency, left out (Park et al.
    2019)."""
    width = octaves * rand((len(x), 1, 1), x, generator)
    # Octaves from the upper edge to the highest frequency.
    below = (within - width) * rand((len(x), 1, 1), x, generator)
    f = octaves_below(x)
    return in_frequency(x, ((f < below) | (f > below + width)).to(x))


def octaves_below(x: Tensor) -> Tensor:
    """Octaves from each frequency of recordings (B, C, T) to the highest one, (T // 2 + 1,); infinity for level."""
    f = torch.arange(x.shape[2] // 2 + 1, device=x.device, dtype=x.dtype) / (x.shape[2] / 2)
    return -f.log2()


def in_frequency(x: Tensor, gain: Tensor) -> Tensor:
    """Recordings (B, C, T) whose frequencies are multiplied by a gain that broadcasts with (B, C, T // 2 + 1)."""
    return torch.fft.irfft(torch.fft.rfft(x) * gain, n=x.shape[2])


def random_filter(x: Tensor, low_pass: float, high_pass: float, generator: Generator = None) -> Tensor:
    """Butterworth low-pass filter that cuts at `low_pass` to 1 (log-uniform; 1: none), and high-pass filter that cuts
    at 0 to `high_pass` (0: none), in parts of the highest frequency and without a shift of phase."""
    f = (2.0 ** -octaves_below(x)).expand(len(x), 1, -1)
    gain = torch.ones_like(f)
    if low_pass < 1:
        cut = low_pass ** rand((len(x), 1, 1), x, generator)
        gain = gain * butterworth(f / cut)
    if high_pass > 0:
        cut = high_pass * rand((len(x), 1, 1), x, generator)
        gain = gain * butterworth(cut / f.clamp_min(1e-9))
    return in_frequency(x, gain)


def butterworth(ratio: Tensor) -> Tensor:
    """Gain 1 / sqrt(1 + r^(2 n)) at the ratio r of frequency and cut-off."""
    return (1 + ratio.clamp_max(1e3) ** (2 * ORDER)).rsqrt()


def colored_noise(x: Tensor, last: Tensor, snr: float, color: float, generator: Generator = None) -> Tensor:
    """x + noise with power f^-c, c from 0 (white) to `color` (2: brown), in each channel at `snr` to `snr` + 20
    decibels below the variance of the channel of the recording."""
    known = (torch.arange(x.shape[2], device=x.device) <= last)[:, None]
    c = color * rand((len(x), 1, 1), x, generator)
    f = 2.0 ** -octaves_below(x)
    noise = in_frequency(randn(x, generator), f.clamp_min(f[1]) ** (-c / 2))
    level = snr + LOUDER * rand((len(x), 1, 1), x, generator)
    of_noise, of_signal = (_variance(each, known) for each in (noise, x))
    return x + noise * (of_signal / of_noise.clamp_min(1e-12)).sqrt() * 10 ** (-level / 20)


def _variance(x: Tensor, known: Tensor) -> Tensor:
    """Variance of each channel over the points that are known, (B, C, 1)."""
    points = known.sum(2, keepdim=True)
    centered = x - (x * known).sum(2, keepdim=True) / points
    return (centered * known).square().sum(2, keepdim=True) / points


def pitch_shift(x: Tensor, last: Tensor, semitones: float, points: int, generator: Generator = None) -> Tensor:
    """Higher or lower by up to so many semitones, as long as before: stretched by a phase vocoder with windows of so
    many points, then played faster."""
    n, channels, length = x.shape
    factor = 2 ** (semitones / 12 * (2 * rand((n, 1), x, generator) - 1))
    hop, window = points // 4, torch.hann_window(points, device=x.device, dtype=x.dtype)
    spectrum = torch.stft(x.flatten(0, 1), points, hop, window=window, pad_mode="constant", return_complex=True)
    frames = math.ceil(spectrum.shape[2] * 2 ** (semitones / 12)) + 1
    stretched = phase_vocoder(spectrum, factor.repeat_interleave(channels, 0), frames)
    sound = torch.istft(stretched, points, hop, window=window).view(n, channels, -1)
    end = torch.full_like(last, sound.shape[2] - 1)
    return interpolated(sound, factor * torch.arange(length, device=x.device, dtype=x.dtype), end)


def phase_vocoder(spectrum: Tensor, factor: Tensor, frames: int) -> Tensor:
    """Spectra (B, F, T) stretched in time by factors (B, 1) to so many frames (Flanagan and Golden 1966).

    Frame j lies at j / factor: its magnitude is between those of the two frames there, and its phase is that of the
    frame before plus what the phase advances from the one to the other.
    """
    at = torch.arange(frames, device=spectrum.device, dtype=factor.dtype) / factor
    before = at.long().clamp_max(spectrum.shape[2] - 2)
    weight = (at - before).clamp_max(1)[:, None]
    before = before[:, None].expand(-1, spectrum.shape[1], -1)
    first, second = spectrum.gather(2, before), spectrum.gather(2, before + 1)
    advance = second.angle() - first.angle()  # whole turns are of no account: frames are as far apart as before
    phase = torch.cat([first[..., :1].angle(), advance[..., :-1]], 2).cumsum(2)
    return torch.polar(torch.lerp(first.abs(), second.abs(), weight), phase)


def _points_of_vocoder(context: ViewContext) -> int:
    length, rate = context.row_shape[-1], context.statistics.get("sampling_rate")
    points = VOCODER_PART * length if rate is None else VOCODER_SECONDS * float(rate)
    return int(min(2 ** max(3, round(math.log2(points))), 2 ** int(math.log2(length))))


@view(
    "pitch",
    help="higher or lower, at the same speed",
    source="Flanagan and Golden 1966",
    strengths=at(pitch_semitones=(2.0, 5.0)),
)
def _pitch(context: ViewContext, *, pitch_semitones: Annotated[float, Bounds(gt=0, le=24)] = 2.0) -> SignalViews:
    points = _points_of_vocoder(context)
    return SignalViews(lambda x, last, g: pitch_shift(x, last, pitch_semitones, points, g))


@view(
    "colored-noise", help="white to brown noise, by the loudness of the recording", strengths=at(noise_snr=(20.0, 5.0))
)
def _colored_noise(
    context: ViewContext,
    *,
    noise_snr: Annotated[float, Bounds(ge=-40, le=100)] = 20.0,
    noise_color: Annotated[float, Bounds(ge=0, le=4)] = 2.0,
) -> SignalViews:
    return SignalViews(lambda x, last, g: colored_noise(x, last, noise_snr, noise_color, g))


@view(
    "filter",
    help="random low-pass and high-pass filters",
    strengths=at(low_pass=(0.5, 0.25, 1.0), high_pass=(0.0, 0.0, 0.1)),
)
def _filter(context: ViewContext, *, low_pass: Portion = 0.25, high_pass: Fraction = 0.0) -> SignalViews:
    return SignalViews(lambda x, last, g: random_filter(x, low_pass, high_pass, g))


@view(
    "time-mask",
    help="a part of the time set to zero",
    source="Park et al. 2019",
    strengths=at(mask_fraction=(0.1, 0.3)),
)
def _time_mask(context: ViewContext, *, mask_fraction: Fraction = 0.2) -> SignalViews:
    return SignalViews(lambda x, last, g: time_mask(x, last, mask_fraction, g))


@view(
    "frequency-mask",
    help="a band of frequencies left out",
    source="Park et al. 2019",
    strengths=at(mask_octaves=(0.5, 1.0)),
)
def _frequency_mask(context: ViewContext, *, mask_octaves: Octaves = 0.5, within_octaves: Octaves = 6.0) -> SignalViews:
    return SignalViews(lambda x, last, g: frequency_mask(x, mask_octaves, max(within_octaves, mask_octaves), g))
