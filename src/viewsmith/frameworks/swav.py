"""SwAV (Caron et al. 2020): each view predicts the prototypes that another view of the sample is assigned to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.method import Role
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.frameworks.common import check, check_temperature, head_width, prototype_scores, represent_views
from viewsmith.losses.swapped_prediction import log_prototype_mass, sinkhorn, swapped_prediction
from viewsmith.networks.mlp import MLP
from viewsmith.views.pair import Pair


def projector(n_components: int, hidden: int = 2048, out: int = 128) -> MLP:
    """SwAV's head: BatchNorm in the hidden layer, a bare last layer (Caron et al. 2020, appendix A)."""
    return MLP(n_components, [hidden, out], norm="batch")


@register(
    "framework",
    "swav",
    help="predict the other view's cluster among prototypes; takes multicrop",
    source="Caron et al. 2020",
    local_views=True,
)
class SwAV(Framework):
    """Online clustering with equal clusters. Its only state is weights: the prototypes, length-1 vectors.

    Takes multi-crop views: the two full views are assigned, all views predict.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components); with multi-crop views, samples of both sizes.
    head : nn.Module
        Representations to projections z (B, d).
    prototypes : int
        Their number, K.
    temperature : float
        tau of the predictions.
    epsilon : float
        Smoothness of the assignments; see `viewsmith.losses.swapped_prediction.sinkhorn`.
    iterations : int
        Of Sinkhorn's scaling.
    width : int, optional
        d; by default ``head.n_components``.

    Attributes
    ----------
    prototypes : nn.Linear
        d to K without bias; its rows are used at length 1 whatever their own.

    Raises
    ------
    InputError
        A setting is out of range, or `d` unknown.
    """

    training_roles: ClassVar[Mapping[Role, str]] = {"last layer": "prototypes"}

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        prototypes: int = 3000,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        iterations: int = 3,
        width: int | None = None,
    ) -> None:
        super().__init__()
        check(prototypes >= 2, "prototypes", prototypes, "at least 2")
        check_temperature("temperature", temperature)
        check_temperature("epsilon", epsilon)
        check(iterations >= 1, "iterations", iterations, "at least 1")
        self.encoder, self.head = encoder, head
        self.prototypes = nn.Linear(head_width(head, width), prototypes, bias=False)
        self.temperature, self.epsilon, self.iterations = temperature, epsilon, iterations

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        prototypes: int | None = None,
        temperature: float = 0.1,
        projector_dims: tuple[int, ...] | None = None,
    ) -> SwAV:
        """SwAV with its head and, unless given, as many prototypes as suit the size of the encoder."""
        dims = context.dims("projector_dims", projector_dims, (512, 128))
        head = context.wrap(projector(context.n_components, **dims))
        count = prototypes or (3000 if context.published else 300)
        return cls(context.encoder, head, prototypes=count, temperature=temperature)

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean over the assigned view and every other view; `progress` changes nothing.

        Assignments are balanced over the samples of all processes.
        """
        z = self.head(represent_views(self.encoder, pair))
        scores = prototype_scores(z, self.prototypes).unflatten(0, (-1, len(pair.first)))
        with torch.autocast(scores.device.type, enabled=False):
            targets = sinkhorn(scores[:2].detach(), self.epsilon, self.iterations, total=_log_total_everywhere)
            return swapped_prediction(scores, targets, self.temperature)


def _log_total_everywhere(log_mass: Tensor) -> Tensor:
    """`log_prototype_mass` over the samples of all processes."""
    return gather(log_prototype_mass(log_mass)[None]).logsumexp(dim=0)
