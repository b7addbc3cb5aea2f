"""Features of images: a dictionary of patches with statistics of the channels and small pixels; networks of timm."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import Bounds, register
from viewsmith.core.tensors import on_host
from viewsmith.modalities.images.encoders import load_timm_weights, timm_encoder, timm_scaling
from viewsmith.networks.base import EncoderContext, PartContext, Reference
from viewsmith.networks.dictionary import CHANNELS, PatchResponses, channel_axes
from viewsmith.networks.features import Features, NetworkFeatures

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SMALL = 8  # pixels of a side of the small image
PIXELS = 100_000  # of which the principal channels are found
DETAIL = 8 / 3  # times the largest size that patches see: 128 pixels


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
class ImagePatches(Features):
    """Responses to dictionaries of patches, averaged over regions, with statistics of channels: images (B, C, H, W).

    After Coates, Lee and Ng (2011), sections 3 and 4, with the threshold of a response by the place's own mean and
    deviation. Patches ignore the brightness and the size of contrasts, which statistics of channels add. Of more than
    24 channels the principal ones are taken. Large images are reduced first: patches would see their texture alone.

    Parameters
    ----------
    context : PartContext
    centers : int
        Centers of the dictionary of each size of patches.
    sizes : tuple of int
        Sides of the patches in pixels, at most the sides of the images.
    reduced_to : tuple of int
        An image whose longer side is above the largest of these is reduced to each of them, with dictionaries of their
        own, and images of other sizes by the same factors; empty: it is not reduced.
    stride : int
        Pixels between patches.
    regions : int
        Responses are averaged over ``regions`` x ``regions`` parts of the image.
    maxima : tuple of int
        The largest responses in as many rows and columns of regions are features, too.
    root : bool
        Take the square root of the averages: a region with a few strong responses then resembles one with many.
    channel_statistics : bool
        Add mean, standard deviation and percentiles (5, 25, 50, 75, 95) of each channel, and the image at 8 x 8 pixels.

    Raises
    ------
    InputError
        No size of patches.
    """

    axes: Tensor | None

    def __init__(
        self,
        context: PartContext,
        *,
        centers: Annotated[int, Bounds(ge=2)] = 256,
        sizes: tuple[Annotated[int, Bounds(ge=1)], ...] = (6,),
        reduced_to: tuple[Annotated[int, Bounds(ge=4)], ...] = (24, 48),
        stride: Annotated[int, Bounds(ge=1)] = 2,
        regions: Annotated[int, Bounds(ge=1)] = 3,
        maxima: tuple[Annotated[int, Bounds(ge=1)], ...] = (1, 2),
        root: bool = True,
        channel_statistics: bool = True,
    ) -> None:
        super().__init__()
        if not sizes:
            raise InputError("sizes is empty, expected the sides of patches in pixels, such as 6")
        height, width = context.row_shape[:2]
        self.small = min(SMALL, height), min(SMALL, width)
        longest = max(height, width)
        scales = [side / longest for side in reduced_to] if reduced_to and longest > max(reduced_to) else [1.0]
        self.scales = [scale for scale in scales for _ in sizes]
        channels = min(context.channels, CHANNELS)
        self.register_buffer("axes", torch.zeros(context.channels, channels) if channels < context.channels else None)
        self.dictionaries: Iterable[PatchResponses] = nn.ModuleList(  # type: ignore[assignment]
            PatchResponses(
                channels,
                scaled((height, width), scale),
                patch=(side, side),
                centers=centers,
                stride=stride,
                regions=(regions, regions),
                root=root,
                maxima=maxima,
            )
            for scale in scales
            for side in sizes
        )
        self.channel_statistics = channel_statistics
        of_channel = 2 + len(QUANTILES) + self.small[0] * self.small[1]
        self.n_features = sum(each.n_features for each in self.dictionaries)
        self.n_features += channels * of_channel if channel_statistics else 0

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        if self.axes is not None:
            pixels = x.float().cpu().movedim(1, -1).flatten(0, -2)
            self.axes.copy_(channel_axes(pixels[:: -(-len(pixels) // PIXELS)]))
        for each, images in self._reduced(self._principal(x)):
            each.fit(images, generator)

    def _reduced(self, x: Tensor) -> Iterator[tuple[PatchResponses, Tensor]]:
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
class TimmFeatures(NetworkFeatures):
    """The output of a network of timm without its classifier, which gets pixels scaled as it was trained with.

    Wightman (2019), PyTorch image models.

    Parameters
    ----------
    context : PartContext
        Its name is ``timm:NAME``.
    weights : str
        "pretrained": those that timm publishes, downloaded once; a safetensors file with timm's names; or "random". A
        saved model has the weights itself.
    side : int or None
        Sides in pixels to which images are resized; None: they are not. Networks for images of 224 pixels see more in
        small images if these are enlarged.

    Raises
    ------
    InputError
        The network cannot be built, does not take images of this size, or its weights cannot be loaded.
    """

    center: Tensor
    spread: Tensor

    def __init__(
        self, context: PartContext, *, weights: str = "pretrained", side: Annotated[int, Bounds(ge=8)] | None = None
    ) -> None:
        of_encoder = EncoderContext(context.row_shape, context.channels, 0, name=context.name)
        network = timm_encoder(of_encoder).eval()
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
        self.register_buffer("center", mean[:, None, None])
        self.register_buffer("spread", deviation[:, None, None])

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        load_timm_weights(self.network, self.context, self.weights, "weights of features_options")

    def block_size(self, x: Tensor) -> int:
        return 64

    def of_block(self, x: Tensor) -> Tensor:
        layer = self.layer.module
        pixels = x * layer.scale[:, None, None] + layer.center[:, None, None]  # type: ignore[index]
        if self.side is not None:
            pixels = F.interpolate(pixels, (self.side, self.side), mode="bilinear", antialias=True)
        return super().of_block((pixels - self.center) / self.spread).flatten(1)
