"""Small convolutional encoders for images."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.images.encoders import check_image_size
from viewsmith.modalities.images.pixels import channels_last
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.scaling import SkipCoordinates, SkipKinds, WithSkip, learned_columns

SMALLEST = 8

# Coordinates that are not learned are of means of pixels: sides of images are reduced to at most so many.
POOLED_SIDE = 16


class SmallCNN(nn.Module):
    """Images (B, C, H, W), H and W at least 8, to representations (B, n_components); designed for one CPU core.

    Convolution - BatchNorm - ReLU, each with stride 2, the first with kernel size 4, the others 3; then the mean over
    the map and Linear - BatchNorm - ReLU.

    Parameters
    ----------
    channels : int
        C: 1 or 3.
    n_components : int
        Width of the representation.
    widths : sequence of int
        Channels of each convolution.

    Attributes
    ----------
    stem_width : int
        Channels of `stem`.

    Raises
    ------
    InputError
        `widths` is empty.
    """

    def __init__(
        self, channels: int = 3, n_components: int = 256, *, widths: Sequence[int] = (32, 64, 128, 256)
    ) -> None:
        super().__init__()
        if not widths:
            raise InputError("widths is empty, expected the channels of at least one convolution")
        self.n_components, self.stem_width = n_components, widths[0]
        self.stages = nn.ModuleList(
            _stage(n_in, n_out, 4 if depth == 0 else 3)
            for depth, (n_in, n_out) in enumerate(itertools.pairwise([channels, *widths]))
        )
        self.project = nn.Linear(widths[-1], n_components, bias=False)
        self.norm = nn.BatchNorm1d(n_components)

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first convolution, (B, widths[0], H / 2, W / 2), rounded down."""
        check_image_size(x, SMALLEST)
        stem: Tensor = self.stages[0](x)
        return stem

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(channels_last(x))
        for stage in self.stages[1:]:
            h = stage(h)
        return F.relu(self.norm(self.project(h.mean(dim=(2, 3)))))


def _stage(n_in: int, n_out: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(n_in, n_out, kernel, 2, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


class CropCNN(nn.Module):
    """The encoder f of CRL-TAC (Koyama et al. 2021, section 5.3): three convolutions, 200 outputs, for 20x20 crops.

    The paper gives kernels and widths only in a figure; this class has its own. The network has no padding and a total
    stride of 4, the spacing of the paper's crop corners. So one pass over an image gives the representations of all its
    crops (`dense`). The strides come from max-pooling: with strided convolutions the projections of digits
    contain much less information about the class.

    Parameters
    ----------
    channels : int
        C: 1 or 3.
    n_components : int
        Width of the representation.
    bias : bool
        Whether convolutions have biases. Without them the representation of an empty crop (all zeros) is zero.

    Attributes
    ----------
    crop, stride : int
        Size of a crop and spacing of the corners, in pixels.
    stem_width : int
        Channels of `stem`.
    """

    crop, stride = 20, 4

    def __init__(self, channels: int = 1, n_components: int = 200, *, bias: bool = True) -> None:
        super().__init__()
        self.n_components, self.stem_width = n_components, 16
        self.conv1 = nn.Conv2d(channels, 16, 5, bias=bias)
        self.conv2 = nn.Conv2d(16, 64, 3, bias=bias)
        self.conv3 = nn.Conv2d(64, n_components, 3, bias=bias)

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first convolution, pooled: (B, 16, H / 2 - 2, W / 2 - 2), rounded down."""
        # Max-pooling before ReLU gives the same values as after it, with a quarter of the work.
        return F.relu(F.max_pool2d(self.conv1(channels_last(x)), 2))

    def dense(self, x: Tensor) -> Tensor:
        """Representations of all crops with corners at multiples of 4: (B, n_components, rows, columns).

        Raises
        ------
        InputError
            The images are smaller than a crop.
        """
        check_image_size(x, self.crop)
        maps: Tensor = self.conv3(F.relu(F.max_pool2d(self.conv2(self.stem(x)), 2)))
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, n_components) of crops (B, C, 20, 20); for larger images the mean over their crops."""
        return self.dense(x).mean(dim=(2, 3))


@register(
    "encoder",
    "cnn",
    help="a small convolutional network for CPUs",
    modalities="images",
    default_width=256,
    smallest=SMALLEST,
    first_stage=True,
    default_skip=64,
)
def _small_cnn(
    context: EncoderContext,
    *,
    appended_pca: Annotated[int, Bounds(ge=0)] = 0,
    skip_length: Annotated[float, Bounds(gt=0)] = 6.0,
) -> nn.Module:
    """Build the small network; with `appended_pca`, further columns are principal coordinates of pooled pixels."""
    height, width = context.row_shape[:2]
    size = -(-height // POOLED_SIDE), -(-width // POOLED_SIDE)
    sides = height // size[0], width // size[1]
    pixels = context.channels * sides[0] * sides[1]
    pool = partial(pool_pixels, size=size, sides=sides)
    skip = SkipKinds(SkipCoordinates(pixels, min(pixels, appended_pca), length=skip_length, features=pool))
    learned = SmallCNN(context.channels, learned_columns(context.n_components, skip.n_components, appended_pca))
    return WithSkip(learned, skip) if skip.n_components else learned


def pool_pixels(x: Tensor, *, size: tuple[int, int], sides: tuple[int, int]) -> Tensor:
    """Means of pixels over blocks of a size, (B, C, H, W) to (B, C * sides[0] * sides[1]).

    Images of other sizes, such as crops, are resized.
    """
    pooled = F.avg_pool2d(x, size)
    return (pooled if pooled.shape[2:] == sides else F.interpolate(x, sides)).flatten(1)


@register(
    "encoder",
    "crl-cnn",
    help="the small network of CRL-TAC",
    modalities="images",
    source="Koyama et al. 2021",
    default_width=200,
    smallest=CropCNN.crop,
    first_stage=True,
)
def _crop_cnn(context: EncoderContext) -> CropCNN:
    return CropCNN(context.channels, context.n_components, bias=context.bias)
