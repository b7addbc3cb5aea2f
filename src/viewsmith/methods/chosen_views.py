"""Memory of the views that an augmentation channel has chosen, to which views of other samples are compared."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.frameworks.common import replace_oldest, updates_state
from viewsmith.losses.info_max import recurrence


class ChosenViews(nn.Module):
    """The newest projections of chosen views, one of each sample of a step, and the samples' rows.

    Parameters
    ----------
    width : int
        d, width of projections.
    weight : float
        Weight of the recurrence, relative to the similarities of the objective.
    size : int
        K, number of projections.

    Attributes
    ----------
    projections : Tensor, shape (K, d)
    rows : Tensor of int64, shape (K,)
        Row of the training set that each is of; -1 before anything is stored.
    pointer : Tensor of int64, shape ()
        Position of the oldest.
    """

    projections: Tensor
    rows: Tensor
    pointer: Tensor

    def __init__(self, width: int, weight: float, size: int = 1024) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("projections", torch.zeros(size, width))
        self.register_buffer("rows", torch.full((size,), -1))
        self.register_buffer("pointer", torch.tensor(0))

    def forward(self, z: Tensor, p: Tensor, index: Tensor) -> Tensor:
        """Weighted `recurrence` of projections z (B, M, d) of the rows `index` (B,) under p (B, M): (B,).

        0 until the memory is full: the projections of the first steps are hardly trained. A training forward (train
        mode, gradients enabled) then stores the most probable views of these rows.
        """
        found = recurrence(z, p, self.projections.to(z.dtype), index[:, None] == self.rows)
        found = torch.where((self.rows >= 0).all(), found, 0)
        if updates_state(self):
            self._store(z, p, index)
        return self.weight * found

    @torch.no_grad()
    def _store(self, z: Tensor, p: Tensor, index: Tensor) -> None:
        """Replace the oldest projections by those of the most probable view of each row, of all processes."""
        chosen = z[torch.arange(len(z), device=z.device), p.argmax(dim=1)]
        size = len(self.rows)
        chosen, rows = gather(chosen)[:size], gather(index.contiguous())[:size]
        positions = replace_oldest(self.pointer, len(rows), size)
        self.projections[positions] = chosen.to(self.projections.dtype)
        self.rows[positions] = rows
