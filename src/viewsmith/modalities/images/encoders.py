"""Encoders of images: residual networks, a network that encodes all crops of an image in one pass, and those of timm.

The residual networks (He et al. 2016, arXiv:1512.03385) have torchvision's parameter names, without the classifier. The
one for crops is a ResNet-18 without padding, with a small receptive field: as in BagNet (Brendel and Bethge 2019,
arXiv:1904.00760) only the first convolution of a stage is 3x3, the others are 1x1. With 3x3 convolutions everywhere the
smallest crop would have 85 pixels.
"""

import contextlib
import importlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, MissingExtra, check_choice
from viewsmith.core.registry import Bounds, register
from viewsmith.core.tensors import count_batches, load_published, read_published
from viewsmith.networks.base import EncoderContext, find_stem
from viewsmith.networks.scaling import SkipCoordinates, SkipKinds, WithSkip, learned_columns

Stem = Literal["small", "standard"]
Norm = Callable[[int], nn.Module]
SMALLEST = 8


def channels_last(x: Tensor) -> Tensor:
    """Images (B, C, H, W) in channels-last memory format, in which convolutions are faster on CPUs and tensor cores."""
    # clone, because one-channel images count as both formats, so that Tensor.to would not change their strides.
    return x.clone(memory_format=torch.channels_last)


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
        C.
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
        check_choice("stem", stem, Stem)
        self.stem_width = width = 64
        small = stem == "small"
        self.conv1 = nn.Conv2d(channels, width, *((3, 1, 1) if small else (7, 2, 3)), bias=False)
        self.bn1 = norm(width)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        expansion = block.expansion
        self.layer1 = _stage(block, width, 64, depths[0], 1, norm)
        self.layer2 = _stage(block, 64 * expansion, 128, depths[1], 2, norm)
        self.layer3 = _stage(block, 128 * expansion, 256, depths[2], 2, norm)
        self.layer4 = _stage(block, 256 * expansion, 512, depths[3], 2, norm)
        self.n_components = 512 * expansion
        _initialize(self, zero_init)

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first layer, (B, 64, H, W), or (B, 64, H / 2, W / 2) rounded up for the standard stem."""
        check_image_size(x, SMALLEST)
        return F.relu(self.bn1(self.conv1(x)))

    def stages(self, x: Tensor) -> Tensor:
        """Activations of the last stage, (B, n_components, H / 8, W / 8), or H / 32, W / 32 for the standard stem."""
        h = self.maxpool(self.stem(channels_last(x)))
        h = self.layer2(self.layer1(h))
        return self.layer4(self.layer3(h))

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x).mean(dim=(2, 3))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], n_in: int, width: int, depth: int, stride: int, norm: Norm
) -> nn.Sequential:
    later = (block(width * block.expansion, width, 1, norm) for _ in range(depth - 1))
    return nn.Sequential(block(n_in, width, stride, norm), *later)


def resnet18(channels: int = 3, stem: Stem = "small", *, zero_init: bool = True) -> ResNet:
    """ResNet-18: 512 components, 11.2 million weights; parameters as in `ResNet`."""
    return ResNet(BasicBlock, (2, 2, 2, 2), channels=channels, stem=stem, zero_init=zero_init)


def resnet50(channels: int = 3, stem: Stem = "small", *, zero_init: bool = True) -> ResNet:
    """ResNet-50: 2048 components, 23.5 million weights; parameters as in `ResNet`."""
    return ResNet(Bottleneck, (3, 4, 6, 3), channels=channels, stem=stem, zero_init=zero_init)


def _register_resnet(build: Callable[..., ResNet], depth: int, width: int) -> None:
    @register(
        "encoder",
        f"resnet{depth}",
        help=f"ResNet-{depth}, with a 3x3 stem for small images",
        modalities="images",
        source="He et al. 2016",
        width=width,
        smallest=SMALLEST,
        published=True,
        first_stage=True,
    )
    def encoder(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNet:
        return build(context.channels, stem=find_stem(stem, context.row_shape))


_register_resnet(resnet18, 18, 512)
_register_resnet(resnet50, 50, 2048)


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


def _initialize(network: nn.Module, zero_init: bool) -> None:
    """Draw the weights of convolutions (He et al. 2015), and set the last norm of each block to 0 with `zero_init`."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if zero_init and isinstance(module, BasicBlock | Bottleneck | ValidBlock):
            last: Any = module.bn3 if isinstance(module, Bottleneck) else module.bn2
            nn.init.zeros_(last.weight)


class DenseResNet18(nn.Module):
    """Images (B, C, H, W) to representations (B, 512), the mean over their smallest crops.

    17 convolutions in four stages of two blocks, as in ResNet-18 (He et al. 2016), without padding, so that the
    representation of a crop does not depend on its surroundings: the representations of all crops of an image come from
    one pass (`dense`). BatchNorm must be in eval mode for that.

    A larger crop is represented by the mean over its smallest crops, of 19 pixels with a spacing of 4 (small stem), or
    39 and 8 (standard).
    """

    n_components = 512

    def __init__(self, channels: int = 3, stem: Stem = "small", *, zero_init: bool = True) -> None:
        super().__init__()
        check_choice("stem", stem, Stem)
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
        _initialize(self, zero_init)

    def dense(self, x: Tensor) -> Tensor:
        """Representations of all crops of side `crop` with corners at multiples of `stride`: (B, 512, rows, cols)."""
        check_image_size(x, self.crop, "enlarge them, or take larger crops (crop_size)")
        return self.blocks(F.relu(self.bn1(self.conv1(channels_last(x)))))

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
    count_batches(network)


def load_timm_weights(network: nn.Module, context: EncoderContext, weights: str, option: str) -> None:
    """Load weights of a network of timm: "pretrained", those that timm publishes; "random", the initial ones; or those
    of a safetensors file, given as `option`."""
    if weights == "random":
        return
    if weights == "pretrained":
        load_pretrained(network, context)
        return
    target = f"the network {context.name}"
    load_published(network, read_published(Path(weights), option, target), f"{weights} ({option})", target)


def timm_scaling(network: nn.Module, channels: int) -> tuple[Tensor, Tensor]:
    """Mean and deviation of pixels in 0 to 1 by which a network of timm scales its input, (channels,) each."""
    published = getattr(network, "pretrained_cfg", None) or {}
    mean, deviation = (_by_channel(published.get(key, default), channels) for key, default in (("mean", 0), ("std", 1)))
    return mean, deviation


def _by_channel(value: Any, channels: int) -> Tensor:
    """A number or three of them for each channel of an image, (channels,)."""
    numbers = torch.as_tensor(value, dtype=torch.float32).reshape(-1)
    return numbers if len(numbers) == channels else numbers.mean().expand(channels).clone()


#: Options of transformers of timm, which otherwise take images of one size; other networks have neither.
ANY_SIZE: tuple[dict[str, bool], ...] = ({"dynamic_img_size": True}, {"strict_img_size": False, "dynamic_mask": True})


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
    make: Any = partial(timm.create_model, name.removeprefix("timm:"), num_classes=0, in_chans=context.channels)
    try:
        for options in ANY_SIZE:
            with contextlib.suppress(TypeError):  # of a network that does not have them
                return make(**options)
        return make()
    except RuntimeError as error:
        raise InputError(f"timm has no encoder {name.removeprefix('timm:')!r}: see timm.list_models()") from error


# Coordinates that are not learned are of means of pixels: sides of images are reduced to at most so many.
POOLED_SIDE = 16


class SmallCNN(nn.Module):
    """Images (B, C, H, W), H and W at least 8, to representations (B, n_components); designed for one CPU core.

    Convolution - BatchNorm - ReLU, each with stride 2, the first with kernel size 4, the others 3; then the mean over
    the map and Linear - BatchNorm - ReLU.
    """

    def __init__(
        self, channels: int = 3, n_components: int = 256, *, widths: Sequence[int] = (32, 64, 128, 256)
    ) -> None:
        super().__init__()
        if not widths:
            raise InputError("widths is empty, expected the channels of at least one convolution")
        self.n_components, self.stem_width = n_components, widths[0]
        self.stages = nn.ModuleList(
            convolution(n_in, n_out, 4 if depth == 0 else 3, 2, 1)
            for depth, (n_in, n_out) in enumerate(itertools.pairwise([channels, *widths]))
        )
        self.project = nn.Linear(widths[-1], n_components, bias=False)
        self.norm = nn.BatchNorm1d(n_components)

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first convolution, (B, widths[0], H / 2, W / 2), rounded down."""
        check_image_size(x, SMALLEST)
        return self.stages[0](x)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(channels_last(x))
        for stage in self.stages[1:]:
            h = stage(h)
        return F.relu(self.norm(self.project(h.mean(dim=(2, 3)))))


def convolution(n_in: int, n_out: int, kernel: int, stride: int, padding: int) -> nn.Sequential:
    """A convolution without bias, BatchNorm and ReLU."""
    layer = nn.Conv2d(n_in, n_out, kernel, stride, padding, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


class CropCNN(nn.Module):
    """The encoder f of CRL-TAC (Koyama et al. 2021, section 5.3): three convolutions, 200 outputs, for 20x20 crops.

    The paper gives kernels and widths only in a figure; this class has its own. The network has no padding and a total
    stride of 4, the spacing of the paper's crop corners. So one pass over an image gives the representations of all its
    crops (`dense`). The strides come from max-pooling: with strided convolutions the projections of digits contain much
    less information about the class.

    Without `bias` the representation of an empty crop (all zeros) is zero.
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
        """Representations of all crops with corners at multiples of 4: (B, n_components, rows, columns)."""
        check_image_size(x, self.crop)
        return self.conv3(F.relu(F.max_pool2d(self.conv2(self.stem(x)), 2)))

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
    appended_length: Annotated[float, Bounds(gt=0)] = 6.0,
) -> nn.Module:
    """Build the small network; with `appended_pca`, further columns are principal coordinates of pooled pixels."""
    height, width = context.row_shape[:2]
    size = -(-height // POOLED_SIDE), -(-width // POOLED_SIDE)
    sides = height // size[0], width // size[1]
    pixels = context.channels * sides[0] * sides[1]
    pool = partial(pool_pixels, size=size, sides=sides)
    skip = SkipKinds(SkipCoordinates(pixels, min(pixels, appended_pca), length=appended_length, features=pool))
    learned = SmallCNN(context.channels, learned_columns(context.n_components, skip.n_components, appended_pca))
    return WithSkip(learned, skip) if skip.n_components else learned


def pool_pixels(x: Tensor, *, size: tuple[int, int], sides: tuple[int, int]) -> Tensor:
    """Means of pixels over blocks, (B, C, H, W) to (B, C * sides[0] * sides[1]); images of other sizes are resized."""
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
