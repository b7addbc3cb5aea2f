"""The memory of chosen views that others are compared to, and warnings about the state of the channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.frameworks.base import replace_oldest, updates_state
from viewsmith.losses.info_max import recurrence

#: Fraction of the training after which a channel should have started.
EARLY = 0.2


@dataclass(frozen=True)
class ChannelState:
    """The state of a channel that is trained, by effective numbers of transformations (exp of an entropy).

    `places` is that of the mean P(T|x) over samples, at least the mean `effective` number; `target` its lower bound.
    """

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

    projections: Tensor
    rows: Tensor
    pointer: Tensor

    def __init__(self, width: int, weight: float, size: int = 1024) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("projections", torch.zeros(size, width))
        self.register_buffer("rows", torch.full((size,), -1))
        self.register_buffer("pointer", torch.tensor(0))

    def forward(self, z: Tensor, p: Tensor, index: Tensor) -> Tensor:
        """Weighted `recurrence` of projections z (B, M, d) of the rows `index` (B,) under p (B, M): (B,).

        0 until the memory is full. A training forward then stores the most probable views of these rows.
        """
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
