"""NNCLR (Dwibedi et al. 2021): the positive of a view is the earlier projection nearest to the other view."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import check
from viewsmith.core.registry import Positive, register
from viewsmith.frameworks import base
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 256) -> MLP:
    """NNCLR's head: three layers with BatchNorm, the last without activation (section 3.3)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch", last="normed")


def predictor(width: int = 256, hidden: int = 4096) -> MLP:
    """NNCLR's predictor: BatchNorm in the hidden layer, a linear last layer (section 3.3)."""
    return MLP(width, [hidden, width], norm="batch")


def nearest(z: Tensor, support: Tensor) -> Tensor:
    """The row of `support` (K, d), of length 1, with the largest cosine to each row of z (B, d) (equation 4)."""
    return support[(unit(z) @ support.T).argmax(dim=1)]


@register(
    "framework",
    "nnclr",
    help="nearest neighbors among earlier projections as positives, with a predictor",
    source="Dwibedi et al. 2021",
)
class NNCLR(base.PredictorFramework):
    """NNCLR: the prediction for a view and the earlier projection nearest to the other view are a positive pair,
    predictions for other samples the negatives."""

    projector, predicts = staticmethod(projector), staticmethod(predictor)
    largest_queue = 98_304  # as published
    temperature: Positive = 0.1

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        predictor: nn.Module,
        *,
        queue: int = largest_queue,
        width: int | None = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(encoder, head, predictor, **options)
        check(queue >= 1, "queue", queue, "at least 1")
        # The queue of earlier projections, (K, d), rows of length 1, and the position of the oldest one.
        self.keys = nn.Buffer(base.random_keys((queue, base.head_width(head, width)), generator))
        self.pointer = nn.Buffer(torch.tensor(0))

    @classmethod
    def build(
        cls,
        context: base.FrameworkContext,
        *,
        queue_size: int | Literal["auto"] = "auto",
        projector_dims: tuple[int, ...] | None = None,
        predictor_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> "NNCLR":
        """Build NNCLR with its head and predictor. `resolve` replaces the queue size "auto"."""
        options["queue"] = cls.largest_queue if queue_size == "auto" else queue_size
        return super().build(context, projector_dims=projector_dims, predictor_dims=predictor_dims, **options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses (B,): mean of two directions (equations 3 and 4, algorithm 1); training forwards change the queue."""
        p, z = self.predictions_and_projections(pair)
        with torch.autocast(p.device.type, enabled=False):
            neighbors = nearest(z, self.keys.to(z.dtype))
            directions = base.two_way_info_nce(neighbors, p, pair.ids, self.temperature)
        if base.updates_state(self):
            first = gather(unit(z[: len(pair.first)]))
            self.keys[base.replace_oldest(self.pointer, len(first), len(self.keys))] = first.to(self.keys.dtype)
        return (directions[0] + directions[1]) / 2
