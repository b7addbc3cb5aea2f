"""What networks get of recordings (n, C, T): gaps, scaling by channel, the encoder; the features of MiniRocket, and of
sound: patches of log-mel spectrograms, and statistics of contours over time (prosody, in speech).

A gap is NaN where a value is not known, as after the end of a recording that is shorter than others. Scaled recordings
and views keep them; what reads values derives the mask here.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.registry import Bounds, Fraction, Positive, register
from viewsmith.core.rows import RowSource
from viewsmith.core.tensors import on_host
from viewsmith.modalities.dna.networks import SequenceCNN
from viewsmith.networks.base import EncoderContext, PartContext
from viewsmith.networks.features import Features, PatchResponses
from viewsmith.networks.scaling import Moments, Scaler, Scaling, column_moments, tensor_blocks


def known_points(x: Tensor) -> Tensor | None:
    """Which points of recordings (B, C, T) are known in any channel, bool (B, T); None if all are in all (not asked on
    a GPU, where to look would mean to wait)."""
    if torch.compiler.is_compiling():
        return None
    unknown = x.isnan()
    return None if on_host(x) and not bool(unknown.any()) else ~unknown.all(1)


def filled(x: Tensor) -> Tensor:
    """Scaled recordings with zeros, the scaled mean, where values are not known: for sums that the mask leaves out."""
    return torch.where(x.isnan(), 0.0, x)


def last_points(x: Tensor, known: Tensor | None) -> Tensor:
    """The last of the `known` points of recordings (B, C, T), int64 (B, 1); None: all are known."""
    places = torch.arange(x.shape[2], device=x.device)
    return places[-1:].expand(len(x), 1) if known is None else (known * places).amax(1, keepdim=True)


class ChannelScaler(nn.Module):
    """Recordings (n, C, T) to scaled recordings and back, by the statistics of channels over recordings and times; NaN
    in gaps stays."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.each = Scaler(channels)

    def fit(self, x: Tensor | RowSource, scaling: Scaling) -> Scaling:
        """Compute the statistics of training recordings, (n, C, T); return the scaling that is used."""
        found: Moments | None = None
        for block in tensor_blocks(x):
            values = block.mT.flatten(0, 1)
            own = _of_known(values) if bool(values.isnan().any()) else column_moments([values])
            found = own if found is None else found.joined(own)
        assert found is not None
        return self.each.use(found, scaling)

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.isnan(), x, self.each(x.mT).mT.contiguous())

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled recordings, (n, C, T), in the units of the data."""
        found = self.each.inverse(x.mT).mT.contiguous()
        return torch.where(x.isnan(), x, found)


def _of_known(values: Tensor) -> Moments:
    """Moments of the values (m, C) of each channel that are known; of a channel without one, of a zero that counts
    nothing."""
    known = [column[~column.isnan()][:, None] for column in values.mT]
    each = [column_moments([column if len(column) else values.new_zeros(1, 1)]) for column in known]
    rows = torch.tensor([len(column) for column in known], dtype=torch.float64, device=values.device)
    zeros = sum(moments.zeros for column, moments in zip(known, each, strict=True) if len(column))
    names = ("mean", "variance", "low", "high", "first")
    return Moments(rows, zeros, *(torch.cat([getattr(moments, name) for moments in each]) for name in names))


class RecordingCNN(SequenceCNN):
    """Recordings (B, C, T) of any length to representations (B, n_components): `SequenceCNN`, NaN is padding."""

    def masked(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        known = known_points(x)
        return (x, None) if known is None else (filled(x), known)


@register(
    "encoder", "cnn", help="a small convolutional network for CPUs", modalities=("series", "spectra"), default_width=256
)
def _recording_cnn(context: EncoderContext) -> RecordingCNN:
    return RecordingCNN(n_components=context.n_components, channels=context.channels)


TAPS = 9  # of a kernel
KERNELS = list(itertools.combinations(range(TAPS), 3))  # places of the three weights of 2; the others are -1
MOST_DILATIONS = 32
GOLDEN = (5**0.5 + 1) / 2
#: With more than these, channels are summed first: one product for all taps and channels is quicker for few.
MANY_CHANNELS = 32
#: Values of convolutions at once, on a CPU, where they stay in the cache, and on a GPU.
VALUES, VALUES_ON_GPU = 2**20, 2**27


@register(
    "features",
    "minirocket",
    help="fractions of time in which 84 fixed kernels, dilated, exceed a bias",
    modalities="series",
    source="Dempster, Schmidt and Webb 2021",
)
class MiniRocket(Features):
    """MiniRocket: convolutions with fixed kernels and dilations, pooled over time: recordings (B, C, T).

    Each of the 84 kernels has nine taps: three weights are 2, six are -1. A feature is the fraction of time in which
    the convolution is larger than a bias (PPV). Biases are quantiles of the convolution of a random training recording.
    With several channels, a kernel of one dilation reads the sum of a random subset of one to nine of them. Values that
    are not known (NaN) add nothing to a convolution, and points where no channel is known are not counted.
    Dempster, Schmidt and Webb (2021), MiniRocket, sections 3.1 and 3.2; the subsets are those of their implementation.

    Parameters
    ----------
    context : PartContext
    n_features : int
        Number of features, of which there are as many as multiples of 84 allow.

    Notes
    -----
    Features are in the order of dilations, then kernels, then biases, as in the package aeon. They have no gradient.
    """

    def __init__(self, context: PartContext, *, n_features: Annotated[int, Bounds(ge=84)] = 2000) -> None:
        super().__init__()
        channels, length = context.row_shape
        each = n_features // len(KERNELS)
        self.n_features = each * len(KERNELS)
        self.dilations = dilations(length, each)
        self.biases = nn.Buffer(torch.zeros(self.n_features))
        self.channels = nn.Buffer(torch.ones(len(self.dilations), len(KERNELS), channels))

    def block_size(self, x: Tensor) -> int:
        channels, length = x.shape[1:]
        rows = max(len(KERNELS), channels if channels > MANY_CHANNELS else TAPS * channels)
        return max(1, (VALUES_ON_GPU if x.is_cuda else VALUES) // (rows * length))

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        x = x.float().cpu()
        known = known_points(x)
        known = torch.ones(1, 1, dtype=torch.bool).expand(len(x), x.shape[2]) if known is None else known
        x = filled(x)
        combinations, channels = len(self.dilations) * len(KERNELS), x.shape[1]
        if channels > 1:
            most = math.log2(min(channels, TAPS) + 1)
            used = (2 ** (most * torch.rand(combinations, generator=generator))).long()
            rank = torch.rand(combinations, channels, generator=generator).argsort(1).argsort(1)
            self.channels.copy_((rank < used[:, None]).view_as(self.channels))
        # Quantiles of a low-discrepancy sequence.
        quantiles = torch.arange(1, self.n_features + 1, dtype=torch.float64) * GOLDEN % 1
        start = 0
        for number, (dilation, count) in enumerate(self.dilations):
            rows = torch.randint(len(x), (len(KERNELS),), generator=generator)
            drawn, counted = x[rows], known[rows]
            # Each kernel with its recording: (84, T), those that are not known last in the order of value.
            summed = (self.channels[number].cpu()[:, None] @ drawn)[:, 0]
            values = (weights()[:, None] @ shifted(summed[:, None], dilation))[:, 0]
            values = values.masked_fill(~counted, torch.inf)
            stop = start + count * len(KERNELS)
            last = counted.sum(1, keepdim=True) - 1
            place = quantiles[start:stop].view(len(KERNELS), count) * last
            low = place.long()
            places = torch.cat([low, torch.minimum(low + 1, last)], dim=1)
            # Only these are put in order: to sort long recordings takes five times as long.
            pairs = zip(values.numpy(), places.numpy(), strict=True)
            ends = torch.from_numpy(np.stack([np.partition(row, np.unique(at))[at] for row, at in pairs]))
            biases = torch.lerp(ends[:, :count], ends[:, count:], (place - low).float())
            self.biases[start:stop] = biases.flatten().to(self.biases)
            start = stop

    def of_block(self, x: Tensor) -> Tensor:
        known = known_points(x)
        x = x if known is None else filled(x)
        found, start = [], 0
        for number, (dilation, count) in enumerate(self.dilations):
            stop = start + count * len(KERNELS)
            biases = self.biases[start:stop].view(len(KERNELS), count)
            for some, convolved in convolutions(x, self.channels[number], dilation):
                found.append(fractions_above(convolved, biases[some], dilation, number % 2, known))
            start = stop
        return torch.cat(found, dim=1)


def dilations(length: int, each: int) -> list[tuple[int, int]]:
    """At most 32 dilations up to an eighth of the length, even by exponent, and of the `each` features of a kernel
    those of each dilation."""
    number = min(each, MOST_DILATIONS)
    most = max(0.0, math.log2((length - 1) / (TAPS - 1)))
    found: dict[int, int] = {}
    # By numpy, whose rounding decides between two dilations.
    for dilation in np.logspace(0, most, number, base=2).astype(int).tolist():
        found[dilation] = found.get(dilation, 0) + 1
    counts = [int(count * each / number) for count in found.values()]
    for i in range(each - sum(counts)):
        counts[i % len(counts)] += 1
    return list(zip(found, counts, strict=True))


def weights() -> Tensor:
    """The kernels, (84, 9)."""
    found = torch.full((len(KERNELS), TAPS), -1.0)
    return found.scatter_(1, torch.tensor(KERNELS), 2.0)


def convolutions(x: Tensor, channels: Tensor, dilation: int) -> Iterator[tuple[slice, Tensor]]:
    """Convolutions of recordings (B, C, T) by each kernel, which reads its `channels`, 1 in (84, C): by all at once,
    (B, 84, T), or of long recordings by an even number in turn, so that values stay in the cache."""
    kernels, many, border = weights().to(x)[:, None], x.shape[1] > MANY_CHANNELS, TAPS // 2 * dilation
    at_once = max(2, (VALUES_ON_GPU if x.is_cuda else VALUES) // x.shape[2] // 2 * 2)
    # The weights of all kernels for all taps of all channels, (84, C * 9).
    mixed, taps = (channels, x) if many else ((channels[:, :, None] * kernels).flatten(1), shifted(x, dilation))
    for some in (slice(start, start + at_once) for start in range(0, len(KERNELS), at_once)):
        read = mixed[some] @ taps
        groups = read.shape[1]
        yield some, F.conv1d(read, kernels[some], dilation=dilation, padding=border, groups=groups) if many else read


def shifted(x: Tensor, dilation: int) -> Tensor:
    """Recordings (B, C, T) at the nine taps of each time, zeros beyond their ends: (B, C * 9, T)."""
    b, channels, length = x.shape
    padded = F.pad(x, (TAPS // 2 * dilation, TAPS // 2 * dilation))
    taps = [padded[..., tap * dilation : tap * dilation + length] for tap in range(TAPS)]
    return torch.stack(taps, dim=2).view(b, TAPS * channels, length)


def fractions_above(
    convolved: Tensor, biases: Tensor, dilation: int, first: int, known: Tensor | None = None
) -> Tensor:
    """Fractions of time in which convolutions (B, 84, T) exceed biases (84, f): (B, 84 * f); kernels of even number
    plus `first` over all `known` times, (B, T), the others where all taps are."""
    found = convolved.new_empty(convolved.shape[0], *biases.shape)
    if known is not None:
        within = shifted(known[:, None].to(convolved), dilation).amin(1) > 0
        within = torch.where(within.any(1, keepdim=True), within, known)
        for parity in (0, 1):
            counted = within if (parity + first) % 2 else known
            points = counted.sum(1, keepdim=True).clamp_min(1)
            for i in range(biases.shape[1]):
                above = convolved[:, parity::2] > biases[parity::2, i, None]
                found[:, parity::2, i] = (above & counted[:, None]).sum(2).to(found) / points
        return found.flatten(1)
    border = TAPS // 2 * dilation
    inside = slice(border, convolved.shape[2] - border)
    for parity in (0, 1):
        # A recording shorter than the dilated kernel has no such time.
        times = inside if (parity + first) % 2 and convolved.shape[2] > 2 * border else slice(None)
        part = convolved[:, parity::2, times]
        above = part.new_empty(part.shape)  # written as numbers, in a third of the time of booleans that become them
        for i in range(biases.shape[1]):
            found[:, parity::2, i] = torch.gt(part, biases[parity::2, i, None], out=above).mean(2)
    return found.flatten(1)


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
    """

    sampling_rate: Positive = 16_000.0
    """Samples per second."""
    bands: Annotated[int, Bounds(ge=2)] = 40
    """Bands of the spectrogram."""
    frames: Annotated[int, Bounds(ge=1)] = 64
    """Frames of a recording, at most as many as windows fit."""
    centers: Annotated[int, Bounds(ge=2)] = 256
    """Centers of the dictionary."""
    side: Annotated[int, Bounds(ge=1)] = 7
    """Bands and frames of a patch."""
    stride: Annotated[int, Bounds(ge=1)] = 2
    """Bands and frames between patches."""
    regions: tuple[Annotated[int, Bounds(ge=1)], Annotated[int, Bounds(ge=1)]] = (3, 4)
    """Parts of the frequencies and of the time over which responses are averaged."""
    silence: Positive = 30.0
    """The first and last frame that are used are at most so many decibels below the loudest one."""
    dynamic_range: Positive = 50.0
    """Power more than so many decibels below the largest of the recording counts as that."""
    band_mean: Fraction = 0.5
    """Part of each band's mean over time that is subtracted."""
    contours: bool = True
    """Append the statistics of contours."""

    def set_up(self, context: PartContext) -> None:
        rate, bands = self.sampling_rate, self.bands
        channels, length = context.row_shape
        # The power of 2 that is nearest to 25 ms, in the recording.
        self.points = min(2 ** max(3, round(math.log2(0.025 * rate))), 2 ** int(math.log2(length)))
        self.hop = max(1, min(self.points // 2, length // self.frames))
        self.frames = min(self.frames, length // self.hop + 1)
        of_patches: Any = {"centers": self.centers, "stride": self.stride, "regions": self.regions}
        self.dictionary = PatchResponses(channels, (bands, self.frames), patch=(self.side, self.side), **of_patches)
        self.statistics = ContourStatistics(channels, length, rate, self.silence) if self.contours else None
        self.n_features = self.dictionary.n_features + (self.statistics.n_features if self.statistics else 0)
        self.mel = nn.Buffer(mel_filters(bands, self.points, rate), persistent=False)
        self.window = nn.Buffer(torch.hann_window(self.points), persistent=False)

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        self.dictionary.fit(torch.cat([self.spectrogram(part.float()) for part in x.split(256)]), generator)

    def block_size(self, x: Tensor) -> int:
        size = self.dictionary.block_size(x.new_zeros(0, 1, len(self.mel), self.frames))
        return min(size, max(1, VALUES // (x.shape[1] * x.shape[2])))

    def of_block(self, x: Tensor) -> Tensor:
        found: Tensor = self.dictionary(self.spectrogram(x))
        return found if self.statistics is None else torch.cat([found, self.statistics(filled(x))], 1)

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

    def __init__(self, channels: int, length: int, sampling_rate: float, silence: float) -> None:
        super().__init__()
        self.sampling_rate, self.silence = sampling_rate, silence
        self.points = min(2 ** max(3, round(math.log2(SECONDS * sampling_rate))), 2 ** int(math.log2(length)))
        self.n_features = channels * (CONTOURS * (len(QUANTILES) + 5) + 2)
        self.window = nn.Buffer(torch.hann_window(self.points), persistent=False)
        # Twice as many frequencies as points, so that the autocorrelation does not go around the ends.
        self.mel = nn.Buffer(mel_filters(BANDS, 2 * self.points, sampling_rate), persistent=False)
        lags = torch.logspace(math.log2(SHORTEST), math.log2(self.points / 2), LAGS, base=2)
        self.lags = nn.Buffer(lags, persistent=False)

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
