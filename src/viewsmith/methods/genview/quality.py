"""Quality of pairs of views from a frozen network or a copy of the encoder (GenView: Li et al. 2024, section 3.4)."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import broadcast_module, broadcast_tensors
from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows, apply_in_blocks, evenly_spaced
from viewsmith.core.tensors import HostNumbers, constant
from viewsmith.losses.quality import Pools, attention_pools, foreground_map, map_pools, pair_quality
from viewsmith.modalities.images.operations import crop
from viewsmith.networks.features import FeatureMap, FrozenMaps
from viewsmith.views.base import CropBoxes
from viewsmith.views.generated.diffusion_views import take
from viewsmith.views.generated.noise_level import MAX_ROWS, fit_foreground

BLOCK = 64
WIDTH = 8  # number of axes of cached maps
Source = Literal["views", "encoder", "cached"]

#: Feature maps of the forward passes of an encoder, and of its momentum copy if there is one.
Passes = list[list[Tensor]]


class ViewQuality(nn.Module):
    """Quality q of pairs of views, from feature maps for images, and from representations for vectors and DNA.

    Parameters
    ----------
    encoder : nn.Module
        It is copied; the copy does not change until `copy_encoder`. Not used if `maps` are given.
    x : Tensor, shape (B, ...)
        One or more scaled samples, which determine the modality and the feature map.
    source : {"views", "encoder", "cached"}
        Source of the feature maps of images. ``views``: the copy is applied to every view (`forward`). ``encoder``: the
        maps of the encoder's own forward passes in training are used (`record_passes`, `from_passes`). ``cached``: the
        copy is applied to every image once (`cache_maps`), and the region that a view shows is cropped from its map
        (`from_cached_maps`); color changes have no effect. Vectors and DNA always use ``views``.
    maps : FrozenMaps, optional
        A feature extractor, such as CLIP, instead of the copy; it is not saved.
    diversity : bool
        For vectors and DNA: subtract the cosine of the views from the cosine of their representations, as that of the
        backgrounds is subtracted for images. Then q is largest for different views with similar representations.
        Otherwise q is the cosine of the representations.

    Raises
    ------
    InputError
        The encoder has no feature map, or `maps` are given with the source "encoder".

    Attributes
    ----------
    numbers : HostNumbers
        ``ready``: 1 after the first `copy_encoder`.
    axis : Tensor, shape (D,)
        First principal component of the patches, pointing to the foreground; D is 0 for vectors and DNA.
    cached_maps : list of Tensor, each (n, c, 2 h, 2 w)
        Feature maps of all rows on c axes, float16, for each source of views; never saved.
    """

    axis: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        x: Tensor,
        *,
        source: Source = "views",
        maps: FrozenMaps | None = None,
        diversity: bool = False,
    ) -> None:
        super().__init__()
        if maps is not None and source == "encoder":
            raise InputError(
                f"quality_features is 'encoder', which cannot use the features of {maps.name}: give 'views' or 'cached'"
            )
        self.diversity = diversity
        self.encoder: nn.Module | None = None
        self.maps: FeatureMap | FrozenMaps | None = maps
        if maps is None:
            self.encoder = copy.deepcopy(encoder).requires_grad_(False).eval()
            self.maps = FeatureMap(self.encoder, x) if x.ndim == 4 else None
        self.source: Source = "views" if self.maps is None else source
        self.cached_maps: list[Tensor] = []
        self.numbers = HostNumbers(ready=0)
        self.register_buffer("axis", torch.zeros(0 if self.maps is None else self.maps.shape[2]))

    @property
    def ready(self) -> bool:
        """Whether qualities can be computed."""
        return bool(self.numbers["ready"])

    @property
    def needs_trained_encoder(self) -> bool:
        """Whether qualities are useful only after the encoder has been trained (no feature extractor is given)."""
        return self.encoder is not None

    @torch.no_grad()
    def copy_encoder(self, encoder: nn.Module, rows: Rows) -> None:
        """Copy the weights of the encoder, and fit the axis of the foreground to scaled training rows.

        All processes get the weights and BatchNorm statistics of the first one. Later calls, during the training of the
        encoder, do not flip the sign of the axis (`viewsmith.views.generated.noise_level.fit_foreground`).
        """
        if self.encoder is not None:
            self.encoder.load_state_dict(encoder.state_dict())
            broadcast_module(self.encoder)
        self.cached_maps = []
        if self.maps is not None:
            maps, device = self.maps, rows.device
            sample = evenly_spaced(len(rows), MAX_ROWS)
            fitted = fit_foreground(
                lambda: (maps(rows[part.to(device)]).float() for part in sample.split(BLOCK)),
                previous=self.axis if self.ready else None,
            )
            self.axis.copy_(fitted.axis)
        self.numbers["ready"] = 1
        broadcast_tensors(self.axis)

    @torch.no_grad()
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """q of each pair of views, (B,), without gradient."""
        return pair_quality(*(self._pools(view) for view in (first, second)))

    @contextlib.contextmanager
    def record_passes(self, framework: nn.Module) -> Iterator[Passes]:
        """Record the feature maps of a framework's ``encoder`` and ``encoder_copy`` inside a ``with`` block."""
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
    def from_passes(self, passes: Passes, n: int) -> Tensor:
        """q (n,) of view pairs from the maps of the framework's own passes: both views in the first, one each in two,
        or in the encoder's and its copy's."""
        maps = [of_encoder[0] for of_encoder in passes if of_encoder]
        if maps and len(maps[0]) == n and len(passes[0]) > 1:
            maps = [torch.cat(passes[0][:2])]
        both = maps[0] if maps and len(maps[0]) >= 2 * n else torch.cat([of_encoder[:n] for of_encoder in maps])
        if len(both) < 2 * n:
            raise InputError(
                f"a forward pass of the encoder has {len(both)} views, expected both views of {n} pairs: "
                "give quality_features='views' with this framework"
            )
        z_f, z_b = map_pools(both[: 2 * n].float(), self.axis)
        return pair_quality((z_f[:n], z_b[:n]), (z_f[n:], z_b[n:]))

    @torch.no_grad()
    def cache_maps(self, sources: Sequence[Rows]) -> None:
        """Compute and store the maps of all rows of the samples and their views, of enlarged quarters of images,
        projected onto `WIDTH` axes: the foreground's and principal ones."""
        assert self.maps is not None
        maps, rows = self.maps, sources[0]
        moments: Tensor | float = 0.0
        for part in evenly_spaced(len(rows), MAX_ROWS).to(rows.device).split(BLOCK):
            patches = maps(rows[part]).float().flatten(0, 2)
            patches = patches - (patches @ self.axis)[:, None] * self.axis
            moments = moments + (patches.T @ patches).double()
        assert isinstance(moments, Tensor)
        others = torch.linalg.eigh(moments).eigenvectors.flip(1)[:, : min(WIDTH, len(moments)) - 1].to(self.axis)
        axes = torch.cat([self.axis[:, None], others], dim=1)

        def joined_maps(x: Tensor) -> Tensor:
            quarters = crop(x, _quarters(x))
            projected = (maps(quarters).float() @ axes).unflatten(0, (len(x), 2, 2))
            return projected.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3).half()

        self.cached_maps = [apply_in_blocks(joined_maps, each, BLOCK) for each in sources]

    @torch.no_grad()
    def from_cached_maps(
        self, index: Tensor, sources: tuple[Tensor, Tensor], crops: tuple[CropBoxes, CropBoxes]
    ) -> Tensor:
        """q of pairs of views, (B,), of the rows `index`: number of each view's source, (B,), and its region."""
        return pair_quality(*(self._cropped_pools(index, *view) for view in zip(sources, crops, strict=True)))

    def _cropped_pools(self, index: Tensor, source: Tensor, crops: CropBoxes) -> Pools:
        maps = take(self.cached_maps, index, source)
        assert self.maps is not None
        height, width, _ = self.maps.shape
        boxes = crops.boxes.float() * constant([*maps.shape[2:]] * 2, crops.boxes)
        features = crop(maps.float(), boxes, (height, width), crops.flip).flatten(2).mT
        # The axis of the foreground is the first axis of cached maps.
        axis = torch.eye(1, features.shape[2], dtype=features.dtype, device=features.device)[0]
        return attention_pools(features, foreground_map(features, axis))

    def release(self) -> None:
        """Free the cached maps."""
        self.cached_maps = []

    def _pools(self, view: Tensor) -> Pools:
        if self.maps is not None:
            return map_pools(self.maps(view).float(), self.axis)
        assert self.encoder is not None
        h = self.encoder(view).float()
        return h, view.float().flatten(1) if self.diversity else torch.zeros_like(h)

    def train(self, mode: bool = True) -> "ViewQuality":
        """Set the mode; the copied encoder stays in evaluation mode."""
        super().train(mode)
        if self.encoder is not None:
            self.encoder.eval()
        return self


def _quarters(x: Tensor) -> Tensor:
    """Boxes of the four quarters of each of B images, (4 B, 4)."""
    height, width = x.shape[2] / 2, x.shape[3] / 2
    boxes = [[top, left, height, width] for top in (0.0, height) for left in (0.0, width)]
    return x.new_tensor(boxes).repeat(len(x), 1)
