"""VICReg (Bardes, Ponce and LeCun 2022): views attract, features keep their spread and do not repeat one another."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import total
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.frameworks.common import check_no_local_views, check_weight, full_precision
from viewsmith.losses.vicreg import vicreg
from viewsmith.networks.mlp import MLP
from viewsmith.views.pair import Pair


def projector(n_components: int, hidden: int = 8192, out: int = 8192) -> MLP:
    """VICReg's expander: three layers with BatchNorm in the two hidden ones, a bare last one (section 4.2)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch", bias=False)


@register(
    "framework",
    "vicreg",
    help="views attract, features keep their spread and are decorrelated",
    source="Bardes, Ponce and LeCun 2022",
)
class VICReg(Framework):
    """Neither negatives nor copies: the variance of every feature is held up, and features are decorrelated.

    It has no state. Variances and covariances are those of the batch of all processes.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    head : nn.Module
        Representations to projections z (B, d).
    invariance_weight : float
        lambda, of the squared distance between the views.
    variance_weight : float
        mu, of what the standard deviations lack to 1.
    covariance_weight : float
        nu, of the squared covariances between features.

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
        """VICReg with its head; 1 as `covariance_weight` where the head has its published size, 4 where it is smaller.

        A feature has fewer others to differ from in a narrow head, so that the published weight leaves it redundant.
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

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.vicreg`; `progress` changes nothing.

        Raises
        ------
        InputError
            The pair has local views.
        """
        check_no_local_views(pair, "vicreg")
        # One forward for both views: they share their BatchNorm statistics.
        z = full_precision(self.head(self.encoder(torch.cat([pair.first, pair.second]))))
        with torch.autocast(z.device.type, enabled=False):
            return vicreg(
                *z.chunk(2),
                invariance_weight=self.invariance_weight,
                variance_weight=self.variance_weight,
                covariance_weight=self.covariance_weight,
                total=total,
            )
