"""Features of a table that belong together, because they are of one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.views.base import rand, randint


class TableColumns(nn.Module):
    """Which features are of one column, so that views change whole columns: a category, never half an indicator.

    Parameters
    ----------
    columns : sequence of int, of length d
        Number of the column of each feature, from 0 on.
    categories : sequence of (int, int)
        First and end of the features of each category.
    """

    columns: Tensor

    def __init__(self, columns: Sequence[int], categories: Sequence[Sequence[int]] = ()) -> None:
        super().__init__()
        # Known from the configuration, so it is not saved with the weights.
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.int64), persistent=False)
        self.count = max(columns) + 1
        self.categories = [(int(first), int(end)) for first, end in categories]

    def masked(self, x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
        """Features of columns that are chosen with probability `rate` each, bool (B, d)."""
        return (rand((len(x), self.count), x, generator) < rate)[:, self.columns]

    def donors(self, x: Tensor, n_rows: int, generator: torch.Generator | None) -> Tensor:
        """For each feature a random row of `n_rows`, int64 (B, d), the same row for all features of a column."""
        return randint(n_rows, (len(x), self.count), x, generator)[:, self.columns]

    def snapped(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Rows whose categories are the value with the largest indicator.

        Parameters
        ----------
        x : Tensor, shape (B, d)
        low, high : Tensor, shape (d,)
            Scaled values of an indicator that is off and on.
        """
        parts, done = [], 0
        span = torch.where(high > low, high - low, 1.0)
        for first, end in self.categories:
            size = torch.where(high > low, (x - low) / span, -torch.inf)[:, first:end]
            hot = torch.arange(end - first, device=x.device) == size.argmax(dim=1, keepdim=True)
            parts += [x[:, done:first], torch.where(hot, high[first:end], low[first:end])]
            done = end
        return torch.cat([*parts, x[:, done:]], dim=1)


def table_columns(stats: Mapping[str, Any]) -> TableColumns | None:
    """The columns of a table from the statistics of its rows (`ViewContext.stats`); None for other rows."""
    return TableColumns(stats["columns"], stats["categories"]) if "columns" in stats else None
