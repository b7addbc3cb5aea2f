"""SwAV (Caron et al. 2020): each view predicts the prototypes to which another view of the sample is assigned."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, rank, world_size
from viewsmith.core.errors import check, check_temperature
from viewsmith.core.registry import Fraction, Positive, register
from viewsmith.core.schedule import Role
from viewsmith.frameworks import base
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.self_distillation import log_prototype_mass, sinkhorn, swapped_prediction
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 128) -> MLP:
    """SwAV's head: BatchNorm in the hidden layer, a linear last layer (Caron et al. 2020, appendix A)."""
    return MLP(n_components, [hidden, out], norm="batch")


@register(
    "framework",
    "swav",
    help="predict the prototype assignment of the other view; takes multicrop",
    source="Caron et al. 2020",
    local_views=True,
)
class SwAV(base.Framework):
    """SwAV: online clustering into clusters of equal size around trained prototypes of length 1.

    Multi-crop views are supported: the two full views are assigned, and all views predict. With a queue, earlier
    projections are assigned together with the batch, so that small batches can be balanced, too. Finally, a training
    forward (train mode, gradients enabled) replaces the oldest projections of the queue by those of the full views,
    from all processes.

    Parameters
    ----------
    prototypes : int
        K, number of prototypes.
    epsilon : float
        Smoothness of the assignments; see `viewsmith.losses.self_distillation.sinkhorn`.
    iterations : int
        Number of Sinkhorn iterations.
    queue : int
        Number of earlier projections of each of the two full views: 0, or at least the batch of all processes (3,840
        in the paper, for batches of 256).
    width : int, optional
        d. Default: ``head.n_components``.

    Attributes
    ----------
    prototypes : nn.Linear
        Linear layer from d to K without bias. Its weight rows are normalized to length 1 when they are used.
    keys : Tensor, shape (2, queue, d)
        Earlier projections, of length 1.
    pointer, filled : Tensor of int64, shape ()
        Position of the oldest projection in the queue, and number of projections in it.
    """

    training_roles: ClassVar[Mapping[Role, str]] = {"last layer": "prototypes"}

    temperature: Positive = 0.1
    """tau of the predictions."""
    queue_start: Fraction = 0.075
    """Fraction of the training after which the queue is filled. It is used as soon as it is full."""

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        prototypes: int = 3000,
        epsilon: float = 0.05,
        iterations: int = 3,
        queue: int = 0,
        width: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(encoder, head, **options)
        check(prototypes >= 2, "prototypes", prototypes, "at least 2")
        check_temperature("epsilon", epsilon)
        check(iterations >= 1, "iterations", iterations, "at least 1")
        check(queue >= 0, "queue", queue, "0 or more")
        d = base.head_width(head, width)
        self.prototypes = nn.Linear(d, prototypes, bias=False)
        self.epsilon, self.iterations, self.queue = epsilon, iterations, queue
        if queue:
            self.keys = nn.Buffer(torch.zeros(2, queue, d))
            self.pointer = nn.Buffer(torch.tensor(0))
            self.filled = nn.Buffer(torch.tensor(0))

    @classmethod
    def build(
        cls,
        context: base.FrameworkContext,
        *,
        prototypes: int | None = None,
        queue_size: int = 0,
        projector_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> "SwAV":
        """Build SwAV with its head. The default number of prototypes depends on the size of the encoder."""
        head = projector(context.n_components, **context.dims("projector_dims", projector_dims, (512, 128)))
        count = prototypes or (3000 if context.published else 300)
        return cls(context.encoder, context.wrap(head), prototypes=count, queue=queue_size, **options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean over pairs of an assigned view and another; assignments are balanced over all
        processes and the queue."""
        batch, queued = len(pair.first), bool(self.queue) and progress >= self.queue_start
        fills = queued and base.updates_state(self)
        z = self.head(self.represent_views(pair))
        scores = base.prototype_scores(z, self.prototypes).unflatten(0, (-1, batch))
        with torch.autocast(scores.device.type, enabled=False), torch.no_grad():
            assigned = scores[:2].detach()
            targets = self._with_queue(assigned) if queued else self._assign(assigned, _log_total_everywhere)
            if fills:
                self._enqueue(unit(base.full_precision(z.detach())[: 2 * batch]).unflatten(0, (2, batch)))
        with torch.autocast(scores.device.type, enabled=False):
            return swapped_prediction(scores, targets, self.temperature)

    def _assign(self, scores: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
        return sinkhorn(scores, self.epsilon, self.iterations, total=total)

    def _with_queue(self, scores: Tensor) -> Tensor:
        """Assignments of scores (2, B, K), balanced over the batch and, if it is full, the queue."""
        # All processes store the same queue, so each process counts a part of it.
        past = self.keys[:, rank() :: world_size()]
        found = base.prototype_scores(past.flatten(0, 1), self.prototypes).unflatten(0, past.shape[:2]).to(scores.dtype)
        here = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        counted = torch.cat([here, (self.filled == self.queue).expand(past.shape[1])])[:, None]

        def total(log_mass: Tensor) -> Tensor:
            return _log_total_everywhere(log_mass.masked_fill(~counted, float("-inf")))

        return self._assign(torch.cat([scores, found], dim=1), total)[:, : scores.shape[1]]

    def _enqueue(self, z: Tensor) -> None:
        new = gather(z.transpose(0, 1).contiguous()).transpose(0, 1)
        self.keys[:, base.replace_oldest(self.pointer, new.shape[1], self.queue)] = new.to(self.keys.dtype)
        self.filled.add_(new.shape[1]).clamp_max_(self.queue)


def _log_total_everywhere(log_mass: Tensor) -> Tensor:
    """`log_prototype_mass` over the samples of all processes."""
    return gather(log_prototype_mass(log_mass)[None]).logsumexp(dim=0)
