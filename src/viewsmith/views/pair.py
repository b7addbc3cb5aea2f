"""From view makers to the two views of a pair."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from viewsmith.views.maker import Pair, ViewMaker

__all__ = ["Pair", "ViewPair"]


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
        pair = Pair(x, x, None if index is None else (index, index))
        for maker in self.makers:
            pair = maker.pair(pair, generator=generator)
        return pair

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample, made as second views are."""
        return self(x, index=index, generator=generator).second
