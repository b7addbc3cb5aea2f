"""The quality of pairs of views, seen by a frozen copy of an encoder (GenView: Li et al. 2024, section 3.4)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows
from viewsmith.losses.quality import Pools, attention_pools, foreground_map, pair_quality
from viewsmith.networks.feature_maps import FeatureMap
from viewsmith.views.adaptive import find_foreground

MOST = 10_000  # images that the axis of the foreground is found from
BLOCK = 64


class ViewQuality(nn.Module):
    """q of pairs of views: of images by the patches of a feature map, of vectors and DNA by the representation.

    Parameters
    ----------
    encoder : nn.Module
        Copied, and the copy stays as it is until `follow`.
    x : Tensor, shape (B, ...)
        A scaled sample or more, which tells what the encoder is for.

    Attributes
    ----------
    ready : Tensor
        1 once there was something to look at.
    axis : Tensor, shape (D,)
        Points to the foreground; of width 0 where there are no patches.
    """

    ready: Tensor
    axis: Tensor

    def __init__(self, encoder: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(False).eval()
        self.maps = FeatureMap(self.encoder, x) if x.ndim == 4 else None
        self.register_buffer("ready", torch.tensor(0))
        self.register_buffer("axis", torch.zeros(0 if self.maps is None else self.maps.shape[2]))

    @torch.no_grad()
    def follow(self, encoder: nn.Module, rows: Rows) -> None:
        """Copy the weights of the encoder, and find what is foreground in scaled training rows."""
        self.encoder.load_state_dict(encoder.state_dict())
        if self.maps is not None:
            maps, device = self.maps, rows.device
            chosen = torch.linspace(0, len(rows) - 1, min(len(rows), MOST), dtype=torch.float64).long()
            found = find_foreground(lambda: (maps(rows[part.to(device)]).float() for part in chosen.split(BLOCK)))
            self.axis.copy_(found.axis)
        self.ready.fill_(1)

    @torch.no_grad()
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """q of each pair of views, (B,), without gradient."""
        return pair_quality(*(self._pools(view) for view in (first, second)))

    def _pools(self, view: Tensor) -> Pools:
        if self.maps is None:
            h = self.encoder(view).float()
            return h, torch.zeros_like(h)  # all foreground
        features = self.maps(view).float().flatten(1, 2)
        return attention_pools(features, foreground_map(features, self.axis))

    def train(self, mode: bool = True) -> ViewQuality:
        """The copied encoder stays in evaluation mode."""
        super().train(mode)
        self.encoder.eval()
        return self
