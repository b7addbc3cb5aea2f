"""The quality of pairs of views, seen by a frozen network or a copy of the encoder (GenView: Li et al. 2024, 3.4)."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.losses.quality import Pools, attention_pools, foreground_map, map_pools, pair_quality
from viewsmith.networks.feature_maps import FeatureMap, FrozenMaps
from viewsmith.views.base import CropBoxes
from viewsmith.views.fixed.resampling import crop
from viewsmith.views.generated.noise_level import find_foreground

MOST = 10_000  # images that the axis of the foreground is found from
BLOCK = 64
WIDTH = 8  # axes that maps are kept on

Source = Literal["views", "encoder", "cached"]
#: Maps that the passes of an encoder made, and of its momentum copy where there is one.
Passes = list[list[Tensor]]


class ViewQuality(nn.Module):
    """q of pairs of views: of images by the patches of a feature map, of vectors and DNA by the representation.

    Parameters
    ----------
    encoder : nn.Module
        Copied, and the copy stays as it is until `copy_encoder`. Not looked at where there are `maps`.
    x : Tensor, shape (B, ...)
        A scaled sample or more, which tells what the encoder is for.
    source : {"views", "encoder", "cached"}
        Where the maps of images come from. ``views``: the copy looks at every view (`forward`). ``encoder``: the maps
        that the encoder makes of the views anyway as it trains (`watch`, `passed`); it has moved since it was copied.
        ``cached``: the copy looks at every image once (`keep`), and what a view shows is cut from its map (`cached`);
        colors of views are not seen. Vectors and DNA: always ``views``.
    maps : FrozenMaps, optional
        A network that gives maps of images, such as CLIP, in place of the copy; it is not saved.

    Raises
    ------
    InputError
        The encoder has no feature map; maps of a network of their own are wanted from the encoder's pass.

    Attributes
    ----------
    ready : Tensor
        1 once there was something to look at.
    axis : Tensor, shape (D,)
        Points to the foreground; of width 0 where there are no patches.
    kept : list of Tensor, each (n, c, 2 h, 2 w)
        Maps of all rows of each source on a few axes, float16; never saved.
    """

    ready: Tensor
    axis: Tensor

    def __init__(
        self, encoder: nn.Module, x: Tensor, *, source: Source = "views", maps: FrozenMaps | None = None
    ) -> None:
        super().__init__()
        if maps is not None and source == "encoder":
            raise InputError(
                f"quality_features is 'encoder', which sees no features of {maps.name}: take 'views' or 'cached'"
            )
        self.encoder: nn.Module | None = None
        self.maps: FeatureMap | FrozenMaps | None = maps
        if maps is None:
            self.encoder = copy.deepcopy(encoder).requires_grad_(False).eval()
            self.maps = FeatureMap(self.encoder, x) if x.ndim == 4 else None
        self.source: Source = "views" if self.maps is None else source
        self.kept: list[Tensor] = []
        self.register_buffer("ready", torch.tensor(0))
        self.register_buffer("axis", torch.zeros(0 if self.maps is None else self.maps.shape[2]))

    @property
    def waits(self) -> bool:
        """Whether it has to wait for an encoder that learned something."""
        return self.encoder is not None

    @torch.no_grad()
    def copy_encoder(self, encoder: nn.Module, rows: Rows) -> None:
        """Copy the weights of the encoder, and find what is foreground in scaled training rows.

        May be called again as the encoder trains: foreground and background do not change places then
        (`viewsmith.views.generated.noise_level.find_foreground`).
        """
        if self.encoder is not None:
            self.encoder.load_state_dict(encoder.state_dict())
        self.kept = []
        if self.maps is not None:
            maps, device = self.maps, rows.device
            chosen = torch.linspace(0, len(rows) - 1, min(len(rows), MOST), dtype=torch.float64).long()
            found = find_foreground(
                lambda: (maps(rows[part.to(device)]).float() for part in chosen.split(BLOCK)),
                former=self.axis if self.ready else None,
            )
            self.axis.copy_(found.axis)
        self.ready.fill_(1)

    @torch.no_grad()
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """q of each pair of views, (B,), without gradient."""
        return pair_quality(*(self._pools(view) for view in (first, second)))

    @contextlib.contextmanager
    def watch(self, framework: nn.Module) -> Iterator[Passes]:
        """Catch the maps that a framework's encoder, and its ``encoder_copy``, make of pairs meanwhile."""
        assert isinstance(self.maps, FeatureMap)
        encoders = [getattr(framework, name) for name in ("encoder", "encoder_copy") if hasattr(framework, name)]
        passes: Passes = [[] for _ in encoders]
        hooks = [self.maps.record(*each) for each in zip(encoders, passes, strict=True)]
        try:
            yield passes
        finally:
            for hook in hooks:
                hook.remove()

    @torch.no_grad()
    def passed(self, passes: Passes, n: int) -> Tensor:
        """q of n pairs of views, (n,), from the maps of the framework's own pass.

        The first pass of the encoder begins with the n first views and the n second ones, or it is of the first views
        alone and that of the copy of the second.

        Raises
        ------
        InputError
            The framework passes views otherwise.
        """
        maps = [found[0] for found in passes if found]
        both = maps[0] if maps and len(maps[0]) >= 2 * n else torch.cat([found[:n] for found in maps])
        if len(both) < 2 * n:
            raise InputError(
                f"the encoder sees {len(both)} views in a pass, expected both of each of {n} pairs: "
                "take quality_features='views' with this framework"
            )
        z_f, z_b = map_pools(both[: 2 * n].float(), self.axis)
        return pair_quality((z_f[:n], z_b[:n]), (z_f[n:], z_b[n:]))

    @torch.no_grad()
    def keep(self, sources: Sequence[Rows]) -> None:
        """Look at all rows of each source, scaled: the samples, and their generated views.

        Looked at are the quarters of an image, enlarged, for so are crops; their maps are put together again. They are
        kept on `WIDTH` axes: that of the foreground, and those on which patches of the samples are largest.
        """
        assert self.maps is not None
        maps, rows = self.maps, sources[0]
        chosen = torch.linspace(0, len(rows) - 1, min(len(rows), MOST), dtype=torch.float64).long().to(rows.device)
        moments: Tensor | float = 0.0
        for part in chosen.split(BLOCK):
            patches = maps(rows[part]).float().flatten(0, 2)
            patches = patches - (patches @ self.axis)[:, None] * self.axis
            moments = moments + (patches.T @ patches).double()
        assert isinstance(moments, Tensor)
        others = torch.linalg.eigh(moments).eigenvectors.flip(1)[:, : min(WIDTH, len(moments)) - 1].to(self.axis)
        axes = torch.cat([self.axis[:, None], others], dim=1)

        def look(x: Tensor) -> Tensor:
            quarters = crop(x, _quarters(x))
            found = (maps(quarters).float() @ axes).unflatten(0, (len(x), 2, 2))
            return found.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3).half()

        self.kept = [apply_in_blocks(look, each, BLOCK) for each in sources]

    @torch.no_grad()
    def cached(self, index: Tensor, sources: tuple[Tensor, Tensor], crops: tuple[CropBoxes, CropBoxes]) -> Tensor:
        """q of each pair of views, (B,), from kept maps: of which rows, of which sources, and what the views show."""
        return pair_quality(*(self._cut(index, *side) for side in zip(sources, crops, strict=True)))

    def _cut(self, index: Tensor, source: Tensor, shown: CropBoxes) -> Pools:
        maps = self.kept[0][index]
        for number, kept in enumerate(self.kept[1:], start=1):
            here = (source == number).nonzero()[:, 0]
            maps[here] = kept[index[here]]
        assert self.maps is not None
        height, width, _ = self.maps.shape
        boxes = shown.boxes.float() * shown.boxes.new_tensor([*maps.shape[2:]] * 2)
        features = crop(maps.float(), boxes, (height, width), shown.flip).flatten(2).mT
        # The foreground's axis is the first that maps are kept on.
        return attention_pools(features, foreground_map(features, torch.eye(1, features.shape[2]).to(features)[0]))

    def release(self) -> None:
        """Let go of the maps that `keep` made."""
        self.kept = []

    def _pools(self, view: Tensor) -> Pools:
        if self.maps is not None:
            return map_pools(self.maps(view).float(), self.axis)
        assert self.encoder is not None
        h = self.encoder(view).float()
        return h, torch.zeros_like(h)  # all foreground

    def train(self, mode: bool = True) -> ViewQuality:
        """The copied encoder stays in evaluation mode."""
        super().train(mode)
        if self.encoder is not None:
            self.encoder.eval()
        return self


def _quarters(x: Tensor) -> Tensor:
    """Boxes of the quarters of each of B images, (4 B, 4), row by row."""
    height, width = x.shape[2] / 2, x.shape[3] / 2
    boxes = [[top, left, height, width] for top in (0.0, height) for left in (0.0, width)]
    return x.new_tensor(boxes).repeat(len(x), 1)
