"""What networks get of recordings (n, C, T): gaps, scaling by channel, the encoder.

A gap is NaN where a value is not known, as after the end of a recording that is shorter than others. Scaled recordings
and views keep them; what reads values derives the mask here.
"""

import torch
from torch import Tensor, nn

from viewsmith.core.device import on_host
from viewsmith.core.registry import register
from viewsmith.core.rows import RowSource
from viewsmith.modalities.dna.networks import SequenceCNN
from viewsmith.networks.base import EncoderContext
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
