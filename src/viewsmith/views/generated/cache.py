"""A cache of generated views in memory: views are generated once and used in every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.device import on_host
from viewsmith.core.files import write_mapped
from viewsmith.core.random import stream
from viewsmith.core.rows import ArrayRows, Rows, RowSource, Samples, take_rows

#: Maps scaled samples, their row indices and a random stream to a generated view of each.
Generate = Callable[[Tensor, Tensor, torch.Generator], Tensor]


class ViewCache:
    """A cache of `n_views` generated views of each training row.

    Views of images and DNA are stored unscaled, one byte per value. Checkpoints do not contain them: a seed gives them.
    """

    def __init__(self, rows: Rows, generate: Generate, *, n_views: int, seed: int, block: int = 512) -> None:
        self.n_views = n_views
        self.views: list[Rows] = [_generate_views(rows, generate, seed, number, block) for number in range(n_views)]

    def select(self, chosen: Tensor, rows: Rows) -> None:
        """Reduce the cache to k chosen views of each row: their numbers, int64 (n, k), or -1 for the row itself."""
        sources = [_raw(rows), *map(_raw, self.views)]
        selected = []
        for number in chosen.T:
            view = sources[0].clone()
            for position, source in enumerate(sources[1:]):
                index = (number == position).nonzero()[:, 0]
                view[index] = source[index]
            selected.append(Samples(view, rows.scale) if isinstance(rows, Samples) else view)
        self.views, self.n_views = selected, len(selected)

    def take(self, index: Tensor, number: Tensor) -> Tensor:
        """View `number` of the row `index`, both int64 (B,), as scaled samples (B, ...)."""
        return take(self.views, index, number)


def take(collections: Sequence[Rows], index: Tensor, number: Tensor) -> Tensor:
    """Row `index` of the collection `number`, both int64 (B,), for each of B pairs: (B, ...)."""
    taken = collections[0][index]
    for position, collection in enumerate(collections[1:], start=1):
        here = number == position
        if on_host(here):
            selected = here.nonzero()[:, 0]
            taken[selected] = collection[index[selected]]
        else:
            taken = torch.where(here.view(-1, *[1] * (taken.ndim - 1)), collection[index], taken)
    return taken


def _generate_views(rows: Rows, generate: Generate, seed: int, number: int, block: int) -> Rows:
    """One view of every row."""
    # The name of the stream determines the views: it must not change.
    generator = stream(seed, "bank", number, device=rows.device)

    def parts() -> Iterator[Tensor]:
        for start in range(0, len(rows), block):
            x = rows[start : start + block]
            view = generate(x, torch.arange(start, start + len(x), device=x.device), generator)
            yield _inverse(rows)(view) if isinstance(rows, Samples) else view

    if isinstance(rows, Samples) and isinstance(rows.rows, RowSource):
        # As large as the rows, which are on disk.
        dtype = rows.rows.dtype
        stored = write_mapped((part.cpu().numpy() for part in parts()), rows.rows.shape, dtype=dtype)
        return Samples(ArrayRows(stored, dtype=dtype), rows.scale, rows.device)
    views = torch.cat(list(parts()))
    return Samples(views, rows.scale) if isinstance(rows, Samples) else views


def _raw(rows: Rows) -> Tensor:
    """The stored rows: unscaled if they are `Samples`."""
    return rows if isinstance(rows, Tensor) else take_rows(rows.rows, slice(None))


def _inverse(rows: Samples) -> Any:
    """The function from scaled samples to unscaled rows: the inverse of the module that scales them."""
    return rows.scale.inverse  # type: ignore[attr-defined]
