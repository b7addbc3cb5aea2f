"""Split AlexNet: half of the channels, one network per view (Zhang et al. 2017; MetAug, appendix B.1)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext, find_stem
from viewsmith.networks.encoders.resnet import check_image_size

_WIDTHS = (48, 128, 192, 192, 128)
#: Smallest side of images by stem.
SMALLEST = {"standard": 63, "small": 8}


class SplitAlexNet(nn.Module):
    """Images (B, C, H, W) of one view to representations (B, n_components), "fc" in the paper.

    Five convolutions with 48, 128, 192, 192 and 128 channels and two fully connected layers of width n_components, each
    with BatchNorm and ReLU. The paper's last layer, to 128 features, is the projection head.

    Parameters
    ----------
    channels : int
        C: 3 for RGB, 1 for L, 2 for ab.
    n_components : int
        2048 in the paper.
    stem : {"standard", "small"}
        "standard": as published, for images of 224 x 224 pixels (at least 63): the first convolution is 11x11 with
        stride 4, poolings are 3x3 with stride 2, the last map is 6x6. "small": 3x3 convolutions without stride and 2x2
        poolings, the last map is 2x2; for images of at least 8 x 8 pixels.

    Raises
    ------
    InputError
        The stem is unknown.
    """

    def __init__(
        self, channels: int = 3, n_components: int = 2048, *, stem: Literal["standard", "small"] = "standard"
    ) -> None:
        super().__init__()
        if stem not in SMALLEST:
            raise InputError(f"stem is {stem!r}, expected standard or small")
        self.n_components, self.smallest, self.stem_width = n_components, SMALLEST[stem], _WIDTHS[0]
        large = stem == "standard"
        pool = (3, 2) if large else (2, 2)
        first, second, third, fourth, fifth = _WIDTHS
        self.conv1 = _convolution(channels, first, *((11, 4, 2) if large else (3, 1, 1)))
        self.conv2 = _convolution(first, second, *((5, 1, 2) if large else (3, 1, 1)))
        self.conv3 = _convolution(second, third, 3, 1, 1)
        self.conv4 = _convolution(third, fourth, 3, 1, 1)
        self.conv5 = _convolution(fourth, fifth, 3, 1, 1)
        self.pool = nn.MaxPool2d(*pool)
        side = 6 if large else 2
        self.resize = nn.AdaptiveAvgPool2d(side)  # the identity for images of 224 pixels
        self.fc6 = _connected(fifth * side**2, n_components)
        self.fc7 = _connected(n_components, n_components)

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first convolution, (B, 48, ...)."""
        small = self.smallest == SMALLEST["small"]
        check_image_size(x, self.smallest, "enlarge them" if small else "enlarge them, or take the stem 'small'")
        h: Tensor = self.conv1(x)
        return h

    def maps(self, x: Tensor) -> Tensor:
        """The last feature map, "conv" in the paper: (B, 128, 6, 6), or (B, 128, 2, 2) with the small stem."""
        h = self.conv2(self.pool(self.stem(x)))
        h = self.conv5(self.conv4(self.conv3(self.pool(h))))
        maps: Tensor = self.resize(self.pool(h))
        return maps

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc7(self.fc6(self.maps(x).flatten(1)))
        return h


def _convolution(n_in: int, n_out: int, kernel: int, stride: int, padding: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, kernel, stride, padding, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)
    )


def _connected(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out), nn.ReLU(inplace=True))


@register(
    "encoder",
    "split-alexnet",
    help="AlexNet with half the channels, for large or small images",
    domains="images",
    source="Zhang et al. 2017",
    default_width=256,
    smallest=SMALLEST["small"],
)
def _split_alexnet(context: EncoderContext, *, stem: Literal["auto", "small", "standard"] = "auto") -> SplitAlexNet:
    return SplitAlexNet(context.channels, context.n_components, stem=find_stem(stem, context.row_shape))
