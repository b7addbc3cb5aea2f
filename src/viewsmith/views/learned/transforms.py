"""Finite families of transformations T_1 ... T_M, from which an augmentation channel draws.

A family turns samples into some of their views, and embeds all of them, in one pass where the encoder can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.networks.channels import CropScores, ImageScores, MaskScores, PositionScores, SequenceScores
from viewsmith.networks.inputs.nucleotides import real_positions


class Family(nn.Module):
    """M transformations. Subclasses give `size` and `take`.

    Attributes
    ----------
    size : int
        M.
    shapes : (tuple of int, tuple of int), optional
        Of a sample and of its views, where samples have one shape.
    names : sequence of str, optional
        What reports call the transformations.
    """

    size: int
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    names: Sequence[str] | None = None

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        """Views T_t(x), (B, m, ...), for samples (B, ...) and numbers `t`, int64 (B, m), from 0 to M - 1."""
        raise NotImplementedError

    def every(self, x: Tensor) -> Tensor:
        """All views of samples (B, ...): (B, M, ...)."""
        return self.take(x, torch.arange(self.size, device=x.device).expand(len(x), -1))

    def embed(self, encoder: nn.Module, x: Tensor) -> Tensor:
        """What an encoder makes of all views: (B, M, n_components)."""
        h: Tensor = encoder(self.every(x).flatten(0, 1))
        return h.unflatten(0, (len(x), self.size))

    def embed_some(self, encoder: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        """What an encoder makes of views T_t(x), numbers `t` (B, m): (B, m, n_components)."""
        h: Tensor = encoder(self.take(x, t).flatten(0, 1))
        return h.unflatten(0, t.shape)

    def is_view(self, x: Tensor) -> bool:
        """Whether `x` holds views whose shape no sample has."""
        return self.shapes is not None and tuple(x.shape[1:]) == self.shapes[1] != self.shapes[0]

    def is_dense(self, encoder: nn.Module) -> bool:
        """Whether `embed` gives all views of a sample in one pass."""
        return False

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """A network's score of each transformation of samples (B, ...): (B, M)."""
        found: Tensor = network(x)
        return found

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """A network that scores the members, of scaled samples with `dims` dimensions, the first of size `channels`."""
        if dims == 1:
            return MaskScores(channels, self.size)
        return SequenceScores(self.size) if dims == 2 else ImageScores(channels, self.size)

    def _checked(self, number: int, what: str) -> int:
        if number < 2:
            count = f"{number} transformation{'s' if number != 1 else ''}"
            raise InputError(f"{what}: the family has {count}, expected at least 2 to choose from")
        return number


class Crops(Family):
    """Square crops of images (B, C, H, W) on a grid, of the image at several sizes, mirrored too: crop x flip x scale.

    With one size and no mirror images these are the paper's crops: 289 of 20 x 20 pixels, 4 apart, of 84 x 84.

    Parameters
    ----------
    height, width : int
        Of the images.
    crop, stride : int
        Side of a crop and distance of its corners, in pixels.
    scales : sequence of float
        Sizes at which the image is cut, 0.5 for half of its height and width.
    flip : bool
        Mirror images too.

    Attributes
    ----------
    grids : list of (int, int)
        Rows and columns of crop corners at each scale; numbers of transformations run over scales, then mirror
        images, then rows, then columns.
    """

    def __init__(
        self,
        height: int,
        width: int,
        *,
        crop: int = 20,
        stride: int = 4,
        scales: Sequence[float] = (1.0,),
        flip: bool = False,
    ) -> None:
        super().__init__()
        self.given = height, width
        self.crop, self.stride, self.scales, self.flip = crop, stride, tuple(scales), flip
        self.sizes = [(round(height * scale), round(width * scale)) for scale in self.scales]
        for scale, size in zip(self.scales, self.sizes, strict=True):
            if min(size) < crop:
                at = "" if scale == 1 else f" at {scale:g} of their size"
                raise InputError(
                    f"the images have {size[0]} x {size[1]} pixels{at}, and a crop has {crop} x {crop}: "
                    "take smaller crops"
                )
        self.grids = [((h - crop) // stride + 1, (w - crop) // stride + 1) for h, w in self.sizes]
        self.size = self._checked(
            sum(rows * columns for rows, columns in self.grids) * (1 + flip),
            f"crops of {crop} x {crop} pixels, {stride} apart, of {height} x {width}",
        )

    def layers(self, x: Tensor) -> list[Tensor]:
        """The images as they are cut, each (B, C, h, w): at every scale, as they are and mirrored."""
        if tuple(x.shape[2:]) != self.given:
            given, own = (" x ".join(map(str, size)) for size in (x.shape[2:], self.given))
            raise InputError(
                f"the images have {given} pixels, and the crops are of images of {own}: make them for these"
            )
        found = []
        for size in self.sizes:
            same = size == tuple(x.shape[2:])
            scaled = x if same else F.interpolate(x, size, mode="bilinear", antialias=True)
            found += [scaled, scaled.flip(3)] if self.flip else [scaled]
        return found

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """One score a crop."""
        return CropScores(channels)

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        views = x.new_empty(*t.shape, x.shape[1], self.crop, self.crop)
        rows = torch.arange(len(x), device=x.device)[:, None].expand_as(t)
        first = 0
        for layer, image in enumerate(self.layers(x)):
            high, wide = self.grids[layer // (1 + self.flip)]
            crops = image.unfold(2, self.crop, self.stride).unfold(3, self.crop, self.stride)
            here = (t >= first) & (t < first + high * wide)
            corner = t[here] - first
            views[here] = crops[rows[here], :, corner // wide, corner % wide]
            first += high * wide
        return views

    def embed(self, encoder: nn.Module, x: Tensor) -> Tensor:
        if not self.is_dense(encoder):
            return super().embed(encoder, x)
        maps = [encoder.dense(image).flatten(2) for image in self.layers(x)]  # type: ignore[operator]
        return torch.cat(maps, dim=2).mT

    def embed_some(self, encoder: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        """Where the encoder is dense: each crop once, or all in one pass where that looks at fewer pixels."""
        if not self.is_dense(encoder):
            return super().embed_some(encoder, x, t)
        number = t + self.size * torch.arange(len(x), device=x.device)[:, None]
        distinct, where = number.unique(return_inverse=True)
        if len(distinct) * self.crop**2 > len(x) * sum(image[0, 0].numel() for image in self.layers(x[:1])):
            f = self.embed(encoder, x).flatten(0, 1)
            return F.embedding(number, f)
        one_of = torch.empty_like(distinct).scatter_(0, where.flatten(), torch.arange(t.numel(), device=x.device))
        return F.embedding(where, encoder(self.take(x, t).flatten(0, 1)[one_of]))

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """One score for each crop from `network(image, grid)`, (B, rows, columns), the same for every scale."""
        layers = zip(self.layers(x), [grid for grid in self.grids for _ in range(1 + self.flip)], strict=True)
        return torch.cat([network(image, grid).flatten(1) for image, grid in layers], dim=1)

    def is_view(self, x: Tensor) -> bool:
        return tuple(x.shape[2:]) == (self.crop, self.crop) != self.given

    def is_dense(self, encoder: nn.Module) -> bool:
        """Whether the encoder embeds all crops of an image in one pass: those of its own size and distance."""
        return (getattr(encoder, "crop", None), getattr(encoder, "stride", None)) == (self.crop, self.stride)


def crop_grid(
    row_shape: Sequence[int], size: int | Literal["auto"] = "auto", stride: int | Literal["auto"] = "auto"
) -> tuple[int, int]:
    """Side and distance of CRL-TAC's crops: the paper's, 20 and 4, where images are large enough to choose from."""
    side = min(row_shape[:2])
    published = (20, 4) if side >= 24 else (max(1, round(side * 5 / 7)), max(1, side // 8))
    return published[0] if size == "auto" else size, published[1] if stride == "auto" else stride


class Masks(Family):
    """Feature subsets of vectors (B, d): a view keeps some features, the others are 0, their mean in scaled units.

    Parameters
    ----------
    n_features : int
        d.
    count : int
        M: subsets, drawn once.
    keep : float
        Share of the features in each.
    seed : int
    """

    masks: Tensor

    def __init__(self, n_features: int, *, count: int = 64, keep: float = 0.5, seed: int = 0) -> None:
        super().__init__()
        if n_features < 2:
            raise InputError(f"the rows have {n_features} feature, expected at least 2: a view keeps a part of them")
        self.size = self._checked(count, "masks of features")
        self.names = [f"mask {number}" for number in range(count)]
        kept = min(max(1, round(keep * n_features)), n_features - 1)
        order = torch.rand(count, n_features, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
        self.register_buffer("masks", (order < kept).to(torch.get_default_dtype()))

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        return x[:, None] * self.masks.to(x.dtype)[t]


class Windows(Family):
    """Stretches of sequences (B, C, L), evenly spaced from the first base of a sequence to its last.

    Lengths are those of each sequence, so that views do not depend on how far a batch was padded; padding is zero.

    Parameters
    ----------
    share : float
        Length of a stretch, as a share of its sequence's; at least one base.
    count : int
        M. Of a short sequence some are the same.
    """

    def __init__(self, *, share: float = 0.5, count: int = 16) -> None:
        super().__init__()
        self.share, self.size = share, self._checked(count, "windows")
        first = torch.linspace(0, 1 - share, count).tolist()
        self.names = [f"{start:.0%} to {start + share:.0%}" for start in first]

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """One score a base."""
        return PositionScores()

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """First bases of all windows, int64 (B, M), and their lengths, (B,)."""
        lengths = real_positions(x).sum(dim=1)
        widths = (self.share * lengths).round().long().clamp_min(1)
        steps = torch.linspace(0, 1, self.size, device=x.device)
        return ((lengths - widths).clamp_min(0)[:, None] * steps).round().long(), widths

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        starts, widths = self.bounds(x)
        within = torch.arange(int(widths.max()), device=x.device)
        where = (starts.gather(1, t)[..., None] + within).clamp_max(x.shape[2] - 1)
        taken = x.movedim(1, 2)[torch.arange(len(x), device=x.device)[:, None, None], where]
        return (taken * (within < widths[:, None])[:, None, :, None]).movedim(3, 2)

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """The mean over each window of `network(x)`, a score of every position, (B, L)."""
        starts, widths = self.bounds(x)
        sums = F.pad(network(x).cumsum(dim=1), (1, 0))
        ends = (starts + widths[:, None]).clamp_max(x.shape[2])
        return (sums.gather(1, ends) - sums.gather(1, starts)) / widths[:, None]


# ---- by name ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformsContext:
    """What a family of transformations is built for.

    A family registers itself as ``@register("transforms", ...)``, a function of this context whose keyword-only
    arguments are its options. Its traits: ``noun`` (what messages call it) and ``learning_rate`` (of CRL-TAC's encoder,
    where it is not the default).

    Attributes
    ----------
    row_shape : tuple of int
        Of a sample as users give it.
    channels : int
        First dimension of a scaled sample.
    seed : int
    """

    row_shape: tuple[int, ...]
    channels: int
    seed: int


@register("transforms", "crops", help="crops on a grid", domains="images", noun="crops of images")
def _crops(
    context: TransformsContext,
    *,
    crop_size: int | Literal["auto"] = "auto",
    crop_stride: int | Literal["auto"] = "auto",
    crop_scales: tuple[float, ...] = (1.0,),
    crop_flips: bool = False,
) -> Crops:
    crop, stride = crop_grid(context.row_shape, crop_size, crop_stride)
    return Crops(*context.row_shape[:2], crop=crop, stride=stride, scales=crop_scales, flip=crop_flips)


@register(
    "transforms",
    "masks",
    help="subsets of the features",
    domains="vectors",
    noun="masks of vectors",
)
def _masks(context: TransformsContext, *, masks: int = 64, mask_fraction: float = 0.5) -> Masks:
    return Masks(context.row_shape[0], count=masks, keep=mask_fraction, seed=context.seed)


@register(
    "transforms",
    "windows",
    help="windows of sequences",
    domains="dna",
    noun="windows of DNA",
    learning_rate=5e-4,
)
def _windows(context: TransformsContext, *, windows: int = 16, window_fraction: float = 0.5) -> Windows:
    return Windows(share=window_fraction, count=windows)
