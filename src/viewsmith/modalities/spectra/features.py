"""Features of spectra: the spectrum and its smoothed slopes, each without its level and amplitude."""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.networks.base import PartContext
from viewsmith.networks.features import Features


def normalized(x: Tensor) -> Tensor:
    """Spectra (B, 1, T) with mean 0 and variance 1 (standard normal variate: Barnes, Dhanoa and Lister 1989)."""
    x = x - x.mean(2, keepdim=True)
    return x / x.square().mean(2, keepdim=True).sqrt().clamp_min(1e-6)


def slopes(x: Tensor, half_width: int) -> Tensor:
    """Slope of the line that fits best in a window around each point of spectra (B, 1, T), which go on as they end:
    ``sum(k x_k) / sum(k^2)`` (Savitzky and Golay 1964, first derivative of polynomials of degree 1 and 2)."""
    k = torch.arange(-half_width, half_width + 1, device=x.device, dtype=x.dtype)
    return F.conv1d(F.pad(x, (half_width, half_width), mode="replicate"), (k / k.square().sum())[None, None])


@register(
    "features",
    "derivatives",
    help="spectra and their smoothed first derivatives, of one amplitude each",
    modalities="spectra",
    source="Savitzky and Golay 1964; Barnes, Dhanoa and Lister 1989",
)
class Derivatives(Features):
    """Spectra (B, 1, T) and their slopes in windows of 5, 11, 21 and 41 points, without level and amplitude.

    The level of a spectrum is lost in slopes, and its amplitude where each is divided by its root mean square. So does
    what scattering adds and multiplies; the rest of a baseline is what views differ by.

    Parameters
    ----------
    context : PartContext
    half_widths : tuple of int
        Points on either side of the middle of the windows, of which those longer than a spectrum are left out.
    """

    def __init__(
        self, context: PartContext, *, half_widths: tuple[Annotated[int, Bounds(ge=1)], ...] = (2, 5, 10, 20)
    ) -> None:
        super().__init__()
        points = context.row_shape[1]
        self.half_widths = [each for each in half_widths if 2 * each < points]
        self.n_features = points * (1 + len(self.half_widths))

    def of_block(self, x: Tensor) -> Tensor:
        found = [normalized(x)]
        for each in self.half_widths:
            slope = slopes(x, each)
            found.append(slope / slope.square().mean(2, keepdim=True).sqrt().clamp_min(1e-6))
        return torch.cat(found, dim=2).flatten(1)
