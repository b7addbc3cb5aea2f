"""Fixed view makers for images: crop, flip, colors, blur and solarization of a whole batch, and the known recipes.

Parameters are drawn for all images at once (`ImageViews.draw`) and applied in a few passes (`ImageViews.render`), in
torchvision's order: crop, flip, colors, gray, blur, solarize.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.views.base import CropBoxes, Pair, ViewMaker, rand
from viewsmith.views.fixed.color import recolor, solarize
from viewsmith.views.fixed.resampling import blur, crop, random_boxes

Range = tuple[float, float]


@dataclass
class ImageDraws:
    """What was drawn for N views.

    Attributes
    ----------
    boxes : Tensor, shape (N, 4)
        Top, left, height, width in pixels.
    flip : bool Tensor, shape (N,)
    brightness, contrast, saturation, hue : Tensor, shape (N,)
        1, 1, 1 and 0 where nothing is jittered; saturation 0 where the view is gray.
    sigma : Tensor, shape (N,)
        Of the blur, in pixels; 0: none.
    threshold : Tensor, shape (N,)
        Of the solarization; infinite: none.
    """

    boxes: Tensor
    flip: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    sigma: Tensor
    threshold: Tensor


class ImageViews(ViewMaker):
    """Random resized crop, flip, color jitter, gray, blur and solarization, drawn for each image by itself.

    The color operations are one matrix per image and clamp to the range of pixels once, after all of them;
    images of one channel skip saturation, hue and gray. Differentiable in the images.

    Parameters
    ----------
    scale : (float, float)
        Range of the share of the area that a crop shows.
    ratio : (float, float)
        Range of a crop's width / height.
    flip : float
        Probability of a mirror image.
    jitter : float
        Probability that the colors of a view are jittered.
    brightness, contrast, saturation : float
        Strengths: factors are uniform on [max(0, 1 - strength), 1 + strength].
    hue : float
        Strength, at most 1/2: turns are uniform on [-hue, hue].
    gray : float
        Probability that a view loses its colors.
    blur : float
        Probability of a Gaussian blur, over a tenth of the shorter side (`blur_size`).
    sigma : (float, float)
        Range of the blur's standard deviation in pixels.
    solarize : float
        Probability of solarization.
    threshold : float
        Pixels from here on, in [0, 1], are mirrored by it.
    mean, std : float or sequence of float
        The scaling of the batches, for all channels or for each: (pixel - mean) / std with pixels in [0, 1].

    Raises
    ------
    InputError
        A setting outside its range; a batch that is not (B, 1 or 3, H, W) with sides of 2 pixels and more.
    """

    mean: Tensor
    std: Tensor
    jitter_ranges: Tensor

    def __init__(
        self,
        *,
        scale: Range = (0.08, 1.0),
        ratio: Range = (3 / 4, 4 / 3),
        flip: float = 0.5,
        jitter: float = 0.8,
        brightness: float = 0.4,
        contrast: float = 0.4,
        saturation: float = 0.4,
        hue: float = 0.1,
        gray: float = 0.2,
        blur: float = 0.0,
        sigma: Range = (0.1, 2.0),
        solarize: float = 0.0,
        threshold: float = 0.5,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
    ) -> None:
        super().__init__()
        shares = {"flip": flip, "jitter": jitter, "gray": gray, "blur": blur, "solarize": solarize}
        for name, value in {**shares, "threshold": threshold}.items():
            _within(name, value, 0, 1)
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            _within(name, value, 0, math.inf)
        _within("hue", hue, 0, 0.5)
        self.scale, self.ratio = _range("scale", scale, 1.0), _range("ratio", ratio)
        self.sigma, self.threshold = _range("sigma", sigma), threshold
        self.flip, self.jitter, self.gray, self.blur, self.solarize = shares.values()
        self.recolors = jitter > 0 or gray > 0 or solarize > 0
        strengths = torch.tensor([brightness, contrast, saturation])
        low = [*(1 - strengths).clamp_min(0), -hue]
        high = [*(1 + strengths), hue]
        # Buffers, so that they go where the model goes; not saved: they are settings.
        self.register_buffer("jitter_ranges", torch.tensor([low, high, [1, 1, 1, 0]])[:, :, None], persistent=False)
        self.register_buffer("mean", torch.tensor(mean).view(-1).float(), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1).float(), persistent=False)
        if not (self.std > 0).all():
            raise InputError(f"std = {std}: expected standard deviations of the channels, each above 0")

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        self.check(x)
        return self.render(x, self.draw(len(x), x, generator))

    def pair(self, pair: Pair, *, generator: torch.Generator | None = None) -> Pair:
        first, shown = self._seen(pair.first, generator)
        second, other = self._seen(pair.second, generator)
        # Of views that were cropped before, the boxes are not those of the sample.
        crops = None if pair.crops is not None else (shown, other)
        return Pair(first, second, pair.ids, pair.local, crops)

    def _seen(self, x: Tensor, generator: torch.Generator | None) -> tuple[Tensor, CropBoxes]:
        """A view of each image, and what it shows."""
        self.check(x)
        draws = self.draw(len(x), x, generator)
        height, width = x.shape[2:]
        return self.render(x, draws), CropBoxes(draws.boxes / draws.boxes.new_tensor([height, width] * 2), draws.flip)

    def crops(self, x: Tensor, number: int, size: tuple[int, int], generator: torch.Generator | None = None) -> Tensor:
        """Several views of each image at another size: (B, C, H, W) to (B, number, C, height, width)."""
        self.check(x)
        views = self.render(x, self.draw(number * len(x), x, generator), size)
        return views.view(len(x), number, *views.shape[1:])

    def draw(self, n: int, x: Tensor, generator: torch.Generator | None = None) -> ImageDraws:
        """Parameters of n views of images like `x`, (B, C, H, W), on its device and in its dtype."""
        boxes = random_boxes(n, (x.shape[2], x.shape[3]), self.scale, self.ratio, x, generator)
        chance = rand((5, n), x, generator)
        low, high, neutral = self.jitter_ranges.to(x)
        factors = torch.lerp(low, high, rand((4, n), x, generator))
        factors = torch.where(chance[1] < self.jitter, factors, neutral)
        sigma = self.sigma[0] + (self.sigma[1] - self.sigma[0]) * rand((n,), x, generator)
        return ImageDraws(
            boxes,
            chance[0] < self.flip,
            factors[0],
            factors[1],
            factors[2] * (chance[2] >= self.gray),
            factors[3],
            sigma * (chance[3] < self.blur),
            torch.where(chance[4] < self.solarize, self.threshold, math.inf).to(x.dtype),
        )

    def render(self, x: Tensor, draws: ImageDraws, size: tuple[int, int] | None = None) -> Tensor:
        """The views that `draws` describe, (N, C, height, width), scaled as `x` is; see `crop` for N."""
        with torch.autocast(x.device.type, enabled=False):
            y = crop(x, draws.boxes, size, draws.flip)
            if self.recolors:
                factors = draws.brightness, draws.contrast, draws.saturation, draws.hue
                y = recolor(y, *factors, mean=self.mean, std=self.std)
            if self.blur:
                y = _blur_some(y, draws.sigma)
            if self.solarize:
                y = solarize(y, draws.threshold)
            if self.recolors:
                y = y.sub_(self.mean.to(y)[:, None, None]).div_(self.std.to(y)[:, None, None])
        return y

    def check(self, x: Tensor) -> None:
        """Refuse what is no batch of images."""
        if x.ndim != 4 or x.shape[1] not in (1, 3) or min(x.shape[2:]) < 2 or not x.is_floating_point():
            raise InputError(
                f"a batch of shape {tuple(x.shape)}, {x.dtype}: image views need images (B, C, H, W) as floating-point "
                "numbers, C 1 or 3, H and W 2 or more"
            )
        if {len(self.mean), len(self.std)} - {1, x.shape[1]}:
            raise InputError(
                f"mean and std of {len(self.mean)} and {len(self.std)} channels for images of {x.shape[1]}: "
                "give one number, or one for each channel"
            )


class PairedImageViews(ViewMaker):
    """Views whose two sides are made differently, and small crops beside them (multi-crop).

    Alone it makes second views. Small crops are taken from the first side's samples.

    Parameters
    ----------
    first, second : ImageViews
    local : ImageViews, optional
        Makes the small crops.
    number : int
        Small crops of each image.
    size : (int, int)
        Their height and width.
    """

    def __init__(
        self,
        first: ImageViews,
        second: ImageViews,
        local: ImageViews | None = None,
        *,
        number: int = 6,
        size: tuple[int, int] = (96, 96),
    ) -> None:
        super().__init__()
        if local is not None and (number < 1 or min(size) < 2):
            raise InputError(f"{number} small crops of {size}: expected 1 or more, with sides of 2 pixels or more")
        self.first, self.second, self.local = first, second, local
        self.number, self.size = number, size

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.second(x, index=index, generator=generator)

    def pair(self, pair: Pair, *, generator: torch.Generator | None = None) -> Pair:
        local = pair.local
        if self.local is not None:
            if local is not None:
                raise InputError("the pair has small crops already: use one multi-crop view maker, not two")
            local = self.local.crops(pair.first, self.number, self.size, generator)
        first, shown = self.first._seen(pair.first, generator)
        second, other = self.second._seen(pair.second, generator)
        return Pair(first, second, pair.ids, local, None if pair.crops is not None else (shown, other))


# Sources of every number: the table in docs/images.md.
_JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1, "jitter": 0.8, "gray": 0.2}
_BYOL = _JITTER | {"saturation": 0.2}
_SIDES: dict[str, list[dict[str, Any]]] = {
    "simclr": [_JITTER | {"scale": (0.08, 1.0), "blur": 0.5}],
    "moco": [_JITTER | {"scale": (0.2, 1.0), "blur": 0.5}],
    "byol": [_BYOL | {"scale": (0.08, 1.0), "blur": 1.0}, _BYOL | {"scale": (0.08, 1.0), "blur": 0.1, "solarize": 0.2}],
    "multicrop": [
        _BYOL | {"scale": (0.4, 1.0), "blur": 1.0},
        _BYOL | {"scale": (0.4, 1.0), "blur": 0.1, "solarize": 0.2},
        _BYOL | {"scale": (0.05, 0.4), "blur": 0.5},
    ],
}


def image_recipe(
    name: Literal["simclr", "moco", "byol", "multicrop"],
    *,
    size: int | tuple[int, int],
    strength: float = 1.0,
    crops: int = 6,
    local_size: int | tuple[int, int] | None = None,
    local_scale: Range | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    **settings: Any,
) -> ViewMaker:
    """The view maker of a known recipe; its numbers and their sources are in docs/images.md.

    Parameters
    ----------
    name : {"simclr", "moco", "byol", "multicrop"}
        ``simclr``: blur for sides of 64 and more only. ``byol`` and ``multicrop`` (DINO's) treat the two sides of a
        pair differently; ``multicrop`` adds small crops.
    size : int or (int, int)
        Side, or height and width, of the images.
    strength : float
        Multiplies the four strengths of the jitter (ImageNet SimCLR: 2).
    crops : int
        ``multicrop``: number of small crops.
    local_size : int or (int, int), optional
        ``multicrop``: their size; default 96/224 of the images' in multiples of 4, at least 8.
    local_scale : (float, float), optional
        ``multicrop``: range of the area they show; default (0.05, 0.4).
    mean, std : float or sequence of float
        The scaling of the batches; see `ImageViews`.
    **settings
        Any other setting of `ImageViews`, for all sides; `scale` is that of the full crops.

    Raises
    ------
    InputError
        An unknown recipe or setting, or a setting outside its range.
    """
    if name not in _SIDES:
        raise InputError(f"image recipe {name!r}: expected one of {', '.join(_SIDES)}")
    known = inspect.signature(ImageViews).parameters
    if unknown := sorted(settings.keys() - known.keys()):
        raise InputError(f"image recipe {name!r} has no setting {unknown[0]!r}: expected some of {', '.join(known)}")
    _within("strength", strength, 0, math.inf)
    image = _sides("size", size)
    sides = [side | settings for side in _SIDES[name]]
    for side in sides:
        for color in ("brightness", "contrast", "saturation", "hue"):
            side[color] *= strength
    if name == "simclr" and "blur" not in settings and min(image) < 64:
        sides[0]["blur"] = 0.0
    if name == "multicrop":
        sides[2]["scale"] = local_scale or _SIDES[name][2]["scale"]
    makers = [ImageViews(mean=mean, std=std, **side) for side in sides]
    if len(makers) == 1:
        return makers[0]
    small = (local_size and _sides("local_size", local_size)) or (_small(image[0]), _small(image[1]))
    return PairedImageViews(*makers, number=crops, size=small)


def _small(side: int) -> int:
    return max(8, 4 * round(side * 96 / 224 / 4))


def _blur_some(x: Tensor, sigma: Tensor) -> Tensor:
    """`blur` of the images whose sigma is above 0 alone: in most recipes that is a tenth or a half of them."""
    rows = sigma.nonzero()[:, 0]
    return x.index_copy(0, rows, blur(x[rows], sigma[rows])) if len(rows) else x


def _sides(name: str, size: int | tuple[int, int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 2:
        raise InputError(f"{name} = {size}: expected a side, or height and width, of 2 pixels or more")
    return height, width


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        expected = f"from {low:g} to {high:g}" if high < math.inf else f"of {low:g} or more"
        raise InputError(f"{name} = {value}: expected a number {expected}")


def _range(name: str, values: Range, most: float = math.inf) -> Range:
    if len(values) != 2 or not (0 < values[0] <= values[1] <= most and values[1] < math.inf):
        limit = f" and up to {most:g}" if most < math.inf else ""
        raise InputError(f"{name} = {values}: expected two numbers, low to high, above 0{limit}")
    return values
