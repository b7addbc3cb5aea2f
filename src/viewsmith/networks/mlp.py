"""Fully connected networks: encoders, projection heads, noise generators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from torch import nn


class MLP(nn.Sequential):
    """Linear layers with activations in between, (B, n_features) to (B, n_components), optionally with BatchNorm.

    With ``norm="batch"`` every layer, except a last one of kind "linear", is Linear - BatchNorm - activation. A linear
    layer before a BatchNorm has no bias, because the norm would remove it.

    Parameters
    ----------
    n_features : int
        Input width.
    widths : sequence of int
        Output width of each layer. An empty sequence gives the identity.
    norm : {"none", "batch"}
    last : {"linear", "activated", "normed"}
        The last layer. "linear": a linear layer alone. "activated": with the norm and activation of the other layers.
        "normed": with a BatchNorm without scale and shift and no activation, for any `norm` (the projection heads of
        SimSiam and MoCo v3).
    activation : {"relu", "gelu"}
    bias : bool
        Whether layers without a BatchNorm have a bias.

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
