"""Fully connected networks: encoders, projection heads, generators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from torch import nn


class MLP(nn.Sequential):
    """Linear layers with an activation between them, optionally with BatchNorm.

    With ``norm="batch"`` every layer but a bare last one is Linear - BatchNorm - activation; the bias before a
    BatchNorm is left out, since the norm would remove it.

    Parameters
    ----------
    n_features : int
        Input width.
    widths : sequence of int
        Output width of each layer; the last one is the network's. None at all: the identity.
    norm : {"none", "batch"}
    last : {"linear", "activated", "normed"}
        Whether the last layer is bare, has the norm and the activation of the others, or ends in a BatchNorm without
        scale and shift and without activation, whatever `norm` (the projection heads of SimSiam and MoCo v3).
    activation : {"relu", "gelu"}
    bias : bool
        Whether layers without a BatchNorm have one.

    Attributes
    ----------
    n_components : int
        Output width.
    """

    def __init__(
        self,
        n_features: int,
        widths: Sequence[int],
        *,
        norm: Literal["none", "batch"] = "none",
        last: Literal["linear", "activated", "normed"] = "linear",
        activation: Literal["relu", "gelu"] = "relu",
        bias: bool = True,
    ) -> None:
        layers: list[nn.Module] = []
        for depth, (n_in, n_out) in enumerate(itertools.pairwise([n_features, *widths])):
            inner = depth < len(widths) - 1 or last == "activated"
            normed = norm == "batch" if inner else last == "normed"
            layers.append(nn.Linear(n_in, n_out, bias=bias and not normed))
            if normed:
                layers.append(nn.BatchNorm1d(n_out, affine=inner))
            if inner:
                layers.append(nn.ReLU() if activation == "relu" else nn.GELU())
        super().__init__(*layers)
        self.n_components = widths[-1] if widths else n_features
