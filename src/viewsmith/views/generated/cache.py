"""A bank of generated views: made once, drawn from at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.random import stream
from viewsmith.core.samples import Rows, Samples

#: From scaled samples, their row numbers and a random stream to a generated view of each.
Make = Callable[[Tensor, Tensor, torch.Generator], Tensor]


class ViewCache:
    """Generated views of the training rows, each row `n_views` times.

    Images and letters are kept in bytes, as the rows are. The same seed gives the same bank, so that checkpoints need
    not hold it.

    Parameters
    ----------
    rows : Tensor or Samples, n rows
    make : callable
        Makes one view of each sample; called with blocks of rows in order.
    n_views : int
    seed : int
    block : int
        Rows handled at once.
    """

    def __init__(self, rows: Rows, make: Make, *, n_views: int, seed: int, block: int = 512) -> None:
        self.n_views = n_views
        self.kept: list[Rows] = [_one_each(rows, make, seed, number, block) for number in range(n_views)]

    def take(self, index: Tensor, number: Tensor) -> Tensor:
        """View `number` of each row at `index`, both int64 (B,), as scaled samples."""
        return take(self.kept, index, number)


def take(kept: Sequence[Rows], index: Tensor, number: Tensor) -> Tensor:
    """Rows at `index` of the collection `number`, both int64 (B,)."""
    found = kept[0][index]
    for position, others in enumerate(kept[1:], start=1):
        here = (number == position).nonzero()[:, 0]
        found[here] = others[index[here]]
    return found


def _one_each(rows: Rows, make: Make, seed: int, number: int, block: int) -> Rows:
    generator = stream(seed, "bank", number, device=rows.device)
    parts = []
    for start in range(0, len(rows), block):
        x = rows[start : start + block]
        view = make(x, torch.arange(start, start + len(x), device=x.device), generator)
        parts.append(_inverse(rows)(view) if isinstance(rows, Samples) else view)
    kept = torch.cat(parts)
    return Samples(kept, rows.scale) if isinstance(rows, Samples) else kept


def _inverse(rows: Samples) -> Any:
    """From scaled samples to the bytes of the rows: the inverse of the module that scales them."""
    return rows.scale.inverse  # type: ignore[attr-defined]
