"""Finite families of transformations T_1 ... T_M for augmentation channels, and their names and options.

A family makes views of samples, and encodes all views of a sample, in one pass if the encoder supports it. There are
crops of images, masks of features, windows of sequences, and transformations that are functions of the user.
"""

import copy
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import register
from viewsmith.core.tensors import on_host
from viewsmith.methods.crl_tac.scores import (
    CropScores,
    ImageScores,
    MaskScores,
    PositionScores,
    SequenceScores,
    SpectrumScores,
)
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.modalities.spectra.views import AxisShift, Scatter, deviation, moved, scattered
from viewsmith.networks.base import PartContext

#: Largest number of values of views, and of pixels of images, that an encoder gets at a time without gradient.
MAX_VALUES, MAX_PIXELS = 2**22, 2**18


class Family(nn.Module):
    """A family of M transformations. Subclasses define `size` and `take`."""

    size: int  #: M
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  #: of samples and of views, if they have one
    names: Sequence[str] | None = None  #: of the transformations in reports

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        """Views T_t(x), (B, m, ...), of samples (B, ...), with indices `t`, int64 (B, m), from 0 to M - 1."""
        raise NotImplementedError

    def all_views(self, x: Tensor) -> Tensor:
        """All views, (B, M, ...), of samples (B, ...)."""
        return self.take(x, torch.arange(self.size, device=x.device).expand(len(x), -1))

    def embed(self, encoder: nn.Module, x: Tensor) -> Tensor:
        """Representations of all views of samples (B, ...): (B, M, n_components)."""
        return encoder(self.all_views(x).flatten(0, 1)).unflatten(0, (len(x), self.size))

    def embed_some(self, encoder: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        """Representations of the views T_t(x) with indices `t`, (B, m): (B, m, n_components)."""
        return encoder(self.take(x, t).flatten(0, 1)).unflatten(0, t.shape)

    def rows_at_once(self, encoder: nn.Module | None, x: Tensor) -> int:
        """Number of samples like `x` (B, ...) whose views are embedded (or in memory) at a time without gradient."""
        first = self.take(x[:1], torch.zeros(1, 1, dtype=torch.int64, device=x.device))
        return max(1, MAX_VALUES // (self.size * first.numel()))

    def is_view(self, x: Tensor) -> bool:
        """Whether `x` has the shape of views, if this is not the shape of samples."""
        return self.shapes is not None and tuple(x.shape[1:]) == self.shapes[1] != self.shapes[0]

    def is_dense(self, encoder: nn.Module) -> bool:
        """Whether `embed` encodes all views of a sample in one pass."""
        return False

    def boxes(self, x: Tensor) -> Tensor | None:
        """Top, left, height and width of each view in its sample, (1 or B, M, 4); None if views are not regions."""
        return None

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """Logits of the transformations, (B, M), of samples (B, ...), from a network of `score_network`."""
        return network(x)

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """A network for the logits of scaled samples with `dims` dimensions, the first of size `channels`."""
        if dims == 1:
            return MaskScores(channels, self.size)
        return SequenceScores(self.size, channels) if dims == 2 else ImageScores(channels, self.size)

    def _check_size(self, number: int, family: str) -> int:
        if number < 2:
            count = f"{number} transformation{'s' if number != 1 else ''}"
            raise InputError(f"{family}: the family has {count}, expected at least 2")
        return number


class Crops(Family):
    """Square crops of images (B, C, H, W) on a grid, optionally at several scales and mirrored.

    With one scale and without mirrored crops these are the paper's crops: 289 crops of 20 x 20 pixels, with a stride of
    4, of images of 84 x 84 pixels.

    Parameters
    ----------
    height, width : int
        Size of the images.
    crop, stride : int
        Side of a crop and distance between neighboring corners, in pixels.
    scales : sequence of float
        Factors by which the image is resized before cropping: 0.5 for half its height and width.
    flip : bool
        Add the crops of the mirrored image.

    Attributes
    ----------
    grids : list of (int, int)
        Rows and columns of crop corners at each scale. The indices of transformations run over scales, then mirrored
        or not, then rows, then columns.

    Raises
    ------
    InputError
        The images are smaller than a crop, or there are fewer than two crops.
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
        self.image_size = height, width
        self.crop, self.stride, self.scales, self.flip = crop, stride, tuple(scales), flip
        self.sizes = [(round(height * scale), round(width * scale)) for scale in self.scales]
        for scale, size in zip(self.scales, self.sizes, strict=True):
            if min(size) < crop:
                at = "" if scale == 1 else f" at {scale:g} of their size"
                raise InputError(
                    f"the images have {size[0]} x {size[1]} pixels{at}, expected at least the {crop} x {crop} of a "
                    "crop: use smaller crops"
                )
        self.grids = [((h - crop) // stride + 1, (w - crop) // stride + 1) for h, w in self.sizes]
        self.size = self._check_size(
            sum(rows * columns for rows, columns in self.grids) * (1 + flip),
            f"crops of {crop} x {crop} pixels with stride {stride} of {height} x {width} pixels",
        )

    def layers(self, x: Tensor) -> list[Tensor]:
        """The images from which crops are taken, each (B, C, h, w): at every scale, unchanged and mirrored."""
        if tuple(x.shape[2:]) != self.image_size:
            given, expected = (" x ".join(map(str, size)) for size in (x.shape[2:], self.image_size))
            raise InputError(f"the images have {given} pixels, but the crops were made for {expected}")
        layers = []
        for size in self.sizes:
            same = size == tuple(x.shape[2:])
            scaled = x if same else F.interpolate(x, size, mode="bilinear", antialias=True)
            layers += [scaled, scaled.flip(3)] if self.flip else [scaled]
        return layers

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """A network with one logit per crop."""
        return CropScores(channels, crop=self.crop, stride=self.stride)

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        views = x.new_empty(*t.shape, x.shape[1], self.crop, self.crop)
        rows = torch.arange(len(x), device=x.device)[:, None].expand_as(t)
        first = 0
        for layer, image in enumerate(self.layers(x)):
            high, wide = self.grids[layer // (1 + self.flip)]
            crops = image.unfold(2, self.crop, self.stride).unfold(3, self.crop, self.stride)
            in_layer = (t >= first) & (t < first + high * wide)
            if on_host(t):
                corner = t[in_layer] - first
                views[in_layer] = crops[rows[in_layer], :, corner // wide, corner % wide]
            else:
                corner = (t - first).clamp(0, high * wide - 1)
                found = crops[rows, :, corner // wide, corner % wide]
                views = torch.where(in_layer[..., None, None, None], found, views)
            first += high * wide
        return views

    def embed(self, encoder: nn.Module, x: Tensor) -> Tensor:
        if not self.is_dense(encoder):
            return super().embed(encoder, x)
        grids = [grid for grid in self.grids for _ in range(1 + self.flip)]
        maps = [self._dense(encoder, image, grid) for image, grid in zip(self.layers(x), grids, strict=True)]
        return torch.cat(maps, dim=2).mT

    def _dense(self, encoder: nn.Module, image: Tensor, grid: tuple[int, int]) -> Tensor:
        """Representations of the crops of a grid, (B, n_components, crops): means of the encoder's map over each."""
        maps: Tensor = encoder.dense(image)  # type: ignore[operator]
        smallest, spacing = _dense_grid(encoder)
        each, step = (self.crop - smallest) // spacing + 1, self.stride // spacing
        if each > 1 or step > 1:
            maps = F.avg_pool2d(maps, each, step)[..., : grid[0], : grid[1]]
        return maps.flatten(2)

    def rows_at_once(self, encoder: nn.Module | None, x: Tensor) -> int:
        if encoder is None or not self.is_dense(encoder):
            return super().rows_at_once(encoder, x)
        return max(1, MAX_PIXELS // sum(height * width for height, width in self.sizes) // (1 + self.flip))

    def embed_some(self, encoder: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        """As in `Family`; a dense encoder encodes each distinct crop once, or all in one pass if that is less work."""
        if not self.is_dense(encoder):
            return super().embed_some(encoder, x, t)
        number = t + self.size * torch.arange(len(x), device=x.device)[:, None]
        pixels = len(x) * sum(image[0, 0].numel() for image in self.layers(x[:1]))
        distinct, inverse = number.unique(return_inverse=True) if on_host(t) else (number.flatten(), None)
        if len(distinct) * self.crop**2 > pixels:
            return F.embedding(number, self.embed(encoder, x).flatten(0, 1))
        if inverse is None:
            return super().embed_some(encoder, x, t)
        first = torch.empty_like(distinct).scatter_(0, inverse.flatten(), torch.arange(t.numel(), device=x.device))
        return F.embedding(inverse, encoder(self.take(x, t).flatten(0, 1)[first]))

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """One logit per crop from ``network(image, grid)``, (B, rows, columns), with the same network at all scales."""
        layers = zip(self.layers(x), [grid for grid in self.grids for _ in range(1 + self.flip)], strict=True)
        return torch.cat([network(image, grid).flatten(1) for image, grid in layers], dim=1)

    def boxes(self, x: Tensor) -> Tensor:
        """Top, left, height and width of each crop, in pixels of the original images: (1, M, 4)."""
        made = []
        for layer, (rows, columns) in enumerate(grid for grid in self.grids for _ in range(1 + self.flip)):
            size = torch.tensor(self.sizes[layer // (1 + self.flip)], dtype=torch.float64)
            corners = self.stride * torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).double()
            if self.flip and layer % 2:
                corners[:, 1] = size[1] - self.crop - corners[:, 1]
            units = torch.tensor(self.image_size) / size
            made.append(torch.cat([corners * units, (self.crop * units).expand_as(corners)], dim=1))
        return torch.cat(made)[None].to(x.device)

    def is_view(self, x: Tensor) -> bool:
        return tuple(x.shape[2:]) == (self.crop, self.crop) != self.image_size

    def is_dense(self, encoder: nn.Module) -> bool:
        """Whether the encoder encodes all crops in one pass: it has `dense`, a map of its smallest crops (`crop`, at
        multiples of `stride`), whose mean is the representation, and no BatchNorm in training."""
        smallest, spacing = _dense_grid(encoder)
        if not spacing or self.crop < smallest or self.stride % spacing:
            return False
        return not (encoder.training and any(isinstance(module, nn.BatchNorm2d) for module in encoder.modules()))


def _dense_grid(encoder: nn.Module) -> tuple[int, int]:
    """Side of the smallest crop that a dense encoder encodes, and spacing of the corners; zeros for other encoders."""
    return (int(encoder.crop), int(encoder.stride)) if hasattr(encoder, "dense") else (0, 0)  # type: ignore[arg-type]


def crop_grid(
    row_shape: Sequence[int], size: int | Literal["auto"] | None = None, stride: int | Literal["auto"] = "auto"
) -> tuple[int, int]:
    """Side and stride of CRL-TAC's crops: the paper's 20 and 4 for images of at least 24 pixels, else smaller ones."""
    side = min(row_shape[:2])
    published = (20, 4) if side >= 24 else (max(1, round(side * 5 / 7)), max(1, side // 8))
    return size if isinstance(size, int) else published[0], published[1] if stride == "auto" else stride


class Masks(Family):
    """Random feature subsets of vectors (B, d): a view keeps some features and sets the others to 0 (the scaled mean).

    Parameters
    ----------
    n_features : int or sequence of int
        d, at least 2; for a table the number of the column, from 0 on, that each feature is of: subsets are of columns.
    count : int
        M, the number of subsets, which are drawn once.
    keep : float
        Fraction of the features in each subset.
    seed : int

    Raises
    ------
    InputError
        There are fewer than two features or subsets.
    """

    def __init__(self, n_features: int | Sequence[int], *, count: int = 64, keep: float = 0.5, seed: int = 0) -> None:
        super().__init__()
        columns = torch.arange(n_features) if isinstance(n_features, int) else torch.tensor(n_features)
        n_features = int(columns.max()) + 1 if len(columns) else 0
        if n_features < 2:
            raise InputError(
                f"the rows have {n_features} feature, expected at least 2 (n_features={n_features}): "
                "a view keeps a subset"
            )
        self.size = self._check_size(count, "masks of features")
        self.names = [f"mask {number}" for number in range(count)]
        kept = min(max(1, round(keep * n_features)), n_features - 1)
        order = torch.rand(count, n_features, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
        self.masks = nn.Buffer((order < kept)[:, columns].to(torch.get_default_dtype()))

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        return x[:, None] * self.masks.to(x.dtype)[t]


#: Factor by which the logits of views take more memory than the views.
SCORED = 8
Detrend = Literal["none", "constant", "linear"]


def detrended(x: Tensor, how: Literal["constant", "linear"]) -> Tensor:
    """Sequences (..., L) minus their mean ("constant"), or minus the line with the least squared error ("linear")."""
    x = x - x.mean(dim=-1, keepdim=True)
    if how == "constant" or x.shape[-1] < 2:
        return x
    t = torch.linspace(-1, 1, x.shape[-1], dtype=x.dtype, device=x.device)
    t = t / t.norm()
    return x - (x * t).sum(dim=-1, keepdim=True) * t


class Windows(Family):
    """Windows of sequences (B, C, L), evenly spaced from the first base of a sequence to its last.

    Positions are relative to the length of each sequence without padding, so views do not depend on the padding.

    Parameters
    ----------
    fraction : float
        Length of a window as a fraction of its sequence; at least one base.
    count : int
        M, the number of windows. In a short sequence some are equal.
    padded : bool
        Whether columns of zeros are padding, as in DNA. If not, all sequences have one length.
    detrend : {"none", "constant", "linear"}
        Subtract from each channel of a window its mean, or its line (see `detrended`). Views and logits then do not
        depend on it. For sequences without padding.

    Raises
    ------
    InputError
        `count` is below 2, or padded sequences are to be detrended.
    """

    def __init__(
        self, *, fraction: float = 0.5, count: int = 16, padded: bool = True, detrend: Detrend = "none"
    ) -> None:
        super().__init__()
        self.fraction, self.size, self.padded = fraction, self._check_size(count, "windows"), padded
        if padded and detrend != "none":
            raise InputError(f"detrend is {detrend!r}, but DNA and other padded sequences have no trend: leave it out")
        self.detrend: Detrend = detrend
        first = torch.linspace(0, 1 - fraction, count).tolist()
        self.names = [f"{start:.0%} to {start + fraction:.0%}" for start in first]

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """A network with one logit per position."""
        return PositionScores(channels, padded=self.padded)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """First base of each window, int64 (B, M), and the length of a sequence's windows, int64 (B,)."""
        lengths = real_positions(x).sum(dim=1) if self.padded else torch.full((len(x),), x.shape[2], device=x.device)
        widths = (self.fraction * lengths).round().long().clamp_min(1)
        steps = torch.linspace(0, 1, self.size, device=x.device)
        return ((lengths - widths).clamp_min(0)[:, None] * steps).round().long(), widths

    def boxes(self, x: Tensor) -> Tensor:
        """Each window as a box of height 1, (B, M, 4): its first base is `left`, its length `width`."""
        starts, widths = self.bounds(x)
        lengths = widths[:, None].expand_as(starts)
        return torch.stack([torch.zeros_like(starts), starts, torch.ones_like(starts), lengths], dim=2).double()

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        starts, widths = self.bounds(x)
        widest = int(widths.max()) if on_host(x) else max(1, round(self.fraction * x.shape[2]))
        offsets = torch.arange(widest, device=x.device)
        positions = (starts.gather(1, t)[..., None] + offsets).clamp_max(x.shape[2] - 1)
        windows = x.movedim(1, 2)[torch.arange(len(x), device=x.device)[:, None, None], positions]
        windows = (windows * (offsets < widths[:, None])[:, None, :, None]).movedim(3, 2)
        return windows if self.detrend == "none" else detrended(windows, self.detrend)

    def scores(self, network: nn.Module, x: Tensor) -> Tensor:
        """The mean over each window of ``network(x)``, logits (B, L), of windows detrended one by one."""
        if self.detrend != "none":
            parts = x.split(max(1, self.rows_at_once(None, x) // SCORED))
            means = [network(self.all_views(part).flatten(0, 1)).mean(dim=1) for part in parts]
            return torch.cat(means).unflatten(0, (len(x), self.size))
        starts, widths = self.bounds(x)
        sums = F.pad(network(x).cumsum(dim=1), (1, 0))
        ends = (starts + widths[:, None]).clamp_max(x.shape[2])
        return (sums.gather(1, ends) - sums.gather(1, starts)) / widths[:, None]


class Distortions(Family):
    """Spectra (B, 1, T) with another gain, level, slope, curvature and place on the axis: the family of `Scatter` and
    `AxisShift`, of which M members are drawn once.

    Parameters
    ----------
    count : int
        M.
    strength : float
        Factor of the deviations of `Scatter` and `AxisShift`.
    seed : int

    Raises
    ------
    InputError
        `count` is below 2.
    """

    def __init__(self, *, count: int = 16, strength: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        self.size = self._check_size(count, "distortions of spectra")
        scatter, shift = Scatter(), AxisShift()
        deviations = [scatter.gain, *[scatter.baseline] * 3, shift.points]
        drawn = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed)) * torch.tensor(deviations)
        self.drawn = nn.Buffer(strength * drawn)
        self.names = [
            f"gain {math.exp(gain):.2f}, level {level:+.2f}, slope {slope:+.2f}, curve {curve:+.2f}, shift {shift:+.1f}"
            for gain, level, slope, curve, shift in self.drawn.tolist()
        ]

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        gain, *baseline, shift = self.drawn.to(x.dtype)[t][..., None].unbind(2)  # (B, m, 1) each
        flat = x[:, :1].expand(-1, t.shape[1], -1).flatten(0, 1)[:, None]
        a, b = torch.stack(baseline, 3).flatten(0, 1), gain.exp().flatten(0, 1)[:, None]
        return moved(scattered(flat, b, deviation(flat) * a), shift.flatten(0, 1)[:, None]).unflatten(0, t.shape)

    def score_network(self, channels: int, dims: int) -> nn.Module:
        """A network of the spectrum without level and amplitude, which members of the family change."""
        return SpectrumScores(self.size)


class Functions(Family):
    """A family of custom transformations T_1 ... T_M, each defined by a function.

    Parameters
    ----------
    functions : sequence of callable
        At least two; each maps samples (B, ...) to one view of each, and all views have the same shape. A view must
        depend on its sample only, and be the same in every call. Modules are copied; their weights are not trained.

    Raises
    ------
    InputError
        There are fewer than two functions. Calls raise it if a function fails, or returns views of another shape than
        the others, or values that are not finite.
    """

    def __init__(self, functions: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.size = self._check_size(len(functions), "functions")
        self.functions = [copy.deepcopy(f) if isinstance(f, nn.Module) else f for f in functions]
        self.names = [f"{number} {_name(f)}" for number, f in enumerate(functions)]
        # As submodules they move to the device of the family and are saved with it.
        self.networks = nn.ModuleList(f for f in self.functions if isinstance(f, nn.Module)).requires_grad_(False)

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        # Each function is called once, on all samples for which it was drawn.
        rows = torch.arange(len(x), device=x.device).repeat_interleave(t.shape[1])
        order = t.flatten().argsort(stable=True)
        counts = torch.bincount(t.flatten(), minlength=self.size).tolist()
        parts = {k: self._view(k, x[part]) for k, part in enumerate(rows[order].split(counts)) if len(part)}
        first = min(parts)
        for k, part in parts.items():
            if part.shape[1:] != parts[first].shape[1:]:
                raise InputError(
                    f"{self._name(k)} returned views of shape {tuple(part.shape[1:])} and {self._name(first)} of "
                    f"shape {tuple(parts[first].shape[1:])}: all views of a family must have the same shape"
                )
        return torch.cat(list(parts.values()))[order.argsort()].unflatten(0, t.shape)

    def _view(self, k: int, x: Tensor) -> Tensor:
        try:
            view = self.functions[k](x)
        except Exception as error:
            raise InputError(f"{self._name(k)} failed for samples {tuple(x.shape)}: {error_text(error)}") from error
        if not isinstance(view, Tensor) or view.shape[:1] != x.shape[:1] or view.ndim < 2:
            given = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise InputError(f"{self._name(k)} returned {given} for samples {tuple(x.shape)}, expected a view of each")
        if not torch.isfinite(view).all():
            raise InputError(f"{self._name(k)} returned values that are not finite: test it on samples of zeros, too")
        return view.to(x.dtype)

    def _name(self, k: int) -> str:
        return f"transformation {k} ({_name(self.functions[k])})"


def _name(function: Callable[[Tensor], Tensor]) -> str:
    """The name of a function, also inside ``functools.partial``; of a module or other object the name of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


@dataclass(frozen=True)
class TransformsContext(PartContext):
    """What a family of transformations is built from, ``@register("transforms", ...)``; tags: ``noun``, its name in
    messages, and ``learning_rate``."""

    seed: int
    columns: Sequence[int] | None = None


@register("transforms", "crops", help="crops on a grid", modalities="images", noun="crops of images")
def _crops(
    context: TransformsContext,
    *,
    crop_size: int | Literal["auto"] | None = None,
    crop_stride: int | Literal["auto"] = "auto",
    crop_scales: tuple[float, ...] = (1.0,),
    crop_flips: bool = False,
) -> Crops:
    crop, stride = crop_grid(context.row_shape, crop_size, crop_stride)
    return Crops(*context.row_shape[:2], crop=crop, stride=stride, scales=crop_scales, flip=crop_flips)


@register("transforms", "masks", help="subsets of the features", modalities="vectors", noun="masks of vectors")
def _masks(context: TransformsContext, *, masks: int = 64, mask_fraction: float = 0.5) -> Masks:
    return Masks(context.columns or context.row_shape[0], count=masks, keep=mask_fraction, seed=context.seed)


@register(
    "transforms",
    "distortions",
    help="gains, baselines and shifts of spectra",
    modalities="spectra",
    noun="distortions of spectra",
)
def _distortions(context: TransformsContext, *, distortions: int = 16, distortion_strength: float = 1.0) -> Distortions:
    return Distortions(count=distortions, strength=distortion_strength, seed=context.seed)


@register(
    "transforms",
    "windows",
    help="windows of sequences",
    modalities=("dna", "proteins", "letters:", "series"),
    noun="windows of sequences",
    learning_rate=5e-4,
)
def _windows(
    context: TransformsContext, *, windows: int = 16, window_fraction: float = 0.5, detrend: Detrend = "none"
) -> Windows:
    padded = len(context.row_shape) == 1  # recordings (channels, time) have one length
    return Windows(fraction=window_fraction, count=windows, padded=padded, detrend=detrend)
