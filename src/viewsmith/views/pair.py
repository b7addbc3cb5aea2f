"""From view makers to the two views of a pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.views.base import Pair, ViewMaker
from viewsmith.views.fixed.vectors import NeighborGraph

__all__ = ["Pair", "ViewPair"]


class ViewPair(nn.Module):
    """Applies view makers in order to both views of a pair (one-sided makers to the second alone).

    Parameters
    ----------
    makers : sequence of ViewMaker
    encoder : nn.Module, optional
        Where given, neighbors are sought anew in its representations at each quarter of the training.
    """

    quarter: Tensor

    def __init__(self, makers: Sequence[ViewMaker], *, encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.makers: Sequence[ViewMaker] = nn.ModuleList(makers)  # type: ignore[assignment]
        # In a list, for the encoder is the framework's and must not be saved here a second time.
        self.followed = [] if encoder is None else [encoder]
        if self.followed:
            self.register_buffer("quarter", torch.tensor(0))

    @property
    def needs_pool(self) -> bool:
        """Whether any maker borrows from other rows."""
        return any(maker.needs_pool for maker in self.makers)

    def prepare(self, pool: Rows) -> None:
        """Hand the scaled training rows, (n, ...), to every maker."""
        for maker in self.makers:
            maker.prepare(pool)

    def release(self) -> None:
        """Let go of the training rows."""
        for maker in self.makers:
            maker.release()

    def bind(self, loss: Callable[[Pair], Tensor]) -> None:
        """Give the pair loss to the makers that look at it (adversarial views)."""
        for maker in self.makers:
            maker.bind(loss)

    def forward(
        self,
        x: Tensor,
        *,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
        progress: float = 0.0,
        second: Tensor | None = None,
    ) -> Pair:
        """Both views of the samples `x`, (B, ...); the second made from `second` where that is given, like `x`."""
        if self.followed and int(4 * progress) > self.quarter:
            self._refresh(self.followed[0])
            self.quarter.fill_(int(4 * progress))
        pair = Pair(x, x if second is None else second, None if index is None else (index, index))
        for maker in self.makers:
            pair = maker.pair(pair, generator=generator)
        return pair

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample, made as second views are."""
        return self(x, index=index, generator=generator).second

    @torch.no_grad()
    def _refresh(self, encoder: nn.Module) -> None:
        training = encoder.training
        encoder.eval()
        for maker in self.makers:
            if isinstance(maker, NeighborGraph):
                maker.refresh(lambda pool: apply_in_blocks(lambda x: encoder(x).float(), pool, 256))
        encoder.train(training)
