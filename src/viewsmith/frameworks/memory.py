"""Features of earlier steps as negatives of several views: a queue, or a bank with a place for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import InputError
from viewsmith.frameworks.common import check, check_momentum
from viewsmith.losses.nt_xent import unit


@dataclass
class Draw:
    """What one step contrasts with, for all of its loss terms.

    Attributes
    ----------
    keys : Tensor, shape (M, K, d), or (M, B, K, d) where every sample has negatives of its own
        Length-1 features of each of the M views, without gradient.
    excluded : Tensor of bool, shape (M, B, K), or None
        Keys that show a row which the sample shows, so are no negatives; None: no rows are known.
    positives : Tensor, shape (M, B, d), or None
        Of a bank, each view's earlier feature of the rows shown.
    """

    keys: Tensor
    excluded: Tensor | None
    positives: Tensor | None = None


class FeatureMemory(nn.Module):
    """Features of M views, written after each step, drawn from once a step.

    "queue": the newest features, of all rows. "bank": one for each training row and view, a running average of
    what the row gave (CMC, and MetAug's program).

    Parameters
    ----------
    views : int
        M.
    size : int
        N: features of each view that are kept; of a bank, the number of training rows.
    width : int
        d.
    negatives : int
        K: features of each view drawn at a step, at most `size`. All of them need no draw.
    kind : {"queue", "bank"}
    each : bool
        Every sample draws negatives of its own, with replacement, as published; otherwise the batch shares one draw
        without replacement, for which a matrix product is enough.
    momentum : float
        Of the bank's averages.
    generator : torch.Generator, optional
        Draws the first features, random directions; by default one with seed 0.

    Attributes
    ----------
    keys : Tensor, shape (M, N, d)
    ids : Tensor of int64, shape (M, N)
        Row of the training set that each feature shows; -1: unknown. (The places of a bank are the rows.)
    pointer : Tensor of int64, shape ()
        Where the oldest features of a queue lie.

    Raises
    ------
    InputError
        More draws than the memory holds, less than two views, or a momentum out of range.
    """

    keys: Tensor
    ids: Tensor
    pointer: Tensor

    def __init__(
        self,
        views: int,
        size: int,
        width: int,
        *,
        negatives: int,
        kind: Literal["queue", "bank"] = "queue",
        each: bool = False,
        momentum: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check(views >= 2, "the number of views", views, "at least 2: with one there is no pair to contrast")
        check(negatives >= 1, "the number of negatives", negatives, "at least 1")
        check(
            negatives <= size,
            "the number of negatives",
            negatives,
            f"at most the {size} features that the memory holds: ask for fewer, or enlarge the memory",
        )
        check_momentum("momentum", momentum)
        self.negatives, self.kind, self.each, self.momentum = negatives, kind, each, momentum
        draws = torch.Generator().manual_seed(0) if generator is None else generator
        keys = torch.randn(views, size, width, generator=draws, device=draws.device)
        self.register_buffer("keys", unit(keys))
        places = torch.arange(size) if kind == "bank" else torch.full((size,), -1)
        self.register_buffer("ids", places.expand(views, size).clone())
        self.register_buffer("pointer", torch.tensor(0))

    @torch.no_grad()
    def draw(self, batch: int, ids: Tensor | None, generator: torch.Generator | None = None) -> Draw:
        """Negatives for B samples, and a bank's positives.

        Parameters
        ----------
        batch : int
            B.
        ids : Tensor of int64, shape (M, B), or None
            Rows that the samples' views show; a bank needs them.
        generator : torch.Generator, optional

        Raises
        ------
        InputError
            A bank is not told the rows.
        """
        size, device = self.keys.shape[1], self.keys.device
        if self.each:
            which = torch.randint(size, (batch, self.negatives), device=device, generator=generator)
        elif self.negatives < size:
            which = torch.randperm(size, device=device, generator=generator)[: self.negatives]
        else:
            which = torch.arange(size, device=device)
        excluded = None
        if ids is not None:
            shown = self.ids[:, which] if self.each else self.ids[:, which][:, None]
            excluded = (shown[:, None] == ids[:, :, None]).any(1)
        return Draw(self.keys[:, which], excluded, self._positives(ids) if self.kind == "bank" else None)

    @torch.no_grad()
    def write(self, z: Tensor, ids: Tensor | None) -> None:
        """Keep projections z (M, B, d) that show the rows `ids` (M, B), of all processes.

        Raises
        ------
        InputError
            The batch is larger than a queue, or a bank is not told the rows.
        """
        features = gather(unit(z.detach()).transpose(0, 1).contiguous()).transpose(0, 1).to(self.keys.dtype)
        shown = None if ids is None else gather(ids.T.contiguous()).T
        views, size = self.keys.shape[:2]
        if self.kind == "bank":
            for view, rows in enumerate(self._rows(shown)):
                mixed = self.momentum * self.keys[view, rows] + (1 - self.momentum) * features[view]
                self.keys[view, rows] = unit(mixed)
            return
        count = features.shape[1]
        if count > size:
            raise InputError(f"the memory has {size} features and the batch {count}: expected a batch or more")
        places = (self.pointer + torch.arange(count, device=z.device)) % size
        self.keys[:, places] = features
        self.ids[:, places] = self.ids.new_full((views, count), -1) if shown is None else shown
        self.pointer.add_(count).remainder_(size)

    def _positives(self, ids: Tensor | None) -> Tensor:
        return torch.stack([keys[rows] for keys, rows in zip(self.keys, self._rows(ids), strict=True)])

    def _rows(self, ids: Tensor | None) -> Tensor:
        if ids is None:
            raise InputError("a bank of features needs the rows that the samples show: give ids, or take a queue")
        return ids
