"""Networks of the noise generator, which map images (B, C, H, W) or DNA (B, 4, L) to unconstrained maps.

All return (B, outputs, ...) with the spatial size of the sample, and end in a layer `last` with a bias. None has
BatchNorm, because the noise of a view would then depend on the other samples of the batch.
"""

import itertools
from collections.abc import Callable
from types import MethodType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.modalities.images.encoders import SMALLEST, BasicBlock, Bottleneck, ResNet, Stem
from viewsmith.networks.base import MLP, NoiseContext, enlarged, eval_mode, find_stem


def _block(n_in: int, n_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.GroupNorm(8, n_out), nn.ReLU(inplace=True)
    )


class LowResolutionMap(nn.Module):
    """A map computed at a quarter of the resolution and enlarged; about a hundredth of the work of a ResNet-18."""

    def __init__(self, channels: int, outputs: int | None = None, *, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(channels, width, 2), _block(width, 2 * width, 2))
        self.last = nn.Conv2d(2 * width, channels if outputs is None else outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return enlarged(self.last(self.body(x)), x.shape[2:])


class UNet(nn.Module):
    """A small U-Net for maps at full resolution (Ronneberger et al. 2015, arXiv:1505.04597)."""

    def __init__(self, channels: int, outputs: int | None = None, *, width: int = 16) -> None:
        super().__init__()
        self.down1 = _block(channels, width)
        self.down2 = nn.Sequential(_block(width, 2 * width, 2), _block(2 * width, 2 * width))
        self.down3 = nn.Sequential(_block(2 * width, 4 * width, 2), _block(4 * width, 4 * width))
        self.up2 = _block(6 * width, 2 * width)
        self.up1 = _block(3 * width, width)
        self.last = nn.Conv2d(width, channels if outputs is None else outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        full = self.down1(x)
        half = self.down2(full)
        h = self.down3(half)
        h = self.up2(torch.cat([half, enlarged(h, half.shape[2:])], dim=1))
        h = self.up1(torch.cat([full, enlarged(h, full.shape[2:])], dim=1))
        raw: Tensor = self.last(h)
        return raw


class ResNetMap(nn.Module):
    """A ResNet, as published, and a decoder, which is not published; here each of its stages doubles the map size."""

    def __init__(
        self, channels: int, outputs: int | None = None, *, stem: Stem = "small", depth: Literal[18, 50] = 18
    ) -> None:
        super().__init__()
        block, numbers = (BasicBlock, (2, 2, 2, 2)) if depth == 18 else (Bottleneck, (3, 4, 6, 3))
        self.trunk = ResNet(block, numbers, channels=channels, stem=stem, norm=lambda n: nn.GroupNorm(32, n))
        widths = [self.trunk.n_components, 128, 64, 32]
        self.decoder = nn.ModuleList(_block(n_in, n_out) for n_in, n_out in itertools.pairwise(widths))
        self.last = nn.Conv2d(widths[-1], channels if outputs is None else outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.trunk.stages(x)
        for block in self.decoder:
            h = block(enlarged(h, [min(2 * n, most) for n, most in zip(h.shape[2:], x.shape[2:], strict=True)]))
        return enlarged(self.last(h), x.shape[2:])


class SharedTrunkMap(nn.Module):
    """A small head on the first layer of the encoder (future work of PiNDA, section 5).

    Two convolutions, the second 1x1. The BatchNorms of the encoder use their running statistics here without updating
    them. The encoder is not a submodule: its weights are not saved here.

    `stem` is a bound method of the encoder, (B, C, H, W) to (B, stem_width, H', W'); with `detach` the gradient from
    the noise to the encoder stops.
    """

    def __init__(
        self,
        stem: Callable[[Tensor], Tensor],
        stem_width: int,
        outputs: int,
        *,
        dims: int = 2,
        detach: bool = True,
        width: int = 32,
    ) -> None:
        super().__init__()
        # copy.deepcopy of a model binds a method of the encoder to the copied encoder, but not other functions.
        if not (isinstance(stem, MethodType) and isinstance(stem.__self__, nn.Module)):
            raise InputError(f"stem is {stem!r}, expected a method of the encoder, as in encoder.stem")
        convolution = nn.Conv1d if dims == 1 else nn.Conv2d
        self.stem: MethodType = stem
        self.detach = detach
        self.head = nn.Sequential(convolution(stem_width, width, 3, padding=1), nn.ReLU(inplace=True))
        self.last = convolution(width, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        learns = torch.is_grad_enabled() and not self.detach
        encoder: Any = self.stem.__self__
        norms = (part for part in encoder.modules() if isinstance(part, _BatchNorm))
        with torch.set_grad_enabled(learns), eval_mode(*norms):
            h = self.stem(x)
        return enlarged(self.last(self.head(h)), x.shape[2:])


class SequenceMap(nn.Module):
    """Three convolutions along letters, (B, C, L) to (B, outputs, L); no output depends on padding."""

    def __init__(self, outputs: int = 4, *, width: int = 32, kernel: int = 9, channels: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv1d(channels, width, kernel, padding=kernel // 2)
        self.second = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.last = nn.Conv1d(width, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x)) * real_positions(x)[:, None]
        raw: Tensor = self.last(F.relu(self.second(h)))
        return raw


@register("noise generator", "mlp", help="fully connected layers", modalities="vectors", default=True)
def _mlp(context: NoiseContext, *, generator_hidden: tuple[int, ...] = (64,)) -> MLP:
    return MLP(context.channels, [*generator_hidden, context.outputs])


@register("noise generator", "low-resolution", help="a small map, enlarged", modalities="images", default=True)
def _low_resolution(context: NoiseContext) -> LowResolutionMap:
    return LowResolutionMap(context.channels, context.outputs)


@register("noise generator", "unet", help="a small U-Net", modalities="images")
def _unet(context: NoiseContext) -> UNet:
    return UNet(context.channels, context.outputs)


@register(
    "noise generator", "resnet18", help="the trunk of a ResNet-18, as published", modalities="images", smallest=SMALLEST
)
def _resnet18(context: NoiseContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNetMap:
    return ResNetMap(context.channels, context.outputs, stem=find_stem(stem, context.row_shape))


@register(
    "noise generator", "resnet50", help="the trunk of a ResNet-50, as published", modalities="images", smallest=SMALLEST
)
def _resnet50(context: NoiseContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> ResNetMap:
    return ResNetMap(context.channels, context.outputs, stem=find_stem(stem, context.row_shape), depth=50)


@register(
    "noise generator",
    "sequence",
    help="convolutions over the letters",
    modalities=("dna", "proteins", "letters:"),
    default=True,
)
def _sequence(context: NoiseContext) -> SequenceMap:
    return SequenceMap(context.outputs, channels=context.channels)


@register(
    "noise generator",
    "shared",
    help="a small head on the encoder's first layer",
    modalities=("images", "dna", "proteins", "letters:"),
    needs_first_stage=True,
)
def _shared(context: NoiseContext) -> SharedTrunkMap:
    trunk: Any = context.encoder
    return SharedTrunkMap(trunk.stem, trunk.stem_width, context.outputs, dims=len(context.row_shape[:2]))
