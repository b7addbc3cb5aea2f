"""Encoders and heads of several views, one network for each (MetAug, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError


class ViewEncoders(nn.Module):
    """M encoders, the j-th for the j-th view; the representation is what all of them give, side by side.

    Parameters
    ----------
    networks : sequence of nn.Module
        M encoders, each from its view to (B, n).
    split : nn.Module, optional
        From a sample to its M views, such as `viewsmith.networks.lab.ColorSplit`; without it every encoder sees
        whole samples.

    Raises
    ------
    InputError
        There are less than two.
    """

    def __init__(self, networks: Sequence[nn.Module], split: nn.Module | None = None) -> None:
        super().__init__()
        if len(networks) < 2:
            raise InputError(f"{len(networks)} encoder for views, expected at least 2: with one view there is no pair")
        self.networks = nn.ModuleList(networks)
        self.split = split

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, M n) of samples (B, ...), all views side by side."""
        return self.represent([x] * len(self.networks) if self.split is None else self.split(x))

    def represent(self, views: Sequence[Tensor]) -> Tensor:
        """The same of M views made elsewhere, each (B, ...)."""
        return torch.cat([network(view) for network, view in zip(self.networks, views, strict=True)], dim=1)


class ViewHeads(nn.Module):
    """M projection heads: representations (B, M n) to embeddings (B, M d), view by view.

    Parameters
    ----------
    networks : sequence of nn.Module
        M heads, each (B, n) to (B, d).

    Attributes
    ----------
    n_components : int
        Width of one view's embedding, d, where the heads say it.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_components = getattr(networks[0], "n_components", None)

    def forward(self, h: Tensor) -> Tensor:
        parts = h.chunk(len(self.networks), dim=1)
        return torch.cat([network(part) for network, part in zip(self.networks, parts, strict=True)], dim=1)
