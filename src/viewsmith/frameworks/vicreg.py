"""VICReg (Bardes, Ponce and LeCun 2022): views attract, features keep their variance and are decorrelated."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import total
from viewsmith.core.errors import check_weight
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, FrameworkContext, check_no_local_views, full_precision
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

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    head : nn.Module
        Representations to projections z (B, d).
    invariance_weight : float
        lambda, weight of the squared distance between the views, at least 0.
    variance_weight : float
        mu, weight of the hinge loss ``max(0, 1 - standard deviation)``, at least 0.
    covariance_weight : float
        nu, weight of the squared covariances between features, at least 0.

    Raises
    ------
    InputError
        A setting is out of range.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        invariance_weight: float = 25.0,
        variance_weight: float = 25.0,
        covariance_weight: float = 1.0,
    ) -> None:
        super().__init__()
        check_weight("invariance_weight", invariance_weight)
        check_weight("variance_weight", variance_weight)
        check_weight("covariance_weight", covariance_weight)
        self.encoder, self.head = encoder, head
        self.invariance_weight, self.variance_weight = invariance_weight, variance_weight
        self.covariance_weight = covariance_weight

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        invariance_weight: float = 25.0,
        variance_weight: float = 25.0,
        covariance_weight: float | None = None,
        projector_dims: tuple[int, ...] | None = None,
    ) -> VICReg:
        """Build VICReg. The default `covariance_weight` is 1 with the published head, else 4.

        A small head has fewer pairs of different features, so the published weight would leave them redundant.
        """
        if covariance_weight is None:
            covariance_weight = 1.0 if context.published else 4.0
        dims = context.dims("projector_dims", projector_dims, (512, 512))
        return cls(
            context.encoder,
            context.wrap(projector(context.n_components, **dims)),
            invariance_weight=invariance_weight,
            variance_weight=variance_weight,
            covariance_weight=covariance_weight,
        )

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.vicreg`; `progress` has no effect.

        Raises
        ------
        InputError
            The pair has local views.
        """
        check_no_local_views(pair, "vicreg")
        # One pass for both views, so that they share BatchNorm statistics.
        z = full_precision(self.head(self.encoder(torch.cat([pair.first, pair.second]))))
        with torch.autocast(z.device.type, enabled=False):
            return vicreg(
                *z.chunk(2),
                invariance_weight=self.invariance_weight,
                variance_weight=self.variance_weight,
                covariance_weight=self.covariance_weight,
                total=total,
            )
