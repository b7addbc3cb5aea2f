"""DiffAug's framework: the similarity of projections is trained to follow the similarity of representations."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, local_rows
from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import Fraction, Positive, register
from viewsmith.frameworks.base import DataSummary, Framework, full_precision, nt_xent_of_all
from viewsmith.losses.nt_xent import Kernel, unit
from viewsmith.losses.soft_contrastive import KernelForm, default_negative_weight, soft_contrastive, soft_normalized
from viewsmith.views.base import PositivePair

Ids = tuple[Tensor, Tensor] | None


@dataclass
class SoftTargets:
    """How the soft loss compares similarities with soft labels."""

    normalize: bool = True
    """Normalize the similarities of the soft loss over the batch, see `viewsmith.losses.soft_contrastive`."""
    nu_target: Positive = 100.0
    """Degrees of freedom of the kernel that computes soft labels from representations."""
    target_distance: Positive | None = 100.0
    """Representations are scaled to this mean squared distance in a batch before soft labels are computed. With a
    smaller value more rows count as similar; with too small a value, representations collapse. None: no scaling, as
    published: the encoder, with BatchNorm and 50 features, has the distance 100."""
    targets: Literal["samples", "views"] = "samples"
    """Whether soft labels compare the samples of a batch, as in the authors' program, or samples with views, as in the
    paper."""
    beta: Fraction = 0.0
    """Added to the log-similarity of the two views of a sample in the soft labels, 0 to 1."""
    detach_targets: bool = True
    """No gradient through the soft labels; with False, as published, this gradient drives representations apart."""


@dataclass
class SoftSettings(SoftTargets):
    """Settings of `viewsmith.losses.soft_normalized` or, unless `normalize`, of `viewsmith.losses.soft_contrastive`."""

    nu: float = 1.0  #: as in these losses
    kernel: KernelForm = "paper"  #: as in these losses
    negative_weight: float | None = None  #: as in `soft_contrastive`; None: `default_negative_weight`
    floor: float = 1e-5  #: as in `soft_contrastive`
    #: Projections are normalized to length 1 / sqrt(temperature): with a large nu the kernel is then, up to a factor,
    #: that of NT-Xent, exp(cosine / temperature). None: they are not normalized.
    temperature: float | None = None


@dataclass(frozen=True)
class InfoNCESettings:
    """Settings of `viewsmith.losses.nt_xent` with negatives="cross", which replaces the soft loss in an ablation."""

    kernel: Kernel = "cauchy"
    temperature: float = 1.0


@register(
    "framework",
    "soft",
    help="similarity of projections follows that of representations (diffaug)",
    source="Zang et al. 2024",
    general=False,
    options={"kernel": KernelForm, "temperature": float, "projector_dims": tuple[int, ...]},
)
class SoftContrastive(Framework):
    """Encoder with one or two projections, each trained with the soft contrastive loss.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations y (B, n_components).
    head : nn.Module
        Representations to projections z (B, d).
    map_head : nn.Module, optional
        Representations to a second, low-dimensional projection: the map. None: the output of `head` is the map, as in
        the paper.
    loss : SoftSettings or InfoNCE
        Loss of the projections of `head`.
    map_loss : SoftSettings or InfoNCE
        Loss of the map of `map_head`.
    map_gradient : float
        Fraction of the map's gradient that reaches the encoder, 0 to 1.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        map_head: nn.Module | None = None,
        *,
        loss: SoftSettings | InfoNCESettings | None = None,
        map_loss: SoftSettings | InfoNCESettings | None = None,
        map_gradient: float = 1.0,
    ) -> None:
        super().__init__()
        check(0 <= map_gradient <= 1, "map_gradient", map_gradient, "0 (none) to 1 (all of its gradient)")
        self.encoder, self.head, self.map_head = encoder, head, map_head
        self.loss, self.map_loss = loss or SoftSettings(), map_loss or SoftSettings()
        self.map_gradient = map_gradient

    @classmethod
    def resolve(cls, options: dict[str, Any], data: DataSummary) -> dict[str, Any]:
        """Set the defaults: the paper's kernel and the temperature 0.1."""
        kernel = options.get("kernel", "paper")
        if kernel not in get_args(KernelForm):
            raise InputError(f"kernel is {kernel!r}, expected paper, published or plain with the framework soft")
        return options | {"kernel": kernel, "temperature": options.get("temperature", 0.1)}

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): the row sums of the soft loss. `progress` has no effect."""
        self.check_no_local_views(pair)
        # One pass for both views, so that they share BatchNorm statistics.
        y = self.encoder(torch.cat([pair.first, pair.second]))
        labels = _Labels(y)
        losses = _pair_losses(self.loss, self.head(y), labels, pair.ids)
        if self.map_head is None:
            return losses
        map_input = y if self.map_gradient == 1 else y.detach() + self.map_gradient * (y - y.detach())
        return losses + _pair_losses(self.map_loss, self.map_head(map_input), labels, pair.ids)

    @property
    def map_network(self) -> nn.Module:
        """The head that computes the map: (B, n_components) to (B, map_components)."""
        return self.head if self.map_head is None else self.map_head


class _Labels:
    """Scaled representations from which soft labels are computed, cached for losses with the same settings."""

    def __init__(self, y: Tensor) -> None:
        self.y = y
        self.cached: dict[Any, tuple[Tensor, Tensor]] = {}

    def of(self, loss: SoftSettings) -> tuple[Tensor, Tensor]:
        """Representations of the first views, (B, m), and those to compare with, from all processes, (N, m)."""
        settings = loss.targets, loss.target_distance
        if settings not in self.cached:
            y0, y1 = full_precision(self.y).chunk(2)
            target = gather(y1 if loss.targets == "views" else y0)
            if loss.target_distance is not None:
                # The mean squared distance of all pairs of rows is twice their mean squared distance to their mean.
                found = 2 * (target - target.mean(0)).detach().square().sum() / len(target)
                scale = (loss.target_distance / found.clamp_min(1e-12)).sqrt()
                y0, target = y0 * scale, target * scale
            self.cached[settings] = y0, target
        return self.cached[settings]


def _pair_losses(loss: SoftSettings | InfoNCESettings, z: Tensor, labels: _Labels, ids: Ids) -> Tensor:
    """Losses (B,) of projections z (2 B, d), compared with the views of all processes."""
    z = full_precision(z)
    if isinstance(loss, InfoNCESettings):
        return nt_xent_of_all(z, ids, temperature=loss.temperature, kernel=loss.kernel, negatives="cross")
    z0, z1 = z.chunk(2)
    if loss.temperature is not None:
        z0, z1 = unit(z0) / loss.temperature**0.5, unit(z1) / loss.temperature**0.5
    y0, target = labels.of(loss)
    others = gather(z1), target
    shared: dict[str, Any] = {
        "nu": loss.nu,
        "nu_target": loss.nu_target,
        "kernel": loss.kernel,
        "beta": loss.beta,
        "detach": loss.detach_targets,
        "ids": None if ids is None else (ids[0], gather(ids[1])),
        "gathered": others,
        "offset": local_rows(len(z0)).start,
    }
    if loss.normalize:
        return soft_normalized(z0, z1, y0, **shared)
    weight = loss.negative_weight
    if weight is None:
        weight = default_negative_weight(z.shape[1], loss.nu, len(others[0]))
    return soft_contrastive(z0, z1, y0, negative_weight=weight, floor=loss.floor, **shared)
