"""SimSiam (Chen and He 2021): each view predicts the projection of the other view, which gets no gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from viewsmith.core.registry import register
from viewsmith.core.schedule import Role
from viewsmith.frameworks.base import Framework, FrameworkContext, predictions_and_projections
from viewsmith.losses.self_distillation import negative_cosine
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 2048) -> MLP:
    """SimSiam's head: three layers with BatchNorm, the last without scale, shift and activation (section 3)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch", last="normed")


def predictor(width: int = 2048, hidden: int = 512) -> MLP:
    """SimSiam's predictor, a bottleneck: BatchNorm in the hidden layer, a linear last layer (section 3)."""
    return MLP(width, [hidden, width], norm="batch")


@register(
    "framework",
    "simsiam",
    help="predict the projection of the other view, which gets no gradient",
    source="Chen and He 2021",
)
class SimSiam(Framework):
    """SimSiam: BYOL without a momentum copy. The stopped gradient prevents collapse. It has no state.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    head : nn.Module
        Representations to projections z (B, d).
    predictor : nn.Module
        Projections to predictions (B, d). In the paper, its learning rate is constant.
    separate_batch_norm : bool
        Pass first and second views through the networks separately, each with its own BatchNorm statistics, as in the
        authors' program. Otherwise both views share one pass.
    """

    training_roles: ClassVar[Mapping[Role, str]] = {"predictor": "predictor"}

    separate_batch_norm: bool = False

    def __init__(self, encoder: nn.Module, head: nn.Module, predictor: nn.Module, **options: Any) -> None:
        super().__init__(encoder, head, **options)
        self.predictor = predictor

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        projector_dims: tuple[int, ...] | None = None,
        predictor_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> SimSiam:
        """Build SimSiam with its head and predictor."""
        head = projector(context.n_components, **context.dims("projector_dims", projector_dims, (512, 512)))
        predicts = predictor(head.n_components, **context.dims("predictor_dims", predictor_dims, (128,)))
        return cls(context.encoder, context.wrap(head), predicts, **options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean of the two directions (equation 4); `progress` has no effect.

        Raises
        ------
        InputError
            The pair has local views, or the predictor and the head have different output widths.
        """
        p, z = predictions_and_projections(self, "simsiam", pair)
        (p0, p1), (z0, z1) = p.chunk(2), z.chunk(2)
        with torch.autocast(p.device.type, enabled=False):
            return (negative_cosine(p0, z1) + negative_cosine(p1, z0)) / 2
