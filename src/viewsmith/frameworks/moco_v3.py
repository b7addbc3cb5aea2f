"""MoCo v3 (Chen et al. 2021): predictions of each view against the momentum keys of all other views of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from viewsmith.core.method import Role
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.frameworks.common import check_momentum, check_temperature, predictions_and_targets, two_way_info_nce
from viewsmith.networks.mlp import MLP
from viewsmith.networks.momentum import momentum_copy
from viewsmith.views.pair import Pair


def projector(n_components: int, hidden: int = 4096, out: int = 256) -> MLP:
    """MoCo v3's head for ResNets: BatchNorm in both layers, the last without scale, shift and activation."""
    return MLP(n_components, [hidden, out], norm="batch", last="normed")


def predictor(width: int = 256, hidden: int = 4096, *, bias: bool = False) -> MLP:
    """MoCo v3's predictor for ResNets: BatchNorm in the hidden layer, a bare last layer; no bias (the program)."""
    return MLP(width, [hidden, width], norm="batch", bias=bias)


@register(
    "framework",
    "moco-v3",
    help="a predictor and a slow copy, negatives of the batch, both directions",
    source="Chen, Xie et al. 2021",
)
class MoCoV3(Framework):
    """Both views predict the other one's key; the other samples' keys of the batch are the negatives.

    In a training forward (train mode, gradients on) the copies move first. Other forwards change nothing.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    head : nn.Module
        Representations to projections z (B, d).
    predictor : nn.Module
        Projections to queries (B, d).
    temperature : float
        tau; the paper uses 1 for ResNets, 0.2 for vision transformers.
    momentum : float
        Of the copies at the start; it rises to 1 by half a cosine over the training.
    separate_batch_norm : bool
        The first and the second views pass the networks one after another, each with its own BatchNorm statistics, as
        in the authors' program; otherwise together.

    Attributes
    ----------
    encoder_copy, head_copy : nn.Module

    Raises
    ------
    InputError
        A setting is out of range.
    """

    training_roles: ClassVar[Mapping[Role, str]] = {"predictor": "predictor"}

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        predictor: nn.Module,
        *,
        temperature: float = 1.0,
        momentum: float = 0.99,
        separate_batch_norm: bool = False,
    ) -> None:
        super().__init__()
        check_temperature("temperature", temperature)
        check_momentum("momentum", momentum)
        self.encoder, self.head, self.predictor = encoder, head, predictor
        self.encoder_copy, self.head_copy = momentum_copy(encoder), momentum_copy(head)
        self.temperature, self.momentum = temperature, momentum
        self.separate_batch_norm = separate_batch_norm

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        temperature: float = 1.0,
        momentum: float = 0.99,
        separate_batch_norm: bool = False,
        projector_dims: tuple[int, ...] | None = None,
        predictor_dims: tuple[int, ...] | None = None,
    ) -> MoCoV3:
        """MoCo v3 with its head and predictor, whose last layer has a bias where it is not of the published size."""
        head = projector(context.n_components, **context.dims("projector_dims", projector_dims, (512, 256)))
        dims = context.dims("predictor_dims", predictor_dims, (512,))
        predicts = predictor(head.n_components, **dims, bias=not context.published)
        own: dict[str, Any] = {"momentum": momentum, "separate_batch_norm": separate_batch_norm}
        return cls(context.encoder, context.wrap(head), predicts, temperature=temperature, **own)

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): 2 tau times the mean of the two directions' InfoNCE (the paper sums the directions).

        Keys come from all processes; those that show a row of the pair (`pair.ids`) are no negatives.

        Parameters
        ----------
        pair : Pair
        progress : float
            Fraction of training done, 0 to 1.

        Raises
        ------
        InputError
            The pair has local views, or the predictor's width is not the head's.
        """
        queries, keys = predictions_and_targets(self, "moco-v3", pair, progress)
        with torch.autocast(queries.device.type, enabled=False):
            directions = two_way_info_nce(queries, keys, pair.ids, self.temperature)
            return self.temperature * (directions[0] + directions[1])
