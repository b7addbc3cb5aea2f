"""How an augmentation channel fares, in plain words: collapsed, not started, or well."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChannelState:
    """Of a channel that learns.

    Attributes
    ----------
    chosen : float
        Effective number of transformations of a sample, exp of the mean entropy.
    size : int
        M.
    target : float, optional
        Where the effective number is held from below.
    """

    chosen: float
    size: int
    target: float | None

    @property
    def collapsed(self) -> bool:
        """Hardly more than one transformation of each sample is left, and more were wanted."""
        return self.chosen < 1.5 and (self.target is None or self.target > 3)

    @property
    def idle(self) -> bool:
        """All transformations are drawn alike, and fewer were wanted."""
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
    """What is wrong in the last of a training's states: collapse that goes on, or no start half-way.

    With `progress` 1, the end, a channel that is on its way back counts as collapsed, too.
    """
    now = states[-1]
    before = states[-2].chosen if len(states) > 1 else now.size  # it begins with all
    if now.collapsed and (now.chosen <= before or progress == 1):
        return {"collapse": f"the channel is collapsing: {now.drawn}, after {before:.3g}"}
    if now.idle and progress >= 0.5 and len(states) >= 3:
        return {"idle": f"the channel has not left the uniform distribution yet: {now.drawn}"}
    return {}
