"""Features of images: a dictionary of patches with statistics of the channels and small pixels; networks of timm; and
dense features without labels or pretrained weights, learned patches (Coates, Lee and Ng 2011).

Of dense features, patches of the images themselves are whitened and clustered; the response of a pixel is its
similarity with each center, less the mean over the centers and half a deviation, and negative values are 0. Responses
are averaged over cells of `CELL` x `CELL` pixels and reduced to their principal components.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import Bounds, register
from viewsmith.core.tensors import on_host
from viewsmith.modalities.images.channels import channel_ranges
from viewsmith.modalities.images.encoders import load_timm_weights, timm_encoder, timm_scaling
from viewsmith.networks import features
from viewsmith.networks.base import EncoderContext, PartContext, Reference

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SMALL = 8  # pixels of a side of the small image
PIXELS = 100_000  # of which the principal channels are found
DETAIL = 2  # times the largest size that patches see: 96 pixels


def shrinks_by(row_shape: Sequence[int], options: Mapping[str, Any]) -> int:
    """Number of pixels of each side whose mean is a pixel of the images that views are made of: these are at least
    `DETAIL` times as large as patches see, which leaves crops some detail."""
    longest, shortest = max(row_shape[:2]), min(row_shape[:2])
    return max(1, min(int(longest / (DETAIL * max(options["reduced_to"], default=math.inf))), shortest // SMALL))


@register(
    "features",
    "patches",
    help="learned patches, statistics of the channels and small pixels",
    modalities="images",
    source="Coates, Lee and Ng 2011",
    shrinks_by=shrinks_by,
)
class ImagePatches(features.Features):
    """Responses to dictionaries of patches, averaged over regions, with statistics of channels: images (B, C, H, W).

    After Coates, Lee and Ng (2011), sections 3 and 4, with the threshold of a response by the place's own mean and
    deviation. Patches ignore the brightness and the size of contrasts, which statistics of channels add. Of more than
    24 channels the principal ones are taken. Large images are reduced first: patches would see their texture alone.

    Raises
    ------
    InputError
        No size of patches.
    """

    axes: Tensor | None
    centers: Annotated[int, Bounds(ge=2)] = 256
    """Centers of the dictionary of each size of patches."""
    sizes: tuple[Annotated[int, Bounds(ge=1)], ...] = (6,)
    """Sides of the patches in pixels, at most the sides of the images."""
    reduced_to: tuple[Annotated[int, Bounds(ge=4)], ...] = (24, 48)
    """An image whose longer side is above the largest of these is reduced to each of them, with dictionaries of their
    own, and images of other sizes by the same factors; empty: it is not reduced."""
    stride: Annotated[int, Bounds(ge=1)] = 2
    """Pixels between patches."""
    regions: Annotated[int, Bounds(ge=1)] = 3
    """Responses are averaged over ``regions`` x ``regions`` parts of the image."""
    maxima: tuple[Annotated[int, Bounds(ge=1)], ...] = (1, 2)
    """The largest responses in as many rows and columns of regions are features, too."""
    root: bool = True
    """Take the square root of the averages: a region with a few strong responses then resembles one with many."""
    channel_statistics: bool = True
    """Add mean, standard deviation and percentiles (5, 25, 50, 75, 95) of each channel, and the image at 8 x 8
    pixels."""

    def set_up(self, context: PartContext) -> None:
        if not self.sizes:
            raise InputError("sizes is empty, expected the sides of patches in pixels, such as 6")
        height, width = context.row_shape[:2]
        self.small = min(SMALL, height), min(SMALL, width)
        longest = max(height, width)
        reduced = self.reduced_to if longest > max(self.reduced_to, default=math.inf) else (longest,)
        scales = [side / longest for side in reduced]
        self.scales = [scale for scale in scales for _ in self.sizes]
        channels = min(context.channels, features.CHANNELS)
        self.register_buffer("axes", torch.zeros(context.channels, channels) if channels < context.channels else None)
        self.dictionaries: Iterable[features.PatchResponses] = nn.ModuleList(  # type: ignore[assignment]
            features.PatchResponses(
                channels,
                scaled((height, width), scale),
                patch=(side, side),
                centers=self.centers,
                stride=self.stride,
                regions=(self.regions, self.regions),
                root=self.root,
                maxima=self.maxima,
            )
            for scale in scales
            for side in self.sizes
        )
        of_channel = 2 + len(QUANTILES) + self.small[0] * self.small[1]
        self.n_features = sum(each.n_features for each in self.dictionaries)
        self.n_features += channels * of_channel if self.channel_statistics else 0

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        if self.axes is not None:
            pixels = x.float().cpu().movedim(1, -1).flatten(0, -2)
            self.axes.copy_(features.channel_axes(pixels[:: -(-len(pixels) // PIXELS)]))
        for each, images in self._reduced(self._principal(x)):
            each.fit(images, generator)

    def _reduced(self, x: Tensor) -> Iterator[tuple[features.PatchResponses, Tensor]]:
        """Every dictionary, and the images at its scale."""
        for scale, each in zip(self.scales, self.dictionaries, strict=True):
            size = scaled(x.shape[2:], scale)
            yield each, x if scale == 1 else F.interpolate(x.float(), size, mode="bilinear", antialias=True)

    def _principal(self, x: Tensor) -> Tensor:
        """Images with their channels on the principal axes, where these are many."""
        return x if self.axes is None else torch.einsum("bchw,ck->bkhw", x.float(), self.axes.to(x.device))

    def block_size(self, x: Tensor) -> int:
        sizes = [scaled(x.shape[2:], scale) for scale in self.scales]
        return min(
            each.block_size(x.new_empty(0, 1, *size)) for size, each in zip(sizes, self.dictionaries, strict=True)
        )

    def of_block(self, x: Tensor) -> Tensor:
        x = self._principal(x)
        found = [each(images) for each, images in self._reduced(x)]
        return torch.cat([*found, *([channel_statistics(x, self.small)] if self.channel_statistics else [])], dim=1)


def scaled(size: Sequence[int], scale: float) -> tuple[int, int]:
    """Height and width of a reduced image, at least one pixel each."""
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def channel_statistics(x: Tensor, small: tuple[int, int]) -> Tensor:
    """Mean, deviation and percentiles of each channel of images (B, C, H, W), and their pixels at a small size."""
    values = x.flatten(2)
    order = _sorted(values)
    places = torch.tensor(QUANTILES, device=x.device) * (values.shape[2] - 1)
    low = places.long()
    quantiles = torch.lerp(order[..., low], order[..., (low + 1).clamp_max(values.shape[2] - 1)], places - low)
    mean = values.mean(2, keepdim=True)
    deviation = (values - mean).square().mean(2, keepdim=True).clamp_min(1e-12).sqrt()
    return torch.cat([mean, deviation, quantiles, F.adaptive_avg_pool2d(x, small).flatten(2)], dim=2).flatten(1)


def _sorted(x: Tensor) -> Tensor:
    """Values in order along the last axis; on a CPU by numpy, in a sixth of the time."""
    if torch.compiler.is_compiling() or not on_host(x) or x.requires_grad:
        return x.sort(dim=-1).values
    return torch.from_numpy(np.sort(x.numpy(), axis=-1))


@register(
    "features",
    "timm:",
    help="the output of any network of timm without its classifier (extra timm)",
    modalities="images",
    source="Wightman 2019",
)
class TimmFeatures(features.NetworkFeatures):
    """The output of a network of timm without its classifier, which gets pixels scaled as it was trained with.

    Wightman (2019), PyTorch image models.

    Parameters
    ----------
    context : PartContext
        Its name is ``timm:NAME``.
    weights : str
        "pretrained": those that timm publishes, downloaded once; a safetensors file with timm's names; or "random". A
        saved model has the weights itself.
    side : int, "auto" or None
        Sides in pixels to which images are resized; "auto": those of the images that the network was trained with;
        None: they are not. Networks for images of 224 pixels see more in small images if these are enlarged.

    Raises
    ------
    InputError
        The network cannot be built, does not take images of this size, or its weights cannot be loaded.
    """

    def __init__(
        self,
        context: PartContext,
        *,
        weights: str = "pretrained",
        side: Annotated[int, Bounds(ge=8)] | Literal["auto"] | None = "auto",
    ) -> None:
        of_encoder = EncoderContext(context.row_shape, context.channels, 0, name=context.name)
        network = timm_encoder(of_encoder).eval()
        if side == "auto":
            published = getattr(network, "pretrained_cfg", None) or {}
            side = published["input_size"][-1] if published.get("input_size") else None
        size = tuple(context.row_shape[:2]) if side is None else (side, side)
        try:
            with torch.no_grad():
                width = network(torch.zeros(1, context.channels, *size)).flatten(1).shape[1]
        except Exception as error:
            raise InputError(
                f"the features {context.name} fail on images of {size[0]} x {size[1]} pixels ({error_text(error)}): "
                "set side (features_options), to which images are resized, such as 224"
            ) from error
        super().__init__(network, width)
        self.context, self.weights, self.side = of_encoder, weights, side
        assert context.layer is not None
        self.layer = Reference(context.layer)
        mean, deviation = timm_scaling(network, context.channels)
        self.center = nn.Buffer(mean[:, None, None])
        self.spread = nn.Buffer(deviation[:, None, None])

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        load_timm_weights(self.network, self.context, self.weights, "weights of features_options")

    def block_size(self, x: Tensor) -> int:
        return 64 if x.is_cuda else 16  # on a CPU as fast, in two thirds of the memory

    def of_block(self, x: Tensor) -> Tensor:
        layer = self.layer.module
        pixels = x * layer.scale[:, None, None] + layer.center[:, None, None]  # type: ignore[index]
        if self.side is not None:
            pixels = F.interpolate(pixels, (self.side, self.side), mode="bilinear", antialias=True)
        # On a CPU 1.6 times as fast as with channels first (EfficientNet-Lite0, 128 pixels).
        scaled = ((pixels - self.center) / self.spread).contiguous(memory_format=torch.channels_last)
        return super().of_block(scaled).flatten(1)


CELL = 4  # pixels of a side of a cell
PATCH = 6  # pixels of a side of a patch
SAMPLED = 40_000  # patches that the centers are fitted to
CENTERS, ROUNDS = 256, 15
STRIDE = 2  # pixels between patches: four times as fast as every pixel, with the same result on cells
COMPONENTS = 64  # principal components that are kept of a cell
VALUES = 2**21  # responses that are computed at once on a CPU

#: What discovery needs of any dense features: images (b, H, W, C) -> maps float32 (b, d, h, w).
DenseFeatures = Callable[[np.ndarray], Tensor]


@dataclass(frozen=True)
class Patches:
    """Patch features with their fitted parts; called with images (b, H, W, C), it gives maps (b, d, h, w)."""

    filters: Tensor  # centers times whitening, for pixels in 0 to 1: (CENTERS, C, PATCH, PATCH)
    offset: Tensor  # their response to the mean patch
    mean: Tensor  # response of a cell
    axes: Tensor  # its principal axes, (COMPONENTS, CENTERS)
    # Images are reduced by this factor before, 1 or 2, so that patches are larger.
    reduction: Tensor = field(default_factory=lambda: torch.tensor(1))
    unit: Tensor | None = None  # of images of instruments, in place of 255: see `unit_of`

    def to(self, device: torch.device) -> "Patches":
        """On a device, where maps are computed then."""
        return Patches(**{name: tensor.to(device) for name, tensor in vars(self).items() if tensor is not None})

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, on the CPU."""
        return {name: tensor.cpu() for name, tensor in vars(self).items() if tensor is not None}

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> Tensor:
        responses = cells(images, self.filters, self.offset, int(self.reduction), self.unit)
        return projected(responses, self.mean, self.axes)


def cells(
    images: np.ndarray, filters: Tensor, offset: Tensor, reduction: int = 1, unit: Tensor | None = None
) -> Tensor:
    """Responses averaged over cells, (b, centers, h, w); the border that a patch does not cover repeats its edge."""
    x = F.pad(as_pixels(images, reduction, filters.device, unit), (2, 2, 2, 2), mode="replicate").contiguous(
        memory_format=torch.channels_last
    )
    filters = filters.contiguous(memory_format=torch.channels_last)
    # Responses of a few images stay in the cache of a CPU.
    some = max(1, x.shape[0] if x.is_cuda else VALUES * STRIDE**2 // (len(filters) * x.shape[2] * x.shape[3]))
    return torch.cat([_pooled(each, filters, offset, CELL // STRIDE // reduction) for each in x.split(some)])


def _pooled(x: Tensor, filters: Tensor, offset: Tensor, side: int) -> Tensor:
    """Responses to images (b, C, H, W), averaged over squares."""
    # In rows of centers, which are contiguous: statistics over them are several times as fast.
    similarity = F.conv2d(x, filters, -offset, stride=STRIDE)
    b, centers, h, w = similarity.shape
    response = similarity.permute(0, 2, 3, 1).reshape(b * h * w, centers)
    mean = response.mean(1, keepdim=True)
    deviation = (torch.linalg.vector_norm(response, dim=1, keepdim=True).square() / centers - mean**2).clamp(min=0)
    response = response.sub_(mean + deviation.sqrt() / 2).relu_()
    return F.avg_pool2d(response.reshape(b, h, w, centers).permute(0, 3, 1, 2), side)


def as_pixels(
    images: np.ndarray, reduction: int = 1, device: torch.device | None = None, unit: Tensor | None = None
) -> Tensor:
    """Pixels of images (b, H, W) or (b, H, W, C) as float32 (b, C, H, W), reduced: over 255, or the `unit` of their
    channels."""
    x = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    x = (x if x.ndim == 4 else x[..., None]).permute(0, 3, 1, 2).float()
    if unit is not None and unit.ndim == 2:
        x = torch.einsum("bchw,ck->bkhw", x, unit.to(x.device))
    else:
        x = x / 255 if unit is None else x / unit.to(x.device)[:, None, None]
    return x if reduction == 1 else F.interpolate(x, scale_factor=1 / reduction, mode="bilinear", antialias=True)


def fit_patches(
    batches: Iterable[np.ndarray],
    some: Iterable[np.ndarray],
    n: int,
    seed: int,
    device: torch.device,
    reduction: int = 1,
    unit: Tensor | None = None,
) -> Patches:
    """Fit patch features to n images that come in batches of one size each, centers on the CPU, and axes to some of
    them, on a device."""
    rng = np.random.default_rng(seed)
    each = -(-SAMPLED // n)
    sampled = torch.cat([_patches(as_pixels(images, reduction, None, unit), each, rng) for images in batches])
    start = torch.from_numpy(rng.permutation(len(sampled))[:CENTERS])
    filters, offset = features.fit_dictionary(sampled, start, ROUNDS)
    filters, offset = filters.reshape(len(filters), -1, PATCH, PATCH).to(device), offset.to(device)
    moments = principal_axes(lambda images: cells(images, filters, offset, reduction, unit), some)
    return Patches(filters, offset, *moments, torch.tensor(reduction), unit)


def unit_of(batches: Iterable[np.ndarray]) -> Tensor:
    """The range of each channel, (C,), of images (b, H, W, C) of some batches. Of one or three channels all have the
    largest one: what is found then is the same for the same pixels at any depth, because only ratios matter. Of many
    channels, their principal axes (C, k) in these ranges."""
    some = np.concatenate([images.reshape(-1, images.shape[3])[:: max(1, len(images))] for images in batches])
    low, high = channel_ranges(some)
    span = np.where(high > low, high - low, 1)
    if len(span) > features.CHANNELS:
        return features.channel_axes(torch.from_numpy(some / span)) / torch.from_numpy(span)[:, None]
    return torch.from_numpy(np.full_like(span, span.max()) if len(span) in (1, 3) else span)


def _patches(x: Tensor, each: int, rng: np.random.Generator) -> Tensor:
    """`each` random patches of every image, (b * each, C * PATCH * PATCH)."""
    b, _, height, width = x.shape
    top = torch.from_numpy(rng.integers(0, height - PATCH + 1, (b, each)))
    left = torch.from_numpy(rng.integers(0, width - PATCH + 1, (b, each)))
    return features.patches_at(x, top, left, PATCH, PATCH)


@torch.no_grad()
def principal_axes(dense: DenseFeatures, batches: Iterable[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Mean (d,) and first principal axes (COMPONENTS, d) of the cells of images that come in batches."""
    count, total, products = 0, *torch.zeros(2, dtype=torch.float64)  # without a size: on any device
    for images in batches:
        # Added up batch by batch: all rows at once would take most of the memory of a search.
        x = dense(images).movedim(1, -1).flatten(0, -2).double()
        count, total, products = count + len(x), total + x.sum(0), products + x.T @ x
    mean = total / count
    _, axes = torch.linalg.eigh(products / count - torch.outer(mean, mean))
    return mean.float(), axes.flip(1)[:, :COMPONENTS].T.float().contiguous()


def projected(maps: Tensor, mean: Tensor, axes: Tensor) -> Tensor:
    """Maps (b, d, h, w) on principal axes, (b, COMPONENTS, h, w)."""
    return F.linear(maps.movedim(1, -1) - mean, axes).movedim(-1, 1)  # in rows of features, as they lie in memory


def sizes_fitting(shapes: Sequence[tuple[int, int]], longest: int, stride: int = CELL) -> list[tuple[int, int]]:
    """Sizes (height, width) of images in whole cells, aspect ratio kept, of at most `longest` pixels in cells of
    `CELL`; for a larger `stride`, as many cells."""
    found = []
    for height, width in shapes:
        scale = min(1.0, longest / max(height, width))
        found.append(tuple(max(1, round(side * scale / CELL)) * stride for side in (height, width)))
    return found  # type: ignore[return-value]
