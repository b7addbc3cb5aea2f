"""Encoders of images: residual networks, a network that encodes all crops of an image in one pass, and those of timm.

The residual networks (He et al. 2016, arXiv:1512.03385) have torchvision's parameter names, without the classifier. The
one for crops is a ResNet-18 without padding, with a small receptive field: as in BagNet (Brendel and Bethge 2019,
arXiv:1904.00760) only the first convolution of a stage is 3x3, the others are 1x1. With 3x3 convolutions everywhere the
smallest crop would have 85 pixels.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.registry import register
from viewsmith.modalities.images.pixels import channels_last
from viewsmith.networks.base import EncoderContext, find_stem

Stem = Literal["small", "standard"]

Norm = Callable[[int], nn.Module]

SMALLEST = 8


def check_image_size(x: Tensor, smallest: int, todo: str = "enlarge them") -> None:
    """Check that images (B, C, H, W) have at least `smallest` x `smallest` pixels; `todo` ends the error message."""
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
    modalities="images",
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
    modalities="images",
    source="He et al. 2016",
    width=2048,
    smallest=SMALLEST,
    published=True,
    first_stage=True,
)
def _resnet50(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNet:
    return resnet50(context.channels, stem=find_stem(stem, context.row_shape))


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
    modalities="images",
    source="He et al. 2016; Brendel and Bethge 2019",
    width=512,
    smallest=19,
)
def _dense_resnet18(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> DenseResNet18:
    return DenseResNet18(context.channels, "standard" if stem == "standard" else "small")


def load_pretrained(network: nn.Module, context: EncoderContext) -> None:
    """Load timm's published weights, from its cache or by a download; the first layer is adapted to the channels."""
    builder = importlib.import_module("timm.models._builder")
    try:
        builder.load_pretrained(network, num_classes=0, in_chans=context.channels)
    except Exception as error:  # timm, its hub and urllib raise many kinds
        raise InputError(
            f"timm cannot load pretrained weights of {context.name.removeprefix('timm:')!r} "
            f"({' '.join(str(error).split())[:200]}): see timm.list_pretrained(), or give a safetensors file"
        ) from error


@register(
    "encoder", "timm:", help="any network of timm (extra timm)", modalities="images", load_pretrained=load_pretrained
)
def timm_encoder(context: EncoderContext) -> nn.Module:
    """Build the encoder ``timm:NAME``: the network NAME of timm, without its classifier."""
    name = context.name
    try:
        timm: Any = importlib.import_module("timm")
    except ImportError as error:
        raise MissingExtra("timm", "timm", f"the encoder {name!r}") from error
    except RuntimeError as error:  # raised by torchvision, which timm needs, if it was built for another torch
        raise InputError(f"timm cannot be imported ({error}): install the torchvision of this torch") from error
    try:
        network: nn.Module = timm.create_model(name.removeprefix("timm:"), num_classes=0, in_chans=context.channels)
    except RuntimeError as error:
        raise InputError(f"timm has no encoder {name.removeprefix('timm:')!r}: see timm.list_models()") from error
    return network
