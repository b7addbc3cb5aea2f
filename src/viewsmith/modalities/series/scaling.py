"""Scaling of recordings by channel."""

from torch import Tensor, nn

from viewsmith.networks.scaling import Scaler, Scaling


class ChannelScaler(nn.Module):
    """Recordings (n, C, T) to scaled recordings and back, by the statistics of channels over recordings and times."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.each = Scaler(channels)

    def fit(self, x: Tensor, scaling: Scaling) -> Scaling:
        """Compute the statistics of training recordings, (n, C, T); return the scaling that is used."""
        return self.each.fit(x.mT.flatten(0, 1), scaling)

    def forward(self, x: Tensor) -> Tensor:
        return self.each(x.mT).mT.contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled recordings, (n, C, T), in the units of the data."""
        return self.each.inverse(x.mT).mT.contiguous()
