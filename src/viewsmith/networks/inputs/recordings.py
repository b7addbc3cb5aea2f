"""Multi-channel recordings as input of networks: each channel scaled as a feature of vectors is, and its inverse."""

from __future__ import annotations

from torch import Tensor, nn

from viewsmith.networks.inputs.scaling import Scaler, Scaling


class ChannelScaler(nn.Module):
    """Recordings (n, C, T) to scaled recordings (n, C, T), and back; see `Scaler`.

    The statistics of a channel are over all recordings and times, so that differences between recordings remain.

    Parameters
    ----------
    channels : int
        C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.each = Scaler(channels)

    def fit(self, x: Tensor, scaling: Scaling) -> Scaling:
        """Compute the statistics of training recordings, (n, C, T); return the scaling that is used."""
        return self.each.fit(x.mT.flatten(0, 1), scaling)

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.each(x.mT)
        return scaled.mT.contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled recordings, (n, C, T), in the units of the data."""
        return self.each.inverse(x.mT).mT.contiguous()
