"""Features of vectors: principal coordinates, and random ReLU features of them."""

from typing import Annotated

import torch
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.networks.base import PartContext
from viewsmith.networks.features import Features
from viewsmith.networks.scaling import PrincipalAxes


@register(
    "features",
    "random-relu",
    help="principal coordinates, and random ReLU features of them",
    modalities="vectors",
    source="Rahimi and Recht 2008; Cho and Saul 2009",
)
class RandomReLU(Features):
    """Principal coordinates z of vectors (B, d), and relu(w z + b) with random w and b.

    Random features of a shallow network (Rahimi and Recht 2008, Weighted sums of random kitchen sinks), whose inner
    products are near those of an arc-cosine kernel (Cho and Saul 2009). Coordinates have root mean square 1; w is
    normal with variance 1 / m, so that w z has variance 1, and b is normal with variance 1.

    Parameters
    ----------
    context : PartContext
    coordinates : int
        Number m of principal coordinates, at most d.
    width : int
        Number of random features.
    """

    projection: Tensor
    offset: Tensor

    def __init__(
        self,
        context: PartContext,
        *,
        coordinates: Annotated[int, Bounds(ge=1)] = 64,
        width: Annotated[int, Bounds(ge=1)] = 1500,
    ) -> None:
        super().__init__()
        coordinates = min(coordinates, context.channels)
        self.axes = PrincipalAxes(context.channels, coordinates)
        self.register_buffer("projection", torch.zeros(coordinates, width))
        self.register_buffer("offset", torch.zeros(width))
        self.n_features = coordinates + width

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        d, m = self.axes.axes.shape
        x = x.float().to(self.axes.mean.device)
        found = PrincipalAxes(d, min(m, len(x))).to(x.device)
        found.fit(x)
        self.axes.mean.copy_(found.mean)
        self.axes.axes.zero_()
        # As many axes as n rows have, the others zero; all, where rows do not differ and have no direction.
        if bool((x.amax(0) > x.amin(0)).any()):
            self.axes.axes[:, : min(m, len(x))] = found.axes
        self.projection.copy_(torch.randn(self.projection.shape, generator=generator) * m**-0.5)
        self.offset.copy_(torch.randn(self.offset.shape, generator=generator))

    def block_size(self, x: Tensor) -> int:
        return 1024

    def of_block(self, x: Tensor) -> Tensor:
        coordinates = torch.addmm(-(self.axes.mean @ self.axes.axes), x, self.axes.axes)
        return torch.cat([coordinates, torch.addmm(self.offset, coordinates, self.projection).relu()], dim=1)
