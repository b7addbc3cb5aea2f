"""From view makers to the two views of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.views.fixed.vectors import Neighbours
from viewsmith.views.maker import ViewMaker


@dataclass
class Pair:
    """Two views of each sample, (B, ...) each, and the rows of the pool they show, int64 (B,) each (None: unknown)."""

    first: Tensor
    second: Tensor
    ids: tuple[Tensor, Tensor] | None = None


class ViewPair(nn.Module):
    """Applies view makers in order to both views of a pair (one-sided makers to the second alone)."""

    def __init__(self, makers: Sequence[ViewMaker]) -> None:
        super().__init__()
        self.makers: Sequence[ViewMaker] = nn.ModuleList(makers)  # type: ignore[assignment]

    @property
    def borrows(self) -> bool:
        """Whether any maker borrows from other rows."""
        return any(maker.borrows for maker in self.makers)

    def prepare(self, pool: Tensor) -> None:
        """Hand the scaled training rows, (n, ...), to every maker."""
        for maker in self.makers:
            maker.prepare(pool)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Pair:
        first = second = x
        shown = index
        for maker in self.makers:
            if isinstance(maker, Neighbours):
                # Whole rows change places here: the pair loss has to know whose row is shown.
                shown = maker.partners(second, shown, generator)
                second = maker.rows(shown)
                continue
            if maker.sides == 2:
                first = maker(first, index=index, generator=generator)
            second = maker(second, index=shown, generator=generator)
        return Pair(first, second, None if index is None or shown is None else (index, shown))

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample, made as second views are."""
        return self(x, index=index, generator=generator).second
