"""Scaling of recordings by channel."""

import torch
from torch import Tensor, nn

from viewsmith.core.rows import RowSource
from viewsmith.networks.scaling import Moments, Scaler, Scaling, column_moments, tensor_blocks


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
