"""DINO (Caron et al. 2021): a student predicts the output of its moving average, the teacher, for another view."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import check, check_fraction, check_temperature
from viewsmith.core.registry import Fraction, Positive, register
from viewsmith.core.schedule import Role
from viewsmith.frameworks.base import Framework, FrameworkContext, head_width, prototype_scores
from viewsmith.losses.self_distillation import self_distillation
from viewsmith.networks.base import MLP, cosine_momentum, momentum_copy
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 256, *, norm: Literal["none", "batch"] = "none") -> MLP:
    """DINO's head up to its bottleneck: three layers with GELU; BatchNorm is for ResNets (appendix C)."""
    return MLP(n_components, [hidden, hidden, out], norm=norm, activation="gelu")


@register(
    "framework",
    "dino",
    help="predict the centered, sharpened output of a momentum copy; takes multicrop",
    source="Caron et al. 2021",
    local_views=True,
)
class DINO(Framework):
    """DINO: self-distillation. Centering and sharpening of the teacher's output prevent collapse.

    A training forward (train mode, gradients enabled) first updates the copies and finally the center, with the mean
    over all processes. Other forwards change no state. Multi-crop views are supported: the teacher gets the two full
    views, the student gets all views.

    Parameters
    ----------
    out_dim : int
        K, width of the last layer. Its inputs and its weight rows are normalized to length 1.
    teacher_temperature : float
        tau_t of the teacher after the warm-up.
    first_teacher_temperature : float
        tau_t at the start; it changes linearly during the warm-up.
    warmup : float
        Length of the warm-up as a fraction of the training, 0 to 1.
    center_momentum : float
        Momentum of the center, 0 to 1.
    width : int, optional
        d. Default: ``head.n_components``.

    Attributes
    ----------
    last_layer : nn.Linear
        Linear layer from d to K without bias.
    encoder_copy, head_copy, last_layer_copy : nn.Module
        The teacher.
    center : Tensor, shape (K,)
        Running mean of the teacher's scores.
    """

    training_roles: ClassVar[Mapping[Role, str]] = {"last layer": "last_layer"}

    temperature: Positive = 0.1
    """tau_s of the student."""
    momentum: Fraction = 0.996
    """Momentum of the copies at the start of training, 0 to 1; it rises to 1 along half a cosine."""
    teacher_output: bool = False
    """Use the teacher after training (`output_networks`), as in the paper, instead of the student."""

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        out_dim: int = 65536,
        teacher_temperature: float = 0.07,
        first_teacher_temperature: float = 0.04,
        warmup: float = 0.1,
        center_momentum: float = 0.9,
        width: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(encoder, head, **options)
        check(out_dim >= 2, "out_dim", out_dim, "at least 2")
        check_temperature("teacher_temperature", teacher_temperature)
        check_temperature("first_teacher_temperature", first_teacher_temperature)
        check(0 <= warmup <= 1, "warmup", warmup, "a fraction from 0 to 1")
        check_fraction("center_momentum", center_momentum)
        self.last_layer = nn.Linear(head_width(head, width), out_dim, bias=False)
        self.encoder_copy, self.head_copy = momentum_copy(encoder), momentum_copy(head)
        self.last_layer_copy = momentum_copy(self.last_layer)
        self.teacher_temperature, self.first_teacher_temperature = teacher_temperature, first_teacher_temperature
        self.center_momentum, self.warmup = center_momentum, warmup
        self.center = nn.Buffer(torch.zeros(out_dim))

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        out_dim: int | None = None,
        head_norm: Literal["none", "batch"] = "none",
        projector_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> "DINO":
        """Build DINO with its head. The default number of outputs depends on the size of the encoder."""
        dims = context.dims("projector_dims", projector_dims, (512, 256))
        head = context.wrap(projector(context.n_components, **dims, norm=head_norm))
        out_dim = out_dim or (65_536 if context.published else 1024)
        return cls(context.encoder, head, out_dim=out_dim, **options)

    @property
    def output_networks(self) -> tuple[nn.Module, nn.Module]:
        """Encoder and head of the teacher if `teacher_output`, else of the student."""
        return (self.encoder_copy, self.head_copy) if self.teacher_output else (self.encoder, self.head)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean over pairs of a teacher's view and another view of the student."""
        momentum = cosine_momentum(self.momentum, progress)
        training = self.update_copies(momentum, ("encoder", "head", "last_layer"))
        batch = len(pair.first)
        student = prototype_scores(self.head(self.represent_views(pair)), self.last_layer)
        with torch.no_grad():
            full = torch.cat([pair.first, pair.second])
            teacher = prototype_scores(self.head_copy(self.encoder_copy(full)), self.last_layer_copy)
        with torch.autocast(student.device.type, enabled=False):
            losses = self_distillation(
                student.unflatten(0, (-1, batch)),
                teacher.unflatten(0, (2, batch)),
                self.center,
                student_temperature=self.temperature,
                teacher_temperature=self.teacher_temperature_at(progress),
            )
        if training:
            with torch.no_grad():
                mean = gather(teacher.mean(dim=0, keepdim=True)).mean(dim=0)
                self.center.lerp_(mean.to(self.center.dtype), 1 - self.center_momentum)  # equation 4
        return losses

    def teacher_temperature_at(self, progress: float) -> float:
        """tau_t when a fraction `progress` of the training is done."""
        fraction = 1.0 if progress >= self.warmup else progress / self.warmup
        return self.first_teacher_temperature + fraction * (self.teacher_temperature - self.first_teacher_temperature)
