"""Features of spectra: the spectrum and its smoothed slopes, each without its level and amplitude."""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.networks.base import PartContext
from viewsmith.networks.features import Features


def normalized(x: Tensor) -> Tensor:
    """Spectra (B, 1, T) less their median and over the distance of their quartiles (robust normal variate: Guo, Wu and
    Massart 1999), at most `MOST` of it: bands where nothing passes do not rule the rest. Of few peaks among zeros this
    distance is 0, and the deviation is taken."""
    low, middle, high = torch.quantile(x.flatten(1), QUARTILES.to(x), dim=1)[..., None, None]
    deviation = x.std(2, correction=0, keepdim=True)
    robust = high - low > 1e-5 * deviation
    found = (x - middle) / torch.where(robust, high - low, deviation).clamp_min(1e-6)
    return torch.where(robust, found.clamp(-MOST, MOST), found)


def slopes(x: Tensor, half_width: int) -> Tensor:
    """Slope of the line that fits best in a window around each point of spectra (B, 1, T), which go on as they end:
    ``sum(k x_k) / sum(k^2)`` (Savitzky and Golay 1964, first derivative of polynomials of degree 1 and 2)."""
    k = torch.arange(-half_width, half_width + 1, device=x.device, dtype=x.dtype)
    return F.conv1d(F.pad(x, (half_width, half_width), mode="replicate"), (k / k.square().sum())[None, None])


QUARTILES, MOST = torch.tensor([0.25, 0.5, 0.75]), 100.0
POINTS = 1024
#: Half of the windows to which slopes are fitted, as parts of the axis.
PARTS = (1 / 300, 1 / 120, 1 / 60, 1 / 30)


@register(
    "features",
    "derivatives",
    help="spectra and their smoothed first derivatives, of one amplitude each",
    modalities="spectra",
    source="Savitzky and Golay 1964; Barnes, Dhanoa and Lister 1989",
)
class Derivatives(Features):
    """Spectra (B, 1, T) and their slopes in four windows, without level and amplitude.

    The level of a spectrum is lost in slopes, and its amplitude where each is divided by its root mean square: so is
    what scattering adds and multiplies. The rest of a baseline is what views differ by.
    """

    windows: tuple[Annotated[float, Bounds(gt=0, le=0.5)], ...] = PARTS
    """Half of the windows to which slopes are fitted, as parts of the axis."""
    points: Annotated[int, Bounds(ge=8)] = POINTS
    """Of longer spectra, means of so many parts are taken."""

    def set_up(self, context: PartContext) -> None:
        self.points = min(context.row_shape[1], self.points)
        self.half_widths = sorted({max(1, round(each * self.points)) for each in self.windows})
        self.n_features = self.points * (1 + len(self.half_widths))

    def of_block(self, x: Tensor) -> Tensor:
        x = normalized(F.adaptive_avg_pool1d(x, self.points))
        found = [x]
        for each in self.half_widths:
            slope = slopes(x, each)
            found.append(slope / slope.square().mean(2, keepdim=True).sqrt().clamp_min(1e-6))
        return torch.cat(found, dim=2).flatten(1)
