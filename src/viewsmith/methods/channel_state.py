"""Warnings about the state of an augmentation channel: it has collapsed, or is still uniform."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChannelState:
    """The state of a channel that is trained.

    Attributes
    ----------
    effective : float
        Effective number of transformations of a sample: exp of the mean entropy, 1 to `size`.
    size : int
        M, number of transformations.
    target : float, optional
        Lower bound that is requested for the effective number.
    """

    effective: float
    size: int
    target: float | None

    @property
    def collapsed(self) -> bool:
        """Each sample has almost only one transformation, and the target is higher."""
        return self.effective < 1.5 and (self.target is None or self.target > 3)

    @property
    def idle(self) -> bool:
        """All transformations have almost the same probability, and the target is lower."""
        return self.effective > 0.95 * self.size and (self.target or 0) < 0.8 * self.size

    @property
    def summary(self) -> str:
        return f"it draws from {self.effective:.3g} of {self.size} transformations"


def final_warnings(state: ChannelState) -> list[str]:
    """Problems at the end of training, and what to do."""
    if state.idle:
        return [
            f"the channel has not left the uniform distribution: {state.summary}; train longer, or lower entropy_weight"
        ]
    if state.collapsed:
        return [f"the channel has collapsed: {state.summary}; raise entropy_weight, or set effective_target"]
    return []


def early_warnings(states: list[ChannelState], progress: float) -> dict[str, str]:
    """Problems during training: the channel is collapsing, or is still uniform after half of the training.

    At the end (`progress` 1), a collapsed channel that is recovering is reported, too.
    """
    now = states[-1]
    before = states[-2].effective if len(states) > 1 else now.size  # the initial channel is uniform
    if now.collapsed and (now.effective <= before or progress == 1):
        return {"collapse": f"the channel is collapsing: {now.summary}, after {before:.3g}"}
    if now.idle and progress >= 0.5 and len(states) >= 3:
        return {"idle": f"the channel has not left the uniform distribution yet: {now.summary}"}
    return {}
