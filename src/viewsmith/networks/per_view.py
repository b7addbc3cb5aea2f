"""Encoders and projection heads with a separate network for each view (MetAug, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError


class ViewEncoders(nn.Module):
    """M encoders, one per view; the representation is the concatenation of their outputs, (B, M n).

    Parameters
    ----------
    networks : sequence of nn.Module
        M encoders; the j-th maps the j-th view to (B, n).
    split : nn.Module, optional
        Maps samples to their M views, such as `viewsmith.networks.color_split.ColorSplit`. Default: every encoder gets
        the whole sample.

    Raises
    ------
    InputError
        There are fewer than two encoders.
    """

    def __init__(self, networks: Sequence[nn.Module], split: nn.Module | None = None) -> None:
        super().__init__()
        if len(networks) < 2:
            raise InputError(f"{len(networks)} encoder was given, expected at least 2: one for each view of a pair")
        self.networks = nn.ModuleList(networks)
        self.split = split

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, M n) of samples (B, ...), the views concatenated."""
        return self.represent([x] * len(self.networks) if self.split is None else self.split(x))

    def represent(self, views: Sequence[Tensor]) -> Tensor:
        """Representations (B, M n) of M views, each (B, ...)."""
        return torch.cat([network(view) for network, view in zip(self.networks, views, strict=True)], dim=1)


class ViewHeads(nn.Module):
    """M projection heads, one per view: representations (B, M n) to projections (B, M d).

    Parameters
    ----------
    networks : sequence of nn.Module
        M heads, each (B, n) to (B, d).

    Attributes
    ----------
    n_components : int or None
        Width d of one view's projection, if the heads have this attribute.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_components = getattr(networks[0], "n_components", None)

    def forward(self, h: Tensor) -> Tensor:
        parts = h.chunk(len(self.networks), dim=1)
        return torch.cat([network(part) for network, part in zip(self.networks, parts, strict=True)], dim=1)
