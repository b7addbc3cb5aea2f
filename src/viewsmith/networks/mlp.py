"""Fully connected networks: encoders, projection heads, generators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from torch import nn


class MLP(nn.Sequential):
    """Linear layers with ReLU, optionally with BatchNorm.

    With ``norm="batch"`` every layer but a bare last one is Linear - BatchNorm - ReLU; the bias before a BatchNorm
    is left out, since the norm would remove it.

    Parameters
    ----------
    n_features : int
        Input width.
    widths : sequence of int
        Output width of each layer; the last one is the network's. None at all: the identity.
    norm : {"none", "batch"}
    last : {"linear", "activated"}
        Whether the last layer is bare or has the norm and the activation of the others.
    """

    def __init__(
        self,
        n_features: int,
        widths: Sequence[int],
        *,
        norm: Literal["none", "batch"] = "none",
        last: Literal["linear", "activated"] = "linear",
    ) -> None:
        layers: list[nn.Module] = []
        for depth, (n_in, n_out) in enumerate(itertools.pairwise([n_features, *widths])):
            bare = depth == len(widths) - 1 and last == "linear"
            normed = norm == "batch" and not bare
            layers.append(nn.Linear(n_in, n_out, bias=not normed))
            if normed:
                layers.append(nn.BatchNorm1d(n_out))
            if not bare:
                layers.append(nn.ReLU())
        super().__init__(*layers)
