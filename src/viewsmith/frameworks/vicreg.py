"""VICReg (Bardes, Ponce and LeCun 2022): views attract, features keep their variance and are decorrelated."""

from typing import Any

import torch
from torch import Tensor

from viewsmith.core.distributed import total
from viewsmith.core.registry import Weight, register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.losses.vicreg import vicreg
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 8192, out: int = 8192) -> MLP:
    """VICReg's expander: three layers with BatchNorm in the two hidden ones, a linear last layer (section 4.2)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch", bias=False)


@register(
    "framework",
    "vicreg",
    help="views attract, features keep their variance and are decorrelated",
    source="Bardes, Ponce and LeCun 2022",
)
class VICReg(Framework):
    """VICReg: views attract, the variance of each feature stays large, and features are decorrelated.

    There are no negatives, no momentum copies and no state. Variances and covariances are computed over the batch of
    all processes.
    """

    static_step = True
    invariance_weight: Weight = 25.0
    """lambda, weight of the squared distance between the views, at least 0."""
    variance_weight: Weight = 25.0
    """mu, weight of the hinge loss ``max(0, 1 - standard deviation)``, at least 0."""
    covariance_weight: Weight = 1.0
    """nu, weight of the squared covariances between features, at least 0."""

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        covariance_weight: Weight | None = None,
        projector_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> "VICReg":
        """Build VICReg. The default `covariance_weight` is 1 with the published head, else, for few features, 4."""
        if covariance_weight is None:
            covariance_weight = 1.0 if context.published else 4.0
        head = projector(context.n_components, **context.dims("projector_dims", projector_dims, (512, 512)))
        return cls(context.encoder, context.wrap(head), covariance_weight=covariance_weight, **options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.vicreg`; `progress` has no effect."""
        z = self.project_pair(pair)
        with torch.autocast(z.device.type, enabled=False):
            return vicreg(
                *z.chunk(2),
                invariance_weight=self.invariance_weight,
                variance_weight=self.variance_weight,
                covariance_weight=self.covariance_weight,
                total=total,
            )
