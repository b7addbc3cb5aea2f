"""Memory of earlier features as negatives for several views: a queue, or a memory bank with one feature per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import InputError, check, check_fraction
from viewsmith.frameworks.base import random_keys, replace_oldest
from viewsmith.losses.nt_xent import unit


@dataclass
class Draw:
    """Keys from the memory for one step; all terms of the loss use them."""

    keys: Tensor  # features of length 1, (M, K, d), or (M, B, K, d) if each sample has its own
    excluded: Tensor | None  # keys that show a row of the sample, bool (M, B, K); None: unknown
    positives: Tensor | None = None  # stored features of the samples' rows in a bank, (M, B, d)


class FeatureMemory(nn.Module):
    """Memory of the features of M views. Each step draws negatives from it and then writes its own features.

    "queue": the newest features. "bank" (memory bank): for each training row and view, the running average of its
    features (CMC, and MetAug's program).

    Parameters
    ----------
    views : int
        M, at least 2.
    size : int
        N, number of features of each view; for a bank, the number of training rows.
    width : int
        d, width of the features.
    negatives : int
        K, number of features of each view that a step draws, at most `size`.
    kind : {"queue", "bank"}
    per_sample : bool
        Draw separate negatives for each sample, with replacement, as published. Otherwise the batch shares one draw
        without replacement, which is faster.
    momentum : float
        Momentum of the running averages of a bank, 0 to 1.
    generator : torch.Generator, optional
        Draws the initial features, which are random directions. Default: a generator with seed 0.

    Attributes
    ----------
    keys : Tensor, shape (M, N, d)
    ids : Tensor of int64, shape (M, N)
        Row of the training set that each feature shows; -1 if unknown. In a bank, feature i shows row i.
    pointer : Tensor of int64, shape ()
        Position of the oldest features in a queue.

    Raises
    ------
    InputError
        `negatives` is larger than `size`, there are fewer than two views, or the momentum is out of range.
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
        per_sample: bool = False,
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
            f"at most the {size} features of the memory: use fewer negatives, or a larger memory",
        )
        check_fraction("momentum", momentum)
        self.negatives, self.kind, self.per_sample, self.momentum = negatives, kind, per_sample, momentum
        self.register_buffer("keys", random_keys((views, size, width), generator))
        ids = torch.arange(size) if kind == "bank" else torch.full((size,), -1)
        self.register_buffer("ids", ids.expand(views, size).clone())
        self.register_buffer("pointer", torch.tensor(0))

    @torch.no_grad()
    def draw(self, batch: int, ids: Tensor | None, generator: torch.Generator | None = None) -> Draw:
        """Draw negatives for B samples of the rows `ids` (M, B); from a bank, which needs them, also positives."""
        size, device = self.keys.shape[1], self.keys.device
        if self.per_sample:
            which = torch.randint(size, (batch, self.negatives), device=device, generator=generator)
        elif self.negatives < size:
            which = torch.randperm(size, device=device, generator=generator)[: self.negatives]
        else:
            which = torch.arange(size, device=device)
        excluded = None
        if ids is not None:
            shown = self.ids[:, which] if self.per_sample else self.ids[:, which][:, None]
            excluded = (shown[:, None] == ids[:, :, None]).any(1)
        return Draw(self.keys[:, which], excluded, self._positives(ids) if self.kind == "bank" else None)

    @torch.no_grad()
    def write(self, z: Tensor, ids: Tensor | None) -> None:
        """Store projections z (M, B, d) of the rows `ids` (M, B), which a bank needs, from all processes."""
        features = gather(unit(z.detach()).transpose(0, 1).contiguous()).transpose(0, 1).to(self.keys.dtype)
        shown = None if ids is None else gather(ids.T.contiguous()).T
        views, size = self.keys.shape[:2]
        if self.kind == "bank":
            for view, rows in enumerate(self._rows(shown)):
                mixed = self.momentum * self.keys[view, rows] + (1 - self.momentum) * features[view]
                self.keys[view, rows] = unit(mixed)
            return
        count = features.shape[1]
        positions = replace_oldest(self.pointer, count, size, "memory has {} features")
        self.keys[:, positions] = features
        self.ids[:, positions] = self.ids.new_full((views, count), -1) if shown is None else shown

    def _positives(self, ids: Tensor | None) -> Tensor:
        return torch.stack([keys[rows] for keys, rows in zip(self.keys, self._rows(ids), strict=True)])

    def _rows(self, ids: Tensor | None) -> Tensor:
        if ids is None:
            raise InputError("a memory bank needs the row that each sample shows: give ids, or use a queue")
        return ids
