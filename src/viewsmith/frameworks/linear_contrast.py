"""InfoNCE with the critic of Gaussian views, on a linear map of fixed features (`LinearContrast`)."""

from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.losses.gaussian_contrast import gaussian_contrast
from viewsmith.networks.projected import ProjectedFeatures
from viewsmith.views.base import PositivePair


@register(
    "framework",
    "linear-contrast",
    help="InfoNCE with the critic of Gaussian views, solved in closed form (linear-contrast)",
    source="van den Oord et al. 2018; the critic: Ioffe 2006",
    general=False,
)
class LinearContrastFramework(Framework):
    """The objective that the linear map of features solves; the negatives are the other samples of the batch."""

    encoder: ProjectedFeatures

    def __init__(self, encoder: nn.Module, head: nn.Module | None = None) -> None:
        super().__init__(encoder, nn.Identity() if head is None else head)

    @classmethod
    def build(cls, context: FrameworkContext, **options: Any) -> "LinearContrastFramework":
        """Build the framework on the map of the context; there is no head."""
        return cls(context.encoder, **options)

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        return self.encoder.columns(x) if output == "projection" else super().represent(x, output)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.gaussian_contrast`; `progress` has no effect."""
        self.check_no_local_views(pair)
        z0, z1 = self.encoder.columns(torch.cat([pair.first, pair.second])).chunk(2)
        return gaussian_contrast(z0, z1, self.encoder.correlation[: z0.shape[1]])
