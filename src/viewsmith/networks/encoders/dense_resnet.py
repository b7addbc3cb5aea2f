"""A ResNet-18 without padding, with a small receptive field: one pass over an image encodes all of its crops.

As in BagNet (Brendel and Bethge 2019, arXiv:1904.00760) only the first convolution of a stage is 3x3, the others are
1x1. With 3x3 convolutions everywhere the smallest crop would have 85 pixels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.encoders.resnet import check_image_size
from viewsmith.networks.inputs.pixels import channels_last

Stem = Literal["small", "standard"]
#: Kernel size and stride of the first layer.
STEMS: dict[Stem, tuple[int, int]] = {"small": (3, 1), "standard": (7, 2)}
#: Width and stride of the stages; the last has no stride, for a finer grid of crops.
STAGES = ((64, 1), (128, 2), (256, 2), (512, 1))


def receptive_field(layers: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Receptive field and total stride, in pixels, of convolutions without padding, given as (kernel size, stride)."""
    field, total = 1, 1
    for kernel, stride in layers:
        field, total = field + (kernel - 1) * total, total * stride
    return field, total


class ValidBlock(nn.Module):
    """A 3x3 (or 1x1) and a 1x1 convolution without padding, with a shortcut from the center of the first kernel."""

    def __init__(self, n_in: int, width: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.margin, self.stride = kernel // 2, stride
        self.conv1 = nn.Conv2d(n_in, width, kernel, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        same = n_in == width and stride == 1
        self.downsample = None if same else nn.Sequential(nn.Conv2d(n_in, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        height, width = h.shape[2:]
        center = x[..., self.margin :: self.stride, self.margin :: self.stride][..., :height, :width]
        return F.relu(h + (center if self.downsample is None else self.downsample(center)))


class DenseResNet18(nn.Module):
    """Images (B, C, H, W) to representations (B, 512), the mean over their smallest crops.

    17 convolutions in four stages of two blocks, as in ResNet-18 (He et al. 2016), without padding, so that the
    representation of a crop does not depend on its surroundings: the representations of all crops of an image come from
    one pass (`dense`). BatchNorm must be in eval mode for that.

    Parameters
    ----------
    channels : int
        C: 1 or 3.
    stem : {"small", "standard"}
        First layer. "small": 3x3. "standard": 7x7 with stride 2, for larger crops, in a quarter of the time.
    zero_init : bool
        Initialize the last norm of each block with 0, so that every block starts as the identity.

    Attributes
    ----------
    crop, stride : int
        Side of the smallest crop, and spacing of corners, in pixels: 19 and 4 (small stem), 39 and 8 (standard). A
        larger crop is represented by the mean over its smallest crops.
    n_components : int
        512.

    Raises
    ------
    InputError
        Unknown `stem`.
    """

    n_components = 512

    def __init__(self, channels: int = 3, stem: Stem = "small", *, zero_init: bool = True) -> None:
        super().__init__()
        if stem not in STEMS:
            raise InputError(f"stem is {stem!r}, expected 'small' or 'standard'")
        kernel, stride = STEMS[stem]
        self.crop, self.stride = receptive_field([STEMS[stem], *((3, stride) for _, stride in STAGES)])
        width = STAGES[0][0]
        self.conv1 = nn.Conv2d(channels, width, kernel, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        blocks: list[nn.Module] = []
        for n_out, stride in STAGES:
            blocks += [ValidBlock(width, n_out, 3, stride), ValidBlock(n_out, n_out, 1, 1)]
            width = n_out
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if zero_init and isinstance(module, ValidBlock):
                nn.init.zeros_(module.bn2.weight)

    def dense(self, x: Tensor) -> Tensor:
        """Representations of all crops of side `crop` with corners at multiples of `stride`: (B, 512, rows, columns).

        Raises
        ------
        InputError
            The images are smaller than a crop.
        """
        check_image_size(x, self.crop, "enlarge them, or take larger crops (crop_size)")
        maps: Tensor = self.blocks(F.relu(self.bn1(self.conv1(channels_last(x)))))
        return maps

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x).mean(dim=(2, 3))


@register(
    "encoder",
    "resnet18-dense",
    help="ResNet-18 without padding, which encodes all crops of CRL-TAC in one pass",
    domains="images",
    source="He et al. 2016; Brendel and Bethge 2019",
    width=512,
    smallest=19,
)
def _dense_resnet18(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> DenseResNet18:
    return DenseResNet18(context.channels, "standard" if stem == "standard" else "small")
