"""DINO (Caron et al. 2021): the student predicts what its own moving average, the teacher, says of another view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.method import Role
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.frameworks.common import (
    check,
    check_momentum,
    check_temperature,
    head_width,
    move_copies,
    prototype_scores,
    represent_views,
)
from viewsmith.losses.self_distillation import self_distillation
from viewsmith.networks.mlp import MLP
from viewsmith.networks.momentum import cosine_momentum, momentum_copy
from viewsmith.views.pair import Pair


def projector(n_components: int, hidden: int = 2048, out: int = 256, *, norm: Literal["none", "batch"] = "none") -> MLP:
    """DINO's head up to its bottleneck: three layers with GELU; BatchNorm is for ResNets (appendix C)."""
    return MLP(n_components, [hidden, hidden, out], norm=norm, activation="gelu")


@register(
    "framework",
    "dino",
    help="match a centered, sharpened slow copy; takes multicrop",
    source="Caron et al. 2021",
    local_views=True,
)
class DINO(Framework):
    """Self-distillation: centering and sharpening of the teacher keep the two from collapsing.

    In a training forward (train mode, gradients on) the copies move first, and the center moves last, by the
    mean over all processes. Other forwards change nothing. Takes multi-crop views: the teacher sees the two full
    views, the student all.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components); with multi-crop views, samples of both sizes.
    head : nn.Module
        Representations to projections z (B, d).
    prototypes : int
        Width of the last layer, K, on length-1 projections, with length-1 weights.
    temperature : float
        tau_s of the student.
    teacher_temperature : float
        tau_t after the warm-up.
    first_teacher_temperature : float
        tau_t at the start; it rises linearly over the warm-up.
    warmup : float
        Fraction of training over which it rises, 0 to 1.
    momentum : float
        Of the copies at the start; it rises to 1 by half a cosine over the training.
    center_momentum : float
    teacher_output : bool
        What users get is the teacher's representation (`output_networks`), as published, instead of the student's.
    width : int, optional
        d; by default ``head.n_components``.

    Attributes
    ----------
    prototypes : nn.Linear
        d to K without bias; its rows are used at length 1 whatever their own.
    encoder_copy, head_copy, prototypes_copy : nn.Module
        The teacher.
    center : Tensor, shape (K,)

    Raises
    ------
    InputError
        A setting is out of range, or `d` unknown.
    """

    center: Tensor
    training_roles: ClassVar[Mapping[Role, str]] = {"last layer": "prototypes"}

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        prototypes: int = 65536,
        temperature: float = 0.1,
        teacher_temperature: float = 0.07,
        first_teacher_temperature: float = 0.04,
        warmup: float = 0.1,
        momentum: float = 0.996,
        center_momentum: float = 0.9,
        teacher_output: bool = False,
        width: int | None = None,
    ) -> None:
        super().__init__()
        check(prototypes >= 2, "prototypes", prototypes, "at least 2")
        check_temperature("temperature", temperature)
        check_temperature("teacher_temperature", teacher_temperature)
        check_temperature("first_teacher_temperature", first_teacher_temperature)
        check(0 <= warmup <= 1, "warmup", warmup, "a fraction from 0 to 1")
        check_momentum("momentum", momentum)
        check_momentum("center_momentum", center_momentum)
        self.encoder, self.head = encoder, head
        self.prototypes = nn.Linear(head_width(head, width), prototypes, bias=False)
        self.encoder_copy, self.head_copy = momentum_copy(encoder), momentum_copy(head)
        self.prototypes_copy = momentum_copy(self.prototypes)
        self.temperature, self.momentum, self.center_momentum = temperature, momentum, center_momentum
        self.teacher_temperature, self.first_teacher_temperature = teacher_temperature, first_teacher_temperature
        self.warmup, self.teacher_output = warmup, teacher_output
        self.register_buffer("center", torch.zeros(prototypes))

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        prototypes: int | None = None,
        temperature: float = 0.1,
        momentum: float = 0.996,
        head_norm: Literal["none", "batch"] = "none",
        teacher_output: bool = False,
        projector_dims: tuple[int, ...] | None = None,
    ) -> DINO:
        """DINO with its head and, unless given, as many prototypes as suit the size of the encoder."""
        dims = context.dims("projector_dims", projector_dims, (512, 256))
        head = context.wrap(projector(context.n_components, **dims, norm=head_norm))
        count = prototypes or (65_536 if context.published else 1024)
        own: dict[str, Any] = {"momentum": momentum, "teacher_output": teacher_output}
        return cls(context.encoder, head, prototypes=count, temperature=temperature, **own)

    @property
    def output_networks(self) -> tuple[nn.Module, nn.Module]:
        """The teacher's encoder and head where asked for, else the student's."""
        return (self.encoder_copy, self.head_copy) if self.teacher_output else (self.encoder, self.head)

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean over the teacher's view and every other view of the student.

        Parameters
        ----------
        pair : Pair
        progress : float
            Fraction of training done, 0 to 1.
        """
        momentum = cosine_momentum(self.momentum, progress)
        moves = move_copies(self, momentum, ("encoder", "head", "prototypes"))
        batch = len(pair.first)
        student = prototype_scores(self.head(represent_views(self.encoder, pair)), self.prototypes)
        with torch.no_grad():
            full = torch.cat([pair.first, pair.second])
            teacher = prototype_scores(self.head_copy(self.encoder_copy(full)), self.prototypes_copy)
        with torch.autocast(student.device.type, enabled=False):
            losses = self_distillation(
                student.unflatten(0, (-1, batch)),
                teacher.unflatten(0, (2, batch)),
                self.center,
                student_temperature=self.temperature,
                teacher_temperature=self.teacher_temperature_at(progress),
            )
        if moves:
            with torch.no_grad():
                mean = gather(teacher.mean(dim=0, keepdim=True)).mean(dim=0)
                self.center.lerp_(mean.to(self.center.dtype), 1 - self.center_momentum)  # equation 4
        return losses

    def teacher_temperature_at(self, progress: float) -> float:
        """tau_t when a fraction `progress` of the training is done."""
        risen = 1.0 if progress >= self.warmup else progress / self.warmup
        return self.first_teacher_temperature + risen * (self.teacher_temperature - self.first_teacher_temperature)
