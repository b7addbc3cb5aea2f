"""What networks get of recordings (n, C, T): gaps, scaling by channel, the encoder; the features of MiniRocket.

A gap is NaN where a value is not known, as after the end of a recording that is shorter than others. Scaled recordings
and views keep them; what reads values derives the mask here.
"""

import itertools
import math
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.registry import Bounds, register
from viewsmith.core.rows import RowSource
from viewsmith.core.tensors import on_host
from viewsmith.modalities.dna.networks import SequenceCNN
from viewsmith.networks.base import EncoderContext, PartContext
from viewsmith.networks.features import Features
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


@register("encoder", "cnn", help="a small convolutional network for CPUs", modalities="series", default_width=256)
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
            convolved = convolutions(x, self.channels[number], dilation)
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


def convolutions(x: Tensor, channels: Tensor, dilation: int) -> Tensor:
    """Convolutions of recordings (B, C, T) by each kernel, which reads its `channels`, 1 in (84, C): (B, 84, T)."""
    kernels = weights().to(x)[:, None]
    if x.shape[1] > MANY_CHANNELS:
        border = TAPS // 2 * dilation
        return F.conv1d(channels @ x, kernels, dilation=dilation, padding=border, groups=len(KERNELS))
    # The weights of all kernels for all taps of all channels, (84, C * 9).
    return (channels[:, :, None] * kernels).flatten(1) @ shifted(x, dilation)


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
