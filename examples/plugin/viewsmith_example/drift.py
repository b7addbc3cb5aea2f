"""A view maker: the slow drift of a sensor, for rows whose features have an order, such as time points."""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.views import ViewMaker


@register("view maker", "drift", help="a smooth random curve added along the features of a row", modalities="vectors")
class Drift(ViewMaker):
    """x + s * c: c is a curve through Gaussian values at equally spaced knots, linear between them."""

    drift_strength: Annotated[float, Bounds(ge=0)] = 0.5
    """s, the standard deviation at the knots in scaled units (1 is one standard deviation of the data)."""
    drift_knots: Annotated[int, Bounds(ge=2)] = 4
    """Number of knots along a row; with 2 the curve is a straight line."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Views of scaled rows, (B, d), each with a different curve."""
        knots = torch.randn(len(x), 1, self.drift_knots, device=x.device, dtype=x.dtype, generator=generator)
        curve = F.interpolate(knots, size=x.shape[1], mode="linear", align_corners=True)
        return x + self.drift_strength * curve[:, 0]
