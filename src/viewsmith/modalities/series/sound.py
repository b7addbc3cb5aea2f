"""Features of sound: patches of log-mel spectrograms, and statistics of contours over time (prosody, in speech)."""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.series.networks import VALUES, filled
from viewsmith.networks.base import PartContext
from viewsmith.networks.dictionary import PatchResponses
from viewsmith.networks.features import Features

SECONDS, BANDS = 0.05, 40  # of a frame, and of its spectrum
LAGS, SHORTEST = 96, 2  # lags at which periods are sought, even by exponent from so many points to half a frame
#: What a period loses with each octave above the shortest lag, so that none of its multiples is taken (as in Boersma
#: 1993), and the correlation from which a frame has a pitch.
OCTAVE, VOICED = 0.05, 0.5
CONTOURS, QUANTILES = 7, (0.1, 0.25, 0.5, 0.75, 0.9)


@register(
    "features",
    "log-mel",
    help="learned patches of log-mel spectrograms and statistics of contours such as pitch, for sound",
    modalities="series",
    mild_views=("speed", {}),
    source="Stevens, Volkmann and Newman 1937; Coates, Lee and Ng 2011",
)
class LogMelPatches(Features):
    """Responses to a dictionary of patches of the log-mel spectrogram, averaged over regions: sound (B, C, T).

    The power spectrum in windows of about 25 ms is summed in triangular bands, equally wide on the mel scale (Stevens,
    Volkmann and Newman 1937). Silence at both ends is left out, and the rest is stretched to frames: sounds that were
    padded to one length have no silence in common. The logarithm is centered in each recording, so that loudness is
    lost, and each band loses a part of its own mean, with which speakers and microphones differ (cepstral mean
    normalization: Atal 1974). The dictionary is that of Coates, Lee and Ng (2011). The statistics of
    contours (`ContourStatistics`) are appended: patches of bands hardly see how pitch and loudness move.

    Parameters
    ----------
    context : PartContext
    sampling_rate : float
        Samples per second.
    bands : int
        Bands of the spectrogram.
    frames : int
        Frames of a recording, at most as many as windows fit.
    centers : int
        Centers of the dictionary.
    side : int
        Bands and frames of a patch.
    stride : int
        Bands and frames between patches.
    regions : (int, int)
        Parts of the frequencies and of the time over which responses are averaged.
    silence : float
        The first and last frame that are used are at most so many decibels below the loudest one.
    dynamic_range : float
        Power more than so many decibels below the largest of the recording counts as that.
    band_mean : float
        Part of each band's mean over time that is subtracted, 0 to 1.
    contours : bool
        Append the statistics of contours.
    """

    mel: Tensor
    window: Tensor

    def __init__(
        self,
        context: PartContext,
        *,
        sampling_rate: Annotated[float, Bounds(gt=0)] = 16_000.0,
        bands: Annotated[int, Bounds(ge=2)] = 40,
        frames: Annotated[int, Bounds(ge=1)] = 64,
        centers: Annotated[int, Bounds(ge=2)] = 256,
        side: Annotated[int, Bounds(ge=1)] = 7,
        stride: Annotated[int, Bounds(ge=1)] = 2,
        regions: tuple[Annotated[int, Bounds(ge=1)], Annotated[int, Bounds(ge=1)]] = (3, 4),
        silence: Annotated[float, Bounds(gt=0)] = 30.0,
        dynamic_range: Annotated[float, Bounds(gt=0)] = 50.0,
        band_mean: Annotated[float, Bounds(ge=0, le=1)] = 0.5,
        contours: bool = True,
    ) -> None:
        super().__init__()
        self.silence, self.dynamic_range, self.band_mean = silence, dynamic_range, band_mean
        channels, length = context.row_shape
        # The power of 2 that is nearest to 25 ms, in the recording.
        self.points = min(2 ** max(3, round(math.log2(0.025 * sampling_rate))), 2 ** int(math.log2(length)))
        self.hop = max(1, min(self.points // 2, length // frames))
        self.frames = min(frames, length // self.hop + 1)
        self.dictionary = PatchResponses(
            channels, (bands, self.frames), patch=(side, side), centers=centers, stride=stride, regions=regions
        )
        self.contours = ContourStatistics(channels, length, sampling_rate, silence) if contours else None
        self.n_features = self.dictionary.n_features + (self.contours.n_features if self.contours else 0)
        self.register_buffer("mel", mel_filters(bands, self.points, sampling_rate), persistent=False)
        self.register_buffer("window", torch.hann_window(self.points), persistent=False)

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        self.dictionary.fit(torch.cat([self.spectrogram(part.float()) for part in x.split(256)]), generator)

    def block_size(self, x: Tensor) -> int:
        size = self.dictionary.block_size(x.new_zeros(0, 1, len(self.mel), self.frames))
        return min(size, max(1, VALUES // (x.shape[1] * x.shape[2])))

    def of_block(self, x: Tensor) -> Tensor:
        found: Tensor = self.dictionary(self.spectrogram(x))
        return found if self.contours is None else torch.cat([found, self.contours(filled(x))], 1)

    def spectrogram(self, x: Tensor) -> Tensor:
        """Centered log-mel spectrograms of sound (B, C, T), without silence at the ends: (B, C, bands, frames)."""
        b, channels, _ = x.shape
        x = filled(x)  # silence after the end of a shorter recording
        spectrum = torch.stft(
            x.flatten(0, 1), self.points, self.hop, window=self.window, center=True, pad_mode="constant",
            return_complex=True,
        )  # fmt: skip
        power = self.mel @ (spectrum.real.square() + spectrum.imag.square())
        power = between_silences(power.view(b, channels, *power.shape[1:]), self.silence, self.frames)
        floor = power.amax((2, 3), keepdim=True) * 10 ** (-self.dynamic_range / 10)
        log = (power + floor + 1e-12).log()
        log = log - log.mean((2, 3), keepdim=True)
        return log - self.band_mean * log.mean(3, keepdim=True)


def between_silences(power: Tensor, silence: float, frames: int) -> Tensor:
    """Means of the power (B, C, bands, T) in so many equal parts of the time from the first to the last that is within
    `silence` decibels of the loudest one."""
    loudness = power.sum(2).amax(1)
    loud = (loudness >= loudness.amax(1, keepdim=True) * 10 ** (-silence / 10)).int()
    first, end = loud.argmax(1, keepdim=True), power.shape[3] - loud.flip(1).argmax(1, keepdim=True)
    edges = first + (end - first) * torch.linspace(0, 1, frames + 1, dtype=torch.float64, device=power.device)
    # The sum up to an edge, in float64: differences of neighbors keep the digits of quiet frames.
    total = F.pad(power.double().cumsum(3), (1, 0))
    before = edges.long().clamp_max(power.shape[3] - 1)
    weight = (edges - before)[:, None, None]
    at = before[:, None, None].expand(*power.shape[:3], frames + 1)
    sums = torch.lerp(total.gather(3, at), total.gather(3, at + 1), weight)
    return (sums.diff(dim=3) / edges.diff(dim=1)[:, None, None]).to(power.dtype)


def mel_filters(bands: int, points: int, sampling_rate: float) -> Tensor:
    """Triangular filters of the power spectrum, (bands, points // 2 + 1), with mel = 2595 log10(1 + Hz / 700)."""
    frequency = torch.arange(points // 2 + 1, dtype=torch.float64) * sampling_rate / points
    most = 2595 * math.log10(1 + sampling_rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, most, bands + 2, dtype=torch.float64) / 2595) - 1)
    low, middle, high = (edges[i : bands + i, None] for i in range(3))
    rising, falling = (frequency - low) / (middle - low), (high - frequency) / (high - middle)
    filters = torch.minimum(rising, falling).clamp_min(0)
    # A band narrower than the distance of frequencies takes the nearest one.
    nearest = F.one_hot((frequency - middle).abs().argmin(1), len(frequency))
    return torch.where(filters.sum(1, keepdim=True) > 0, filters, nearest).float()


class ContourStatistics(nn.Module):
    """Statistics over time of contours of sound: (B, C, T) to (B, `n_features`).

    Frames overlap by three quarters; those more than `silence` decibels below the loudest one are left out. Their
    contours are pitch in octaves, of frames that have one, the correlation with what was one period before, level in
    decibels below the loudest, and of the power in mel bands the centroid, spread, flatness and change. The statistics
    of each are mean, deviation, five percentiles, mean rise, mean fall and trend; in addition the parts of the frames
    that are loud and that have a pitch. Pitch is the largest autocorrelation above the smallest one of shorter lags.
    """

    window: Tensor
    mel: Tensor
    lags: Tensor

    def __init__(self, channels: int, length: int, sampling_rate: float, silence: float) -> None:
        super().__init__()
        self.sampling_rate, self.silence = sampling_rate, silence
        self.points = min(2 ** max(3, round(math.log2(SECONDS * sampling_rate))), 2 ** int(math.log2(length)))
        self.n_features = channels * (CONTOURS * (len(QUANTILES) + 5) + 2)
        # Twice as many frequencies as points, so that the autocorrelation does not go around the ends.
        for name, values in (
            ("window", torch.hann_window(self.points)),
            ("mel", mel_filters(BANDS, 2 * self.points, sampling_rate)),
            ("lags", torch.logspace(math.log2(SHORTEST), math.log2(self.points / 2), LAGS, base=2)),
        ):
            self.register_buffer(name, values, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Statistics of sound without gaps."""
        contours, loud, voiced = self.contours(x.flatten(0, 1))
        pitched = torch.where(voiced.any(1, keepdim=True), voiced, loud)
        counted = torch.stack([pitched, *[loud] * (CONTOURS - 1)], 1)
        last = torch.arange(1, loud.shape[1] + 1, device=x.device)
        first = torch.where(loud, last, loud.shape[1]).amin(1)
        shares = torch.stack([loud.sum(1) / (1 + (last * loud).amax(1) - first), voiced.sum(1) / loud.sum(1)], 1)
        return torch.cat([statistics(contours, counted).flatten(1), shares], 1).view(len(x), -1)

    def contours(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Contours (B, CONTOURS, frames) of sound (B, T), which frames are loud, at least one, and which of them
        have a pitch."""
        spectrum = torch.stft(
            x, 2 * self.points, self.points // 4, self.points, self.window, center=True,
            pad_mode="constant", return_complex=True,
        )  # fmt: skip
        power = spectrum.real.square() + spectrum.imag.square()
        energy, correlation = self._autocorrelation(power)
        above = correlation - correlation.cummin(1).values
        lag = (above - OCTAVE * (self.lags / SHORTEST).log2()[:, None]).argmax(1, keepdim=True)
        periodicity = correlation.gather(1, lag)[:, 0]
        pitch = (self.sampling_rate / self.lags).log2()[lag[:, 0]]
        loudest = energy.amax(1, keepdim=True)
        level = 10 * (energy / loudest.clamp_min(1e-12)).clamp_min(1e-9).log10()
        loud = energy >= loudest * 10 ** (-self.silence / 10)

        power = self.mel @ power + 1e-12
        share = power / power.sum(1, keepdim=True)
        band = torch.arange(BANDS, device=x.device, dtype=x.dtype)[:, None]
        centroid = (share * band).sum(1)
        spread = (share * (band - centroid[:, None]).square()).sum(1).clamp_min(1e-12).sqrt()
        flatness = (share + 10 ** (-self.silence / 10) / BANDS).log().mean(1)
        change = F.pad((share + 1e-12).sqrt().diff(dim=2).square().sum(1), (1, 0))
        found = torch.stack([pitch, periodicity, level, centroid, spread, flatness, change], 1)
        return found, loud, loud & (periodicity >= VOICED)

    def _autocorrelation(self, power: Tensor) -> tuple[Tensor, Tensor]:
        """Energy of frames with this power (B, frequencies, frames), (B, frames), and the correlation at all lags,
        (B, LAGS, frames), without the decay that is the window's."""
        found = torch.fft.irfft(power, dim=1)
        of_window = torch.fft.irfft(torch.fft.rfft(self.window, 2 * self.points).abs().square())
        decay = of_window / of_window[0]
        energy = found[:, :1]
        relative = found[:, : self.points] / energy.clamp_min(1e-12) / decay[: self.points, None].clamp_min(0.01)
        before = self.lags.long()
        weight = (self.lags - before)[:, None]
        return energy[:, 0], torch.lerp(relative[:, before], relative[:, before + 1], weight)


def statistics(x: Tensor, counted: Tensor) -> Tensor:
    """Mean, deviation, percentiles, mean rise, mean fall and trend of contours (B, K, T) over the times that are
    counted, at least one of each: (B, K, 10). The trend is the covariance with time over the deviation of time."""
    n = counted.sum(2, keepdim=True)
    mean = (x * counted).sum(2, keepdim=True) / n
    deviation = (((x - mean) * counted).square().sum(2, keepdim=True) / n).clamp_min(1e-12).sqrt()
    order = x.masked_fill(~counted, torch.inf).sort(2).values
    place = torch.tensor(QUANTILES, device=x.device) * (n - 1)
    low = place.long()
    quantiles = torch.lerp(order.gather(2, low), order.gather(2, torch.minimum(low + 1, n - 1)), place - low)
    step, both = x.diff(dim=2), counted[..., 1:] & counted[..., :-1]
    steps = both.sum(2, keepdim=True).clamp_min(1)
    rise, fall = ((part * both).sum(2, keepdim=True) / steps for part in (step.clamp_min(0), step.clamp_max(0)))
    time = torch.arange(x.shape[2], device=x.device, dtype=x.dtype)
    time = (time - (time * counted).sum(2, keepdim=True) / n) * counted
    trend = ((x - mean) * time).sum(2, keepdim=True) / (n * time.square().sum(2, keepdim=True)).clamp_min(1).sqrt()
    return torch.cat([mean, deviation, quantiles, rise, fall, trend], 2)
