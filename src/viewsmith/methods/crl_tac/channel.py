"""The augmentation channel P(T|x) (Koyama et al. 2021), warnings about its state, and what it has chosen."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import register
from viewsmith.core.samples import Rows, apply_in_blocks, block_size
from viewsmith.frameworks.base import replace_oldest, updates_state
from viewsmith.losses.info_max import entropy, recurrence
from viewsmith.methods.crl_tac.transforms import Crops, Family, crop_grid
from viewsmith.modalities.images.encoders import CropCNN
from viewsmith.views.base import ViewContext, ViewMaker

Predicate = Callable[[Tensor], Tensor]
TOP = 8  # default number of most probable transformations

# Largest part of a sample that views show if they represent it. An encoder trained on crops of 1/18 of an image does
# not understand whole images; one trained on half of a sequence or of the features does better on samples than views.
SMALL = 1 / 3
ROWS = 16  # largest number of samples whose M views are in memory at a time
VALUES = 2**22  # largest number of values of samples whose logits are computed at a time, without gradient


def nonzero(views: Tensor) -> Tensor:
    """Which views (n, ...) have a value other than zero: bool (n,)."""
    return (views != 0).flatten(1).any(dim=1)


class AugmentationChannel(ViewMaker):
    """A view maker that draws transformations of a finite family from P(T|x).

    It is trained by `CRLTACMethod`. A trained channel can be used with any framework, without gradient. The family
    determines the shape of views: crops are smaller than their image.

    Parameters
    ----------
    family : Family
        The transformations T_1 ... T_M.
    scores : nn.Module, optional
        Network that maps samples to the logits of the transformations; see `Family.scores`. Default: P is uniform and
        is not trained.
    averages : bool
        Whether the mean over all transformations represents a sample (`typical_views`).
    """

    def __init__(self, family: Family, scores: nn.Module | None = None, *, averages: bool = False) -> None:
        super().__init__()
        self.family, self.scores, self.averages = family, scores, averages

    def log_p(self, x: Tensor) -> Tensor:
        """log P(T|x), (B, M), of samples (B, ...); computed without autocast, because bfloat16 loses small updates."""
        if self.scores is None:
            return F.log_softmax(x.new_zeros(len(x), self.family.size), dim=1)
        # Without gradient in blocks, so that memory is bounded.
        size = len(x) if torch.is_grad_enabled() else max(1, VALUES // max(1, x[:1].numel()))
        with torch.autocast(x.device.type, enabled=False):
            parts = [F.log_softmax(self.family.scores(self.scores, part), dim=1) for part in x.split(max(1, size))]
            return torch.cat(parts)

    def effective(self, x: Tensor) -> Tensor:
        """Effective number of transformations of each sample, exp(H(T|x)): (B,), from 1 to M."""
        return entropy(self.log_p(x)).exp()

    @torch.no_grad()
    def draw(
        self, x: Tensor, count: int, generator: torch.Generator | None = None, near: Tensor | None = None
    ) -> Tensor:
        """Indices int64 (B, count) of transformations drawn from P(T|x) with replacement; with `near`, bool (M, M),
        from those near such a draw."""
        p = self.log_p(x).exp()
        if near is not None:
            p = near[torch.multinomial(p, 1, generator=generator)[:, 0]].to(p)
        return torch.multinomial(p, count, replacement=True, generator=generator)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.family.take(x, self.draw(x, 1, generator))[:, 0]

    def typical_views(self, x: Tensor) -> Tensor | None:
        """All views, (B, M, ...), if the channel `averages`; else the most probable, (B, 8, ...), if they are `SMALL`
        and P is not uniform."""
        if self.family.is_view(x):
            return None
        if self.averages:
            every = torch.arange(self.family.size, device=x.device)
            return self.family.take(x, every.expand(len(x), -1))
        if self.scores is None:
            return None
        first = self.family.take(x[:1], torch.zeros(1, 1, dtype=torch.int64, device=x.device))
        if first.numel() > SMALL * x[:1].numel():
            return None
        return self.family.take(x, self.log_p(x).topk(min(TOP, self.family.size), dim=1).indices)

    @torch.no_grad()
    def statistics(self, x: Tensor, nonempty: Predicate | None = None) -> dict[str, float]:
        """Means over samples (n, ...): ``entropy`` in nats, ``effective`` number (its exp), ``places`` (that of the
        mean P(T|x)), ``largest_p``, and with `nonempty` the probability of such views."""
        log_p = apply_in_blocks(self.log_p, x, block_size(x))
        p, h = log_p.exp(), float(entropy(log_p).mean())
        together = float(entropy(p.mean(dim=0, keepdim=True).log()))
        found = {"entropy": h, "effective": math.exp(h), "places": math.exp(together)}
        found["largest_p"] = float(p.amax(dim=1).mean())
        return found if nonempty is None else found | {"nonempty_mass": float(self.probability_of(x, nonempty).mean())}

    @torch.no_grad()
    def probability_of(self, x: Rows, predicate: Predicate) -> Tensor:
        """Probability, (n,), that a view of a sample satisfies a predicate, which maps views (k, ...) to bool (k,)."""
        size = min(ROWS, self.family.rows_at_once(None, x[:1]))
        return apply_in_blocks(lambda part: self._probability_of(part, predicate), x, size)

    def _probability_of(self, x: Tensor, predicate: Predicate) -> Tensor:
        views = self.family.all_views(x).flatten(0, 1)
        try:
            satisfied = predicate(views)
        except Exception as error:
            raise InputError(f"nonempty failed for views {tuple(views.shape)}: {error_text(error)}") from error
        if not isinstance(satisfied, Tensor) or satisfied.shape != views.shape[:1] or satisfied.dtype != torch.bool:
            tensor = isinstance(satisfied, Tensor)
            given = f"{satisfied.dtype} {tuple(satisfied.shape)}" if tensor else type(satisfied).__name__
            raise InputError(f"nonempty returned {given} for views {tuple(views.shape)}, expected bool ({len(views)},)")
        return (self.log_p(x).exp() * satisfied.view(len(x), -1)).sum(dim=1)

    def inference_weights(self, x: Tensor, how: str, count: int | None = None) -> Tensor:
        """Weights (B, M) of transformations in the representation: "expectation", P(T|x) (or of `count` draws at the
        same quantiles for all samples); "top", equal for the `count` (8) most probable; "uniform"."""
        if how == "uniform":
            return x.new_full((len(x), self.family.size), 1 / self.family.size)
        p = self.log_p(x).exp()
        if how == "top":
            count = min(count or TOP, self.family.size)
            return torch.zeros_like(p).scatter(1, p.topk(count, dim=1).indices, 1 / count)
        assert how == "expectation"
        if count is None:
            return p
        quantiles = (torch.arange(count, device=p.device, dtype=p.dtype) + 0.5) / count
        drawn = torch.searchsorted(p.cumsum(dim=1), quantiles.expand(len(p), -1).contiguous())
        equal = torch.full_like(drawn, 1 / count, dtype=p.dtype)
        return torch.zeros_like(p).scatter_add(1, drawn.clamp_max(self.family.size - 1), equal)


def _crop_size(row_shape: Sequence[int], derived: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
    return "crops of grid-crop", (crop_grid(row_shape)[0],) * 2


def _crop_encoder(options: Any, modality: Any, row_shape: Sequence[int]) -> Any:
    """The default encoder of CRL-TAC, which encodes all crops of images of at least 24 pixels in one pass."""
    fits = crop_grid(row_shape) == (CropCNN.crop, CropCNN.stride)
    return dataclasses.replace(options, encoder="crl-cnn") if fits and options.encoder == "auto" else options


@register(
    "view maker",
    "grid-crop",
    help="a random crop of 20 x 20 pixels on CRL-TAC's grid; encoder and inference of CRL-TAC",
    modalities="images",
    source="Koyama et al. 2021",
    changes_shape=True,
    adapt=_crop_encoder,
    smaller=_crop_size,
)
def _grid_crop(context: ViewContext) -> AugmentationChannel:
    crop, stride = crop_grid(context.row_shape)
    # An encoder with this grid represents an image by the mean over its crops already.
    of_encoder = getattr(context.encoder, "crop", None), getattr(context.encoder, "stride", None)
    family = Crops(*context.row_shape[:2], crop=crop, stride=stride)
    return AugmentationChannel(family, averages=of_encoder != (crop, stride))


#: Fraction of the training after which a channel should have started.
EARLY = 0.2


@dataclass(frozen=True)
class ChannelState:
    """A channel in training, by effective numbers of transformations (exp of an entropy): of each P(T|x), of their mean
    (`places`), `target` its bound."""

    effective: float
    size: int
    target: float | None
    places: float | None = None

    @property
    def collapsed(self) -> bool:
        """Each sample has almost only one transformation, and the target is higher."""
        return self.effective < 1.5 and (self.target is None or self.target > 3)

    @property
    def idle(self) -> bool:
        """All transformations have almost the same probability, and the target is lower."""
        return self.effective > 0.95 * self.size and (self.target or 0) < 0.8 * self.size

    @property
    def fixed(self) -> bool:
        """All samples have the same few transformations, whatever they show."""
        return self.places is not None and self.effective < self.size / 4 and self.places < 1.5 * self.effective

    @property
    def summary(self) -> str:
        return f"it draws from {self.effective:.3g} of {self.size} transformations"


def channel_states(rows: list[dict[str, Any]], size: int, target: float | None, *, crops: bool) -> list[ChannelState]:
    """The states in rows of metrics. Other transformations than crops may well be the same in all samples."""
    found = [row for row in rows if "effective" in row]
    return [ChannelState(row["effective"], size, target, row.get("places") if crops else None) for row in found]


def final_warnings(states: list[ChannelState]) -> list[str]:
    """Problems at the end of training, and what to do."""
    if not states:
        return []
    found, state = [], states[-1]
    if state.idle:
        found.append(
            f"the channel has not left the uniform distribution: {state.summary}; train longer, or lower entropy_weight"
        )
    if state.collapsed:
        found.append(f"the channel has collapsed: {state.summary}; raise entropy_weight, or set effective_target")
    if state.fixed:
        found.append(_same_places(state))
    return found


def early_warnings(states: list[ChannelState], progress: float) -> dict[str, str]:
    """Problems during training: a collapse; after a fifth, a channel that is uniform or equal for all samples."""
    if not states:
        return {}
    found, now = {}, states[-1]
    before = states[-2].effective if len(states) > 1 else now.size  # the initial channel is uniform
    if now.collapsed and (now.effective <= before or progress == 1):
        found["collapse"] = f"the channel is collapsing: {now.summary}, after {before:.3g}"
    if progress >= EARLY and len(states) >= 3:
        if now.idle:
            found["idle"] = f"the channel has not left the uniform distribution yet: {now.summary}"
        if now.fixed:
            found["fixed"] = _same_places(now)
    return found


def _same_places(state: ChannelState) -> str:
    return (
        f"the channel selects the same crops in all samples: {state.effective:.3g} of {state.size} for one sample, "
        f"{state.places:.3g} for all together; unless objects have a fixed place, train with another random_state"
    )


class ChosenViews(nn.Module):
    """The newest projections of chosen views, one of each sample of a step, and their rows; -1 where none is stored."""

    def __init__(self, width: int, weight: float, size: int = 1024) -> None:
        super().__init__()
        self.weight = weight
        self.projections = nn.Buffer(torch.zeros(size, width))
        self.rows = nn.Buffer(torch.full((size,), -1))
        self.pointer = nn.Buffer(torch.tensor(0))

    def forward(self, z: Tensor, p: Tensor, index: Tensor) -> Tensor:
        """Weighted `recurrence` (B,) of projections z (B, M, d) under p (B, M), 0 until the memory is full; a training
        forward then stores the likeliest views of the rows."""
        found = recurrence(z, p, self.projections.to(z.dtype), index[:, None] == self.rows)
        found = torch.where((self.rows >= 0).all(), found, 0)
        if updates_state(self):
            self._store(z, p, index)
        return self.weight * found

    @torch.no_grad()
    def _store(self, z: Tensor, p: Tensor, index: Tensor) -> None:
        """Replace the oldest projections by those of the most probable view of each row, of all processes."""
        chosen = z[torch.arange(len(z), device=z.device), p.argmax(dim=1)]
        size = len(self.rows)
        chosen, rows = gather(chosen)[:size], gather(index.contiguous())[:size]
        positions = replace_oldest(self.pointer, len(rows), size)
        self.projections[positions] = chosen.to(self.projections.dtype)
        self.rows[positions] = rows
