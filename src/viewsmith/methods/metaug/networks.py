"""Networks of MetAug: views of colors, split AlexNet (Zhang et al. 2017; appendix B.1), and generators of features."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import register
from viewsmith.losses.nt_xent import unit
from viewsmith.modalities.images.encoders import check_image_size, convolution
from viewsmith.networks.base import MLP, EncoderContext, find_stem

# sRGB to XYZ under D65 (IEC 61966-2-1); the white point has R = G = B = 1.
_TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))

# Center and spread of L, a and b over photographs, from the code of MetAug's authors.
_CENTER, _SPREAD = (50.0, 6.025, -6.6895), (50.0, 92.208, 101.1675)

# R'G'B' to Y, Db, Dr (ITU-R BT.470-6, SECAM), and the middle and half of their ranges.
_TO_YDBDR = ((0.299, 0.587, 0.114), (-0.450, -0.883, 1.333), (-1.333, 1.116, 0.217))
_YDBDR_CENTER, _YDBDR_SPREAD = (0.5, 0.0, 0.0), (0.5, 1.333, 1.333)


def rgb_to_lab(x: Tensor) -> Tensor:
    """CIE 1976 L, a, b (0 to 100, -86.2 to 98.3, -107.9 to 94.5) of sRGB pixels (B, 3, H, W) from 0 to 1 under D65."""
    x = x.clamp(0, 1)
    linear = torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    matrix = torch.tensor(_TO_XYZ, dtype=x.dtype, device=x.device)
    relative = torch.einsum("ij,bjhw->bihw", matrix / matrix.sum(1, keepdim=True), linear)
    # The derivative of the cube root is infinite at 0, where the definition is linear.
    dark = relative <= (6 / 29) ** 3
    root = torch.where(dark, 1.0, relative) ** (1 / 3)
    f = torch.where(dark, relative * (29 / 6) ** 2 / 3 + 4 / 29, root)
    fx, fy, fz = f.unbind(1)
    return torch.stack([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)], dim=1)


def rgb_to_ydbdr(x: Tensor) -> Tensor:
    """Y, Db, Dr (0 to 1, and -1.333 to 1.333) of sRGB pixels (B, 3, H, W) from 0 to 1."""
    return torch.einsum("ij,bjhw->bihw", torch.tensor(_TO_YDBDR, dtype=x.dtype, device=x.device), x.clamp(0, 1))


Space = Literal["lab", "l-ab", "ydbdr"]

#: Names and channels of the views by kind of split.
SPACES: dict[Space, tuple[str, tuple[int, ...]]] = {
    "lab": ("RGB, L and ab", (3, 1, 2)),
    "l-ab": ("L and ab", (1, 2)),
    "ydbdr": ("Y, Db and Dr", (1, 1, 1)),
}


class ColorSplit(nn.Module):
    """Two or three views of scaled color images (MetAug, section 4.1, appendix B.1 and table 6).

    In the space "lab" they are the unchanged RGB, L, and ab; in "l-ab" L and ab; in "ydbdr" Y, Db, and Dr.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], space: Space = "lab") -> None:
        super().__init__()
        self.lab = space != "ydbdr"
        views, self.channels = SPACES[space]
        if len(mean) != 3 or len(std) != 3:
            raise InputError(f"the views {views} need images of 3 channels, got {len(mean)}")
        center, spread = (_CENTER, _SPREAD) if self.lab else (_YDBDR_CENTER, _YDBDR_SPREAD)
        self.mean, self.std, self.center, self.spread = (
            nn.Buffer(torch.tensor(values).view(3, 1, 1), persistent=False) for values in (mean, std, center, spread)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Views (B, c, H, W) with c of `channels`, of scaled images (B, 3, H, W), with values of order 1."""
        with torch.autocast(x.device.type, enabled=False):
            wide = (x if x.dtype == torch.float64 else x.float()) * self.std + self.mean
            colors = (rgb_to_lab(wide) if self.lab else rgb_to_ydbdr(wide)) - self.center
            colors = (colors / self.spread).to(x.dtype)
        parts = (x, colors) if self.channels[0] == 3 else (colors,)
        return torch.cat(parts, dim=1).split(self.channels, dim=1)


Backbone = Literal["fc", "conv"]
_WIDTHS = (48, 128, 192, 192, 128)

#: Smallest side of images, and side of the last map, by stem.
SMALLEST = {"standard": 63, "small": 8}
LAST_SIDE = {"standard": 6, "small": 2}


class SplitAlexNet(nn.Module):
    """Images (B, C, H, W) of one view to representations (B, n_components).

    Five convolutions with 48, 128, 192, 192 and 128 channels and two fully connected layers, each with BatchNorm and
    ReLU. The paper's last layer is the projection head. Widths and kernels are those of the authors' program.

    The standard stem is for images of 224 x 224 pixels (at least 63), as in the program, the small one for at least 8 x
    8. With the backbone "conv" the representation is the last map, 4608 numbers, or 512 with the small stem.
    """

    def __init__(
        self,
        channels: int = 3,
        n_components: int = 2048,
        *,
        stem: Literal["standard", "small"] = "standard",
        backbone_output: Backbone = "fc",
    ) -> None:
        super().__init__()
        check(stem in SMALLEST, "stem", repr(stem), "standard or small")
        self.n_components, self.smallest, self.stem_width = n_components, SMALLEST[stem], _WIDTHS[0]
        large = stem == "standard"
        pool = (3, 2) if large else (2, 2)
        first, second, third, fourth, fifth = _WIDTHS
        self.conv1 = convolution(channels, first, *((11, 4, 2) if large else (3, 1, 1)))
        self.conv2 = convolution(first, second, *((5, 1, 2) if large else (3, 1, 1)))
        self.conv3 = convolution(second, third, 3, 1, 1)
        self.conv4 = convolution(third, fourth, 3, 1, 1)
        self.conv5 = convolution(fourth, fifth, 3, 1, 1)
        self.pool = nn.MaxPool2d(*pool)
        side = LAST_SIDE[stem]
        self.resize = nn.AdaptiveAvgPool2d(side)  # the identity for images of 224 pixels
        self.fc6: nn.Module = nn.Identity()
        self.fc7: nn.Module = nn.Identity()
        if backbone_output == "fc":
            self.fc6 = _connected(fifth * side**2, n_components)
            self.fc7 = _connected(n_components, n_components)
        else:
            self.n_components = fifth * side**2

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first convolution, (B, 48, ...)."""
        small = self.smallest == SMALLEST["small"]
        check_image_size(x, self.smallest, "enlarge them" if small else "enlarge them, or take the stem 'small'")
        return self.conv1(x)

    def maps(self, x: Tensor) -> Tensor:
        """The last feature map, (B, 128, 6, 6), or (B, 128, 2, 2) with the small stem."""
        h = self.conv2(self.pool(self.stem(x)))
        h = self.conv5(self.conv4(self.conv3(self.pool(h))))
        return self.resize(self.pool(h))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc7(self.fc6(self.maps(x).flatten(1)))


def _connected(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out), nn.ReLU(inplace=True))


Stem = Literal["auto", "small", "standard"]


def _width(row_shape: tuple[int, ...], *, stem: Stem = "auto", backbone_output: Backbone = "fc") -> int | None:
    """The only width of the last map, or None: any width, of the fully connected layers."""
    return None if backbone_output == "fc" else _WIDTHS[-1] * LAST_SIDE[find_stem(stem, row_shape)] ** 2


@register(
    "encoder",
    "split-alexnet",
    help="AlexNet with half the channels, for large or small images",
    modalities="images",
    source="Zhang et al. 2017",
    default_width=256,
    fixed_width=_width,
    smallest=SMALLEST["small"],
)
def _split_alexnet(context: EncoderContext, *, stem: Stem = "auto", backbone_output: Backbone = "fc") -> SplitAlexNet:
    which = find_stem(stem, context.row_shape)
    return SplitAlexNet(context.channels, context.n_components, stem=which, backbone_output=backbone_output)


class MetaFeatures(nn.Module):
    """One generator (MAG) per view, from projections to augmented features of length 1 (Li et al. 2022, section 3.2).

    If `residual`, the output of a generator, divided by sqrt(d), is added to its normalized input: training starts
    close to the projections, and the objective determines how far features move.
    """

    def __init__(
        self,
        views: int,
        width: int,
        *,
        hidden: Sequence[int] = (256,),
        norm: Literal["batch", "none"] = "batch",
        residual: bool = True,
    ) -> None:
        super().__init__()
        if views < 2:
            raise InputError(f"{views} view of each sample, expected at least 2, to form pairs")
        self.residual = residual
        self.networks = nn.ModuleList(MLP(width, [*hidden, width], norm=norm) for _ in range(views))

    def forward(self, z: Tensor) -> Tensor:
        """Augmented features (M, B, d), normalized to length 1, of projections (M, B, d); rows of zeros are allowed."""
        directions = unit(z)
        outputs = torch.stack([network(rows) for network, rows in zip(self.networks, directions, strict=True)])
        with torch.autocast(z.device.type, enabled=False):
            outputs = outputs.to(z.dtype)
            return unit(directions + outputs / z.shape[-1] ** 0.5 if self.residual else outputs)
