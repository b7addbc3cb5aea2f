"""The state of an augmentation channel, for warnings: collapsed, not started, or neither."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChannelState:
    """What is known of a channel that learns.

    Attributes
    ----------
    chosen : float
        Effective number of transformations of a sample, exp of the mean entropy.
    size : int
        M.
    target : float, optional
        Lower bound that is wanted for the effective number.
    """

    chosen: float
    size: int
    target: float | None

    @property
    def collapsed(self) -> bool:
        """Almost all probability of each sample is on one transformation, and more were wanted."""
        return self.chosen < 1.5 and (self.target is None or self.target > 3)

    @property
    def idle(self) -> bool:
        """All transformations are equally probable, and fewer were wanted."""
        return self.chosen > 0.95 * self.size and (self.target or 0) < 0.8 * self.size

    @property
    def drawn(self) -> str:
        return f"it draws from {self.chosen:.3g} of {self.size} transformations"


def verdict(state: ChannelState) -> list[str]:
    """What is wrong at the end of training, and what to do."""
    if state.idle:
        return [
            f"the channel has not left the uniform distribution: {state.drawn}; train longer, or lower entropy_weight"
        ]
    if state.collapsed:
        return [
            f"the channel has collapsed: {state.drawn}; raise entropy_weight, or hold their number by effective_target"
        ]
    return []


def early_signs(states: list[ChannelState], progress: float) -> dict[str, str]:
    """What is wrong in the last state: the channel is collapsing, or has not started after half of the training.

    At the end (`progress` 1) a collapsed channel that is recovering counts, too.
    """
    now = states[-1]
    before = states[-2].chosen if len(states) > 1 else now.size  # it begins with all
    if now.collapsed and (now.chosen <= before or progress == 1):
        return {"collapse": f"the channel is collapsing: {now.drawn}, after {before:.3g}"}
    if now.idle and progress >= 0.5 and len(states) >= 3:
        return {"idle": f"the channel has not left the uniform distribution yet: {now.drawn}"}
    return {}
