"""MoCo v2 (He et al. 2020, Chen et al. 2020): the key of the other view is the positive; negatives are in a queue."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import check
from viewsmith.core.registry import Fraction, Positive, register
from viewsmith.frameworks import base
from viewsmith.losses.nt_xent import moco_info_nce, unit
from viewsmith.networks.base import MLP, momentum_copy
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 128) -> MLP:
    """MoCo v2's head: Linear - ReLU - Linear (Chen et al. 2020, section 3)."""
    return MLP(n_components, [hidden, out])


@register(
    "framework",
    "moco",
    help="MoCo v2: keys from a momentum copy, negatives from a queue",
    source="Chen, Fan et al. 2020",
)
class MoCo(base.Framework):
    """MoCo v2: queries are first views, keys are second views in a momentum copy, negatives are a queue of past keys.

    A training forward (train mode, gradients enabled) first updates the copies. Finally the keys of the batch, from all
    processes, replace the oldest keys of the queue. Other forwards change no state.

    Parameters
    ----------
    queue : int
        K, number of keys in the queue; at least the batch of all processes.
    width : int, optional
        d. Default: ``head.n_components``.
    generator : torch.Generator, optional
        Draws the initial keys, which are random directions. Default: a generator with seed 0.

    Attributes
    ----------
    encoder_copy, head_copy : nn.Module
        Momentum copies.
    keys : Tensor, shape (K, d)
        The queue; rows have length 1.
    key_ids : Tensor of int64, shape (K,)
        Row of the training set that each key shows; -1 if unknown.
    pointer : Tensor of int64, shape ()
        Position of the oldest key.
    """

    largest_queue = 65_536
    temperature: Positive = 0.2
    """tau."""
    momentum: Fraction = 0.999
    """Momentum of the copies, 0 to 1, constant."""

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        queue: int = largest_queue,
        width: int | None = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(encoder, head, **options)
        check(queue >= 1, "queue", queue, "at least 1")
        self.encoder_copy, self.head_copy = momentum_copy(encoder), momentum_copy(head)
        self.keys = nn.Buffer(base.random_keys((queue, base.head_width(head, width)), generator))
        self.key_ids = nn.Buffer(torch.full((queue,), -1))
        self.pointer = nn.Buffer(torch.tensor(0))

    @classmethod
    def build(
        cls,
        context: base.FrameworkContext,
        *,
        queue_size: int | Literal["auto"] = "auto",
        projector_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> "MoCo":
        """Build MoCo v2 with its head. `resolve` replaces the queue size "auto"."""
        head = projector(context.n_components, **context.dims("projector_dims", projector_dims, (512, 128)))
        queue = cls.largest_queue if queue_size == "auto" else queue_size
        return cls(context.encoder, context.wrap(head), queue=queue, **options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses of the first views, shape (B,); keys that show a row of the pair (`pair.ids`) are not negatives."""
        self.check_no_local_views(pair)
        training = self.update_copies(self.momentum)
        queries = base.full_precision(self.head(self.encoder(pair.first)))
        with torch.no_grad():
            keys = unit(base.full_precision(self.head_copy(self.encoder_copy(pair.second))))
        # The loss stores a copy of the queue for its backward pass, so the queue can change before it.
        losses = moco_info_nce(
            queries,
            keys,
            self.keys,
            temperature=self.temperature,
            ids=pair.ids,
            queue_ids=None if pair.ids is None else self.key_ids,
        )
        if training:
            self._enqueue(keys, pair)
        return losses

    @torch.no_grad()
    def _enqueue(self, keys: Tensor, pair: PositivePair) -> None:
        ids = self.key_ids.new_full((len(keys),), -1) if pair.ids is None else pair.ids[1]
        keys, ids = gather(keys), gather(ids)
        positions = base.replace_oldest(self.pointer, len(keys), len(self.keys))
        self.keys[positions] = keys.to(self.keys.dtype)
        self.key_ids[positions] = ids
