"""Features of recordings: the convolutions of MiniRocket, and patches of log-mel spectrograms for sound."""

import itertools
import math
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.series.networks import filled, known_points
from viewsmith.networks.base import PartContext
from viewsmith.networks.dictionary import PatchResponses
from viewsmith.networks.features import Features

TAPS = 9  # of a kernel
KERNELS = list(itertools.combinations(range(TAPS), 3))  # places of the three weights of 2; the others are -1
MOST_DILATIONS = 32
GOLDEN = (5**0.5 + 1) / 2
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

    biases: Tensor
    channels: Tensor

    def __init__(self, context: PartContext, *, n_features: Annotated[int, Bounds(ge=84)] = 2000) -> None:
        super().__init__()
        channels, length = context.row_shape
        each = n_features // len(KERNELS)
        self.n_features = each * len(KERNELS)
        self.dilations = dilations(length, each)
        self.register_buffer("biases", torch.zeros(self.n_features))
        self.register_buffer("channels", torch.ones(len(self.dilations), len(KERNELS), channels))

    def block_size(self, x: Tensor) -> int:
        channels, length = x.shape[1:]
        rows = max(len(KERNELS), TAPS * channels)
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
            # Each kernel with its recording: (84, T), in order of value, those that are not known last.
            summed = (self.channels[number].cpu()[:, None] @ drawn)[:, 0]
            values = (weights()[:, None] @ shifted(summed[:, None], dilation))[:, 0]
            values = values.masked_fill(~counted, torch.inf).sort(1).values
            stop = start + count * len(KERNELS)
            last = counted.sum(1, keepdim=True) - 1
            place = quantiles[start:stop].view(len(KERNELS), count) * last
            low = place.long()
            high = torch.minimum(low + 1, last)
            biases = torch.lerp(values.gather(1, low), values.gather(1, high), (place - low).float())
            self.biases[start:stop] = biases.flatten().to(self.biases)
            start = stop

    def of_block(self, x: Tensor) -> Tensor:
        known = known_points(x)
        x = x if known is None else filled(x)
        found, start = [], 0
        for number, (dilation, count) in enumerate(self.dilations):
            # The weights of all kernels for all taps of all channels, (84, C * 9).
            kernels = self.channels[number][:, :, None] * weights().to(x)[:, None]
            convolved = kernels.flatten(1) @ shifted(x, dilation)
            stop = start + count * len(KERNELS)
            biases = self.biases[start:stop].view(len(KERNELS), count)
            found.append(fractions_above(convolved, biases, dilation, number % 2, known))
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
        for i in range(biases.shape[1]):
            found[:, parity::2, i] = (part > biases[parity::2, i, None]).float().mean(2)
    return found.flatten(1)


@register(
    "features",
    "log-mel",
    help="learned patches of log-mel spectrograms, for sound",
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
    normalization: Atal 1974). The dictionary is that of Coates, Lee and Ng (2011).

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
        self.n_features = self.dictionary.n_features
        self.register_buffer("mel", mel_filters(bands, self.points, sampling_rate), persistent=False)
        self.register_buffer("window", torch.hann_window(self.points), persistent=False)

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        self.dictionary.fit(torch.cat([self.spectrogram(part.float()) for part in x.split(256)]), generator)

    def block_size(self, x: Tensor) -> int:
        size = self.dictionary.block_size(x.new_zeros(0, 1, len(self.mel), self.frames))
        return min(size, max(1, VALUES // (x.shape[1] * x.shape[2])))

    def of_block(self, x: Tensor) -> Tensor:
        found: Tensor = self.dictionary(self.spectrogram(x))
        return found

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
