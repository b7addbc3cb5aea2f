"""Barlow Twins (Zbontar et al. 2021): the cross-correlation matrix of two views' features becomes the identity."""

import torch
from torch import Tensor

from viewsmith.core.distributed import total
from viewsmith.core.registry import Weight, register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.losses.barlow_twins import barlow_twins
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 8192, out: int = 8192) -> MLP:
    """Barlow Twins' head: three layers with BatchNorm in the two hidden ones, a linear last layer (section 2.2)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch", bias=False)


@register(
    "framework",
    "barlow-twins",
    help="the correlations between the features of two views become the identity",
    source="Zbontar et al. 2021",
)
class BarlowTwins(Framework):
    """Barlow Twins: correlate each feature with the same feature of the other view, and with no other feature.

    There are no negatives, no momentum copies and no state. Correlations are computed over the batch of all processes.
    """

    static_step = True
    off_diagonal_weight: Weight = 0.0051
    """lambda, weight of the squared correlations between different features, at least 0."""

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        off_diagonal_weight: Weight | None = None,
        projector_dims: tuple[int, ...] | None = None,
    ) -> "BarlowTwins":
        """Build Barlow Twins; `off_diagonal_weight` is 0.0051 with the published head, else 0.08: a small head has
        fewer pairs of features."""
        if off_diagonal_weight is None:
            off_diagonal_weight = 0.0051 if context.published else 0.08
        dims = context.dims("projector_dims", projector_dims, (512, 128))
        head = context.wrap(projector(context.n_components, **dims))
        return cls(context.encoder, head, off_diagonal_weight=off_diagonal_weight)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.barlow_twins`; `progress` has no effect."""
        z = self.project_pair(pair)
        with torch.autocast(z.device.type, enabled=False):
            return barlow_twins(*z.chunk(2), off_diagonal_weight=self.off_diagonal_weight, total=total)
