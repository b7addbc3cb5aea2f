"""A precomputed neighbor graph, used instead of a search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PrecomputedGraph:
    """Neighbors of n rows; rows may have different numbers of neighbors.

    Attributes
    ----------
    offsets : Tensor of int64, shape (n + 1,)
        The neighbors of row i are ``ends[offsets[i] : offsets[i + 1]]``.
    ends : Tensor of int64, shape (edges,)
        The neighbors of row 0, then those of row 1, and so on.
    """

    offsets: Tensor
    ends: Tensor

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    def to(self, device: torch.device) -> PrecomputedGraph:
        """The same graph on a device."""
        return PrecomputedGraph(self.offsets.to(device), self.ends.to(device))

    @property
    def degrees(self) -> Tensor:
        """Number of neighbors of each row, int64 (n,)."""
        return self.offsets.diff()

    def random_neighbors(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one neighbor of each row at `index`, (B,), uniformly; for a row without neighbors, the row itself."""
        first, degree = self.offsets[index], self.degrees[index]
        # In float64, so that all neighbors are equally likely even if a row has very many.
        drawn = torch.rand(len(index), dtype=torch.float64, device=index.device, generator=generator)
        position = first + torch.minimum((drawn * degree).long(), degree - 1).clamp_min(0)
        return torch.where(degree > 0, self.ends[position.clamp_max(len(self.ends) - 1)], index)
