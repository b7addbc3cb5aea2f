"""Residual networks (He et al. 2016, arXiv:1512.03385) with torchvision's parameter names, without the classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext, find_stem
from viewsmith.networks.inputs.pixels import channels_last

Stem = Literal["small", "standard"]
Norm = Callable[[int], nn.Module]
SMALLEST = 8


def check_image_size(x: Tensor, smallest: int, todo: str = "enlarge them") -> None:
    """Check that images (B, C, H, W) have at least `smallest` x `smallest` pixels; `todo` ends the error message.

    Raises
    ------
    InputError
        They are smaller.
    """
    height, width = x.shape[2:]
    if min(height, width) < smallest:
        least = f"{smallest} x {smallest}"
        raise InputError(f"images are {height} x {width} pixels, expected at least {least}: {todo}")


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut (figure 5, left)."""

    expansion = 1

    def __init__(self, n_in: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.downsample = _shortcut(n_in, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 convolutions, with a shortcut (figure 5, right); the 3x3 has the stride."""

    expansion = 4

    def __init__(self, n_in: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, width, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = norm(4 * width)
        self.downsample = _shortcut(n_in, 4 * width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(self.conv1(x)))
        h = F.relu(self.bn2(self.conv2(h)))
        h = self.bn3(self.conv3(h))
        return F.relu(h + (x if self.downsample is None else self.downsample(x)))


def _shortcut(n_in: int, n_out: int, stride: int, norm: Norm) -> nn.Module | None:
    if stride == 1 and n_in == n_out:
        return None
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), norm(n_out))


class ResNet(nn.Module):
    """Images (B, C, H, W), H and W at least 8, to representations (B, n_components): the mean of the last stage.

    Parameters
    ----------
    block : {BasicBlock, Bottleneck}
    depths : sequence of 4 int
        Blocks in each stage, whose widths are 64, 128, 256 and 512, times the block's expansion.
    channels : int
        C: 1 or 3.
    stem : {"small", "standard"}
        First layer. "small": 3x3, no stride, no pooling, for images up to about 64 pixels. "standard": 7x7 with
        stride 2, then 3x3 max-pooling with stride 2.
    zero_init : bool
        Initialize the last norm of each block with 0, so that every block starts as the identity (Goyal et al. 2017,
        arXiv:1706.02677, section 5.1), which helps with large learning rates and batches.
    norm : callable
        Returns the normalization layer for a number of channels.

    Attributes
    ----------
    n_components : int
        512 for basic blocks, 2048 for bottlenecks.
    stem_width : int
        Channels of `stem`.

    Raises
    ------
    InputError
        Unknown `stem`.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        *,
        channels: int = 3,
        stem: Stem = "small",
        zero_init: bool = True,
        norm: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if stem not in ("small", "standard"):
            raise InputError(f"stem is {stem!r}, expected 'small' or 'standard'")
        self.stem_width = width = 64
        small = stem == "small"
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False) if small else _standard_stem(channels, width)
        self.bn1 = norm(width)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        expansion = block.expansion
        self.layer1 = _stage(block, width, 64, depths[0], 1, norm)
        self.layer2 = _stage(block, 64 * expansion, 128, depths[1], 2, norm)
        self.layer3 = _stage(block, 128 * expansion, 256, depths[2], 2, norm)
        self.layer4 = _stage(block, 256 * expansion, 512, depths[3], 2, norm)
        self.n_components = 512 * expansion
        self._initialize(zero_init)

    def _initialize(self, zero_init: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if zero_init and isinstance(module, BasicBlock | Bottleneck):
                last = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                assert isinstance(last.weight, nn.Parameter)
                nn.init.zeros_(last.weight)

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first layer, (B, 64, H, W), or (B, 64, H / 2, W / 2) rounded up for the standard stem."""
        check_image_size(x, SMALLEST)
        return F.relu(self.bn1(self.conv1(x)))

    def stages(self, x: Tensor) -> Tensor:
        """Activations of the last stage, (B, n_components, H / 8, W / 8), or H / 32, W / 32 for the standard stem."""
        h = self.maxpool(self.stem(channels_last(x)))
        h = self.layer2(self.layer1(h))
        last: Tensor = self.layer4(self.layer3(h))
        return last

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x).mean(dim=(2, 3))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], n_in: int, width: int, depth: int, stride: int, norm: Norm
) -> nn.Sequential:
    later = (block(width * block.expansion, width, 1, norm) for _ in range(depth - 1))
    return nn.Sequential(block(n_in, width, stride, norm), *later)


def _standard_stem(channels: int, width: int) -> nn.Conv2d:
    return nn.Conv2d(channels, width, 7, 2, 3, bias=False)


def resnet18(channels: int = 3, stem: Stem = "small", *, zero_init: bool = True) -> ResNet:
    """ResNet-18: 512 components, 11.2 million weights; parameters as in `ResNet`."""
    return ResNet(BasicBlock, (2, 2, 2, 2), channels=channels, stem=stem, zero_init=zero_init)


def resnet50(channels: int = 3, stem: Stem = "small", *, zero_init: bool = True) -> ResNet:
    """ResNet-50: 2048 components, 23.5 million weights; parameters as in `ResNet`."""
    return ResNet(Bottleneck, (3, 4, 6, 3), channels=channels, stem=stem, zero_init=zero_init)


@register(
    "encoder",
    "resnet18",
    help="ResNet-18, with a 3x3 stem for small images",
    domains="images",
    source="He et al. 2016",
    width=512,
    smallest=SMALLEST,
    published=True,
    first_stage=True,
)
def _resnet18(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNet:
    return resnet18(context.channels, stem=find_stem(stem, context.row_shape))


@register(
    "encoder",
    "resnet50",
    help="ResNet-50, with a 3x3 stem for small images",
    domains="images",
    source="He et al. 2016",
    width=2048,
    smallest=SMALLEST,
    published=True,
    first_stage=True,
)
def _resnet50(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNet:
    return resnet50(context.channels, stem=find_stem(stem, context.row_shape))
