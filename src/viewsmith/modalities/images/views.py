"""Fixed view makers for images: batched crop, flip, color jitter, blur and solarization, and the published recipes.

Parameters are drawn for all images at once (`ImageViews.draw`) and applied in a few passes (`ImageViews.render`), in
torchvision's order: crop, flip, colors, gray, blur, solarize; then turns.
"""

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check_weight
from viewsmith.core.registry import Bounds, Fraction, Weight, register
from viewsmith.core.tensors import constant, on_host
from viewsmith.modalities.images.operations import blur, crop, random_boxes, recolor, solarize
from viewsmith.views.base import CropBoxes, PositivePair, ViewContext, ViewMaker, at, rand

Range = tuple[float, float]
Recipe = Literal["simclr", "moco", "byol", "multicrop"]
#: Crops at the corners show this part of each side. How much of a representation they are is half of the variance of
#: pixels at the edge, this part of each side, over that of all pixels; nothing below a least ratio: objects on an empty
#: ground lose their place in a crop at a corner, photographs go on beyond their edge.
PART, EDGE, LEAST_EDGE = 0.8, 0.1, 0.1
#: Of more values than the first a CPU renders so many at once: otherwise new memory takes as long as the views.
LARGE, AT_ONCE = 2**22, 2**20


@dataclass
class ImageDraws:
    """The drawn parameters of N views, (N,) each but `boxes`, (N, 4): top, left, height, width in pixels."""

    boxes: Tensor
    flip: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor  # 0: gray
    hue: Tensor
    sigma: Tensor  # of the blur, in pixels; 0: none
    threshold: Tensor  # infinite: no solarization
    upside_down: Tensor
    turns: Tensor  # quarter turns to the left: 0, 1 or 3
    eighth: Tensor  # whether turned by 45 degrees, too


class ImageViews(ViewMaker):
    """Random resized crop, flip, color jitter, grayscale, blur and solarization, drawn independently for each image.

    Colors, grayscale and solarization are for images with 1 or 3 channels, the rest for any number.

    The color operations are one matrix per image; values are clamped to the range of pixels once, after all of them.
    Saturation, hue and grayscale have no effect on images with one channel. Differentiable in the images.

    Raises
    ------
    InputError
        A setting is out of range, or a batch does not have the shape (B, C, H, W) with H and W at least 2, and C 1 or
        3 if colors change.
    """

    static_step = True
    scale: Range = (0.08, 1.0)
    """Range of the fraction of the area that a crop shows; (1, 1): the whole image."""
    ratio: Range = (3 / 4, 4 / 3)
    """Range of a crop's width / height."""
    flip: Fraction = 0.5
    """Probability of a mirror image."""
    jitter: Fraction = 0.8
    """Probability that the colors of a view are jittered."""
    brightness: Weight = 0.4
    """Strength: factors are uniform on [max(0, 1 - strength), 1 + strength]."""
    contrast: Weight = 0.4
    """As of `brightness`."""
    saturation: Weight = 0.4
    """As of `brightness`."""
    hue: Annotated[float, Bounds(ge=0, le=0.5)] = 0.1
    """Strength, at most 1/2: the rotation of the hue, in turns, is uniform on [-hue, hue]."""
    gray: Fraction = 0.2
    """Probability that a view is converted to grayscale."""
    blur: Fraction = 0.0
    """Probability of a Gaussian blur; its kernel is a tenth of the shorter side (`blur_size`)."""
    sigma: Range = (0.1, 2.0)
    """Range of the blur's standard deviation in pixels."""
    solarize: Fraction = 0.0
    """Probability of solarization."""
    threshold: Fraction = 0.5
    """In [0, 1]; solarization replaces pixels at or above it by 1 - pixel."""
    upside_down: Fraction = 0.0
    """Probability of an image mirrored top to bottom."""
    turn: Fraction = 0.0
    """Probability of a quarter turn, to the left or to the right alike; of square images."""
    diagonal: Fraction = 0.0
    """Probability of a turn by 45 degrees besides, bicubic, with the pixels of the edge beyond it; only with `turn`."""
    mean: float | Sequence[float] = 0.0
    """Scaling of the images, for all channels or per channel: (pixel - mean) / std with pixels in [0, 1]."""
    std: float | Sequence[float] = 1.0
    """As of `mean`."""

    def __post_init__(self) -> None:
        _check_range("scale", self.scale, 1.0)
        _check_range("ratio", self.ratio)
        _check_range("sigma", self.sigma)
        self.diagonal = self.diagonal if self.turn > 0 else 0.0
        self.recolors = self.jitter > 0 or self.gray > 0 or self.solarize > 0
        strengths = torch.tensor([self.brightness, self.contrast, self.saturation])
        low = [*(1 - strengths).clamp_min(0), -self.hue]
        high = [*(1 + strengths), self.hue]
        # Buffers, so that they move to the device of the model; not saved, because they are settings.
        self.jitter_ranges = nn.Buffer(torch.tensor([low, high, [1, 1, 1, 0]])[:, :, None], persistent=False)
        self.channel_mean = nn.Buffer(torch.tensor(self.mean).view(-1).float(), persistent=False)
        self.channel_std = nn.Buffer(torch.tensor(self.std).view(-1).float(), persistent=False)
        if not (self.channel_std > 0).all():
            raise InputError(f"std = {self.std}: expected standard deviations of the channels, each above 0")

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        self.check(x)
        return self.render(x, self.draw(len(x), x, generator))

    def pair(self, pair: PositivePair, *, generator: torch.Generator | None = None) -> PositivePair:
        if on_host(pair.first):
            first, first_crop = self.view_and_crop(pair.first, generator)
            second, second_crop = self.view_and_crop(pair.second, generator)
        else:  # at once: a GPU waits for the launches of many small operations
            both, crops_of_both = self.view_and_crop(torch.cat([pair.first, pair.second]), generator)
            (first, second), flips = both.chunk(2), crops_of_both.flip.chunk(2)
            first_crop, second_crop = map(CropBoxes, crops_of_both.boxes.chunk(2), flips)
        # If another maker has cropped the views before, these boxes are not of the sample; nor are they if turned.
        crops = None if pair.crops is not None or self.turns else (first_crop, second_crop)
        return PositivePair(first, second, pair.ids, pair.local, crops)

    @property
    def turns(self) -> bool:
        """Whether views may be turned or upside down."""
        return self.upside_down > 0 or self.turn > 0

    def symmetric_copies(self, x: Tensor) -> list[Tensor]:
        copies = [x, turned_by_eighth(x)] if self.diagonal > 0 else [x]
        copies = [torch.rot90(copy, number, (2, 3)) for copy in copies for number in range(4 if self.turn > 0 else 1)]
        copies += [copy.flip(3) for copy in copies] if self.flip > 0 else []
        # A turned image that is mirrored left to right is also one that is mirrored top to bottom.
        mirrored = self.upside_down > 0 and not (self.turn > 0 and self.flip > 0)
        return copies + [copy.flip(2) for copy in copies] if mirrored else copies

    def of_reduced(self, scale: float) -> "ImageViews":
        reduced = copy.copy(self)  # without a weight that is trained or saved
        reduced.sigma = self.sigma[0] * scale, self.sigma[1] * scale
        return reduced

    def parts(self, x: Tensor) -> list[Tensor]:
        if self.scale[0] == 1 or self.turns:
            return []
        height, width = x.shape[2:]
        tall, wide = (max(1, round(PART * side)) for side in (height, width))
        found = []
        for number, (top, left) in enumerate(itertools.product((0, height - tall), (0, width - wide))):
            flip = torch.full((x.shape[0],), self.flip > 0 and number in (1, 2), device=x.device)
            found.append(crop(x, constant([top, left, tall, wide], x).expand(x.shape[0], 4), None, flip))
        return found

    def share_of_parts(self, x: Tensor) -> float:
        if self.scale[0] == 1 or self.turns:
            return 0.0
        edge = torch.ones(x.shape[2:], dtype=torch.bool, device=x.device)
        rows, columns = (max(1, round(EDGE * side)) for side in x.shape[2:])
        edge[rows:-rows, columns:-columns] = False
        ratio = float(x[:, :, edge].var(correction=0) / x.var(correction=0).clamp_min(1e-12))
        return min(1.0, ratio) / 2 if ratio > LEAST_EDGE else 0.0

    def view_and_crop(self, x: Tensor, generator: torch.Generator | None) -> tuple[Tensor, CropBoxes]:
        """A view of each image, and the region of the image that it shows."""
        self.check(x)
        draws = self.draw(len(x), x, generator)
        height, width = x.shape[2:]
        return self.render(x, draws), CropBoxes(draws.boxes / constant([height, width] * 2, draws.boxes), draws.flip)

    def crops(self, x: Tensor, number: int, size: tuple[int, int], generator: torch.Generator | None = None) -> Tensor:
        """Several views of each image at another size: (B, C, H, W) to (B, number, C, height, width)."""
        self.check(x)
        views = self.render(x, self.draw(number * len(x), x, generator), size)
        return views.view(len(x), number, *views.shape[1:])

    def draw(self, n: int, x: Tensor, generator: torch.Generator | None = None) -> ImageDraws:
        """Draw the parameters of n views of images like `x`, (B, C, H, W), on its device and in its dtype."""
        height, width = x.shape[2:]
        if self.scale[0] == 1:  # whole images, which boxes of another width / height are not
            boxes = constant([0, 0, height, width], x).expand(n, 4)
        else:
            boxes = random_boxes(n, (height, width), self.scale, self.ratio, x, generator)
        chance = rand((5, n), x, generator)
        low, high, neutral = self.jitter_ranges.to(x)
        factors = torch.lerp(low, high, rand((4, n), x, generator))
        factors = torch.where(chance[1] < self.jitter, factors, neutral)
        sigma = self.sigma[0] + (self.sigma[1] - self.sigma[0]) * rand((n,), x, generator)
        upside_down, turns = torch.zeros_like(chance[0], dtype=torch.bool), torch.zeros_like(chance[0])
        eighth = upside_down
        if self.turns:  # otherwise nothing is drawn, as by earlier versions
            drawn = rand((2, n), x, generator)
            upside_down = drawn[0] < self.upside_down
            # In the lower half of the interval below the probability to the left, in the upper half to the right.
            turns = torch.where(drawn[1] < self.turn, torch.where(drawn[1] < self.turn / 2, 1, 3), turns)
        if self.diagonal:
            eighth = rand((n,), x, generator) < self.diagonal
        color = factors[0], factors[1], factors[2] * (chance[2] >= self.gray), factors[3]
        threshold = torch.where(chance[4] < self.solarize, self.threshold, math.inf).to(x.dtype)
        sigma = sigma * (chance[3] < self.blur)
        return ImageDraws(boxes, chance[0] < self.flip, *color, sigma, threshold, upside_down, turns, eighth)

    def render(self, x: Tensor, draws: ImageDraws, size: tuple[int, int] | None = None) -> Tensor:
        """The views with the parameters `draws`, (N, C, height, width), scaled like `x`; see `crop` for N."""
        with torch.autocast(x.device.type, enabled=False):
            if not on_host(x) or x.numel() <= LARGE:
                return self._rendered(x, draws, size)
            each, at_once = len(draws.flip) // len(x), max(1, AT_ONCE // x[0].numel())
            of_parts = zip(*(drawn.split(at_once * each) for drawn in vars(draws).values()), strict=True)
            parts = zip(x.split(at_once), of_parts, strict=True)
            found, start = x.new_empty(0), 0
            for part, drawn in parts:
                y = self._rendered(part, ImageDraws(*drawn), size)
                found = found if start else y.new_empty(len(draws.flip), *y.shape[1:])
                found[start : start + len(y)] = y
                start += len(y)
            return found

    def _rendered(self, x: Tensor, draws: ImageDraws, size: tuple[int, int] | None) -> Tensor:
        y = crop(x, draws.boxes, size, draws.flip)
        if self.recolors:
            colors = draws.brightness, draws.contrast, draws.saturation, draws.hue
            y = recolor(y, *colors, mean=self.channel_mean, std=self.channel_std)
        if self.blur:
            y = _blur_some(y, draws.sigma)
        if self.solarize:
            y = solarize(y, draws.threshold)
        if self.recolors:
            y = y.sub_(self.channel_mean.to(y)[:, None, None]).div_(self.channel_std.to(y)[:, None, None])
        if self.turns:
            y = turned(y, draws.upside_down, draws.turns)
        if self.diagonal:
            y = torch.where(draws.eighth[:, None, None, None], turned_by_eighth(y), y)
        return y

    def check(self, x: Tensor) -> None:
        """Raise InputError if `x` is not a batch of images."""
        colors = "1 or 3" if self.recolors else "at least 1"
        fits = x.ndim == 4 and (x.shape[1] in (1, 3) if self.recolors else x.shape[1] > 0)
        if not fits or min(x.shape[2:]) < 2 or not x.is_floating_point():
            raise InputError(
                f"a batch of shape {tuple(x.shape)}, {x.dtype}: image views need images (B, C, H, W) as floating-point "
                f"numbers, C {colors}, H and W at least 2"
            )
        numbers = len(self.channel_mean), len(self.channel_std)
        if {*numbers} - {1, x.shape[1]}:
            raise InputError(
                f"mean and std have {numbers[0]} and {numbers[1]} values for images with {x.shape[1]} channels: "
                "give one number, or one per channel"
            )
        if self.turn > 0 and x.shape[2] != x.shape[3]:
            raise InputError(
                f"turn is {self.turn:g}, and the images have {x.shape[2]} x {x.shape[3]} pixels: quarter turns need "
                "square images; set turn to 0, or crop the images to squares (image_size)"
            )


class PairedImageViews(ViewMaker):
    """Different view makers for the two views of a pair, and optionally additional small crops (multi-crop)."""

    static_step = True

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
            raise InputError(f"{number} small crops of {size} pixels: expected at least 1, of at least 2 x 2 pixels")
        self.first, self.second, self.local = first, second, local
        self.number, self.size = number, size

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.second(x, index=index, generator=generator)

    def of_reduced(self, scale: float) -> "PairedImageViews | None":
        if self.local is not None:
            return None
        return PairedImageViews(self.first.of_reduced(scale), self.second.of_reduced(scale))

    def symmetric_copies(self, x: Tensor) -> list[Tensor]:
        return self.first.symmetric_copies(x)

    def parts(self, x: Tensor) -> list[Tensor]:
        return self.first.parts(x)

    def share_of_parts(self, x: Tensor) -> float:
        return self.first.share_of_parts(x)

    def pair(self, pair: PositivePair, *, generator: torch.Generator | None = None) -> PositivePair:
        local = pair.local
        if self.local is not None:
            if local is not None:
                raise InputError("the pair already has small crops: use only one multi-crop view maker")
            local = self.local.crops(pair.first, self.number, self.size, generator)
        first, first_crop = self.first.view_and_crop(pair.first, generator)
        second, second_crop = self.second.view_and_crop(pair.second, generator)
        crops = None if pair.crops is not None or self.first.turns else (first_crop, second_crop)
        return PositivePair(first, second, pair.ids, local, crops)


# Settings of the first view, of the second (if different) and of small crops. For sources see docs/images.md.
_JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1, "jitter": 0.8, "gray": 0.2}
_BYOL = _JITTER | {"saturation": 0.2}

_RECIPES: dict[str, list[dict[str, Any]]] = {
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
    name: Recipe,
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
    """The view maker of a published recipe; docs/images.md lists its settings and their sources.

    Parameters
    ----------
    name : {"simclr", "moco", "byol", "multicrop"}
        ``simclr`` has blur only for images of at least 64 x 64 pixels. ``byol`` and ``multicrop`` (DINO's recipe) have
        different settings for the two views of a pair; ``multicrop`` adds small crops.
    size : int or (int, int)
        Side, or height and width, of the images.
    strength : float
        Factor of the four strengths of the color jitter (2 for SimCLR on ImageNet).
    crops : int
        Number of small crops (``multicrop``).
    local_size : int or (int, int), optional
        Size of the small crops (``multicrop``). Default: 96/224 of the size of the images, rounded to a multiple of 4,
        at least 8.
    local_scale : (float, float), optional
        Range of the fraction of the area that small crops show (``multicrop``). Default: (0.05, 0.4).
    mean, std : float or sequence of float
        Scaling of the images; see `ImageViews`.
    **settings
        Other arguments of `ImageViews`, for all views; `scale` applies to the full crops.

    Returns
    -------
    ViewMaker

    Raises
    ------
    InputError
        Unknown recipe or setting, or a setting is out of range.
    """
    if name not in _RECIPES:
        raise InputError(f"image recipe {name!r}: expected one of {', '.join(_RECIPES)}")
    if unknown := sorted(settings.keys() - (known := ImageViews.declared_options()).keys()):
        raise InputError(f"image recipe {name!r} has no setting {unknown[0]!r}: expected some of {', '.join(known)}")
    check_weight("strength", strength)
    image = _height_and_width("size", size)
    recipe = [view | settings for view in _RECIPES[name]]
    for view in recipe:
        for color in ("brightness", "contrast", "saturation", "hue"):
            view[color] *= strength
    if name == "simclr" and "blur" not in settings and min(image) < 64:
        recipe[0]["blur"] = 0.0
    if name == "multicrop":
        recipe[2]["scale"] = local_scale or _RECIPES[name][2]["scale"]
    makers = [ImageViews(mean=mean, std=std, **view) for view in recipe]
    if len(makers) == 1:
        return makers[0]
    of_side = _local_side(image[0]), _local_side(image[1])
    small = _height_and_width("local_size", local_size) if local_size else of_side
    return PairedImageViews(*makers, number=crops, size=small)


def _local_side(side: int) -> int:
    return max(8, 4 * round(side * 96 / 224 / 4))


def turned(x: Tensor, upside_down: Tensor, turns: Tensor) -> Tensor:
    """Images (B, C, H, W) mirrored top to bottom where `upside_down`, then turned by so many quarters (B,)."""
    x = torch.where(upside_down[:, None, None, None], x.flip(2), x)
    for number in (1, 3):  # of images that are not square, there are none
        if x.shape[2] == x.shape[3]:
            x = torch.where((turns == number)[:, None, None, None], torch.rot90(x, number, (2, 3)), x)
    return x


def turned_by_eighth(x: Tensor) -> Tensor:
    """Images (B, C, S, S) turned by 45 degrees to the left, bicubic, with the pixels of the edge beyond it."""
    at = torch.linspace(-1, 1, 2 * x.shape[2] + 1, device=x.device, dtype=x.dtype)[1::2] / math.sqrt(2)
    grid = torch.stack([at[None] - at[:, None], at[None] + at[:, None]], 2)
    return F.grid_sample(x, grid.expand(len(x), -1, -1, -1), mode="bicubic", padding_mode="border", align_corners=False)


def _blur_some(x: Tensor, sigma: Tensor) -> Tensor:
    """`blur` applied only to images with sigma above 0, which in most recipes are a tenth or a half of the batch."""
    if not on_host(sigma):
        return torch.where((sigma > 0)[:, None, None, None], blur(x, sigma.clamp_min(1e-3)), x)
    rows = sigma.nonzero()[:, 0]
    return x.index_copy(0, rows, blur(x[rows], sigma[rows])) if len(rows) else x


def _height_and_width(name: str, size: int | tuple[int, int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 2:
        raise InputError(f"{name} = {size}: expected a side, or height and width, of at least 2 pixels")
    return height, width


def _check_range(name: str, values: Range, largest: float = math.inf) -> None:
    if len(values) != 2 or not (0 < values[0] <= values[1] <= largest and values[1] < math.inf):
        limit = f" and up to {largest:g}" if largest < math.inf else ""
        raise InputError(f"{name} is {values}, expected two numbers, low to high, above 0{limit}")


# "auto" is resolved by a test of the data; without data it is the published rate.
Rate = float | Literal["auto"]
SYMMETRY = {"flip": ("mirror", 0.5), "upside_down": ("upside-down", 0.0), "turn": ("quarter-turn", 0.0)}
# Of photographs no test without labels tells where these help (docs/evaluation.md), so that they are never chosen.
# "auto" for images of instruments, which hardly know what is up (`Images.views_for`).
Turning = Fraction | Literal["auto"]


def flip_rates(flip: Rate, upside_down: Turning, turn: Turning) -> dict[str, float]:
    """Probabilities of the three."""
    rates = {"flip": flip, "upside_down": upside_down, "turn": turn}
    return {name: SYMMETRY[name][1] if rate == "auto" else rate for name, rate in rates.items()}


#: What changes colors or brightness, in a recipe for images of instruments: where these measure something, none.
UNCHANGED = {"jitter": 0.0, "gray": 0.0, "solarize": 0.0}


def of_photographs(context: ViewContext) -> bool:
    """Whether the images are gray or have colors of 8 bits."""
    return "dtype" not in context.statistics and len(context.statistics["pixel_mean"]) in (1, 3)


def _recipe(
    name: Recipe,
    context: ViewContext,
    strength: float,
    rates: Mapping[str, Any],
    crop_minimum: Rate,
    gray: float,
    crops: int = 4,
) -> ViewMaker:
    scale: dict[str, Any] = {} if crop_minimum == "auto" else {"scale": (crop_minimum, 1.0)}
    scale |= {"gray": gray} if of_photographs(context) else UNCHANGED
    height, width = context.row_shape[:2]
    return image_recipe(
        name,
        size=(height, width),
        strength=strength,
        crops=crops,
        mean=context.statistics["pixel_mean"],
        std=context.statistics["pixel_scale"],
        **rates,
        **scale,
    )


#: Options that leave out a part of a recipe, by its name.
PARTS = {
    "crop": {"crop_minimum": 1.0},
    "turns": {"flip": 0.0, "upside_down": 0.0, "turn": 0.0},
    "light, color": {"color_strength": 0.0},
    "gray": {"gray": 0.0},
}


def _register_recipe(name: Recipe, help: str, source: str, **tags: Any) -> None:
    @register("view maker", name, help=help, modalities="images", source=source, symmetry=SYMMETRY, **tags)
    def recipe(
        context: ViewContext,
        *,
        crop_minimum: Rate = "auto",
        flip: Rate = "auto",
        upside_down: Turning = 0.0,
        turn: Turning = 0.0,
        color_strength: float = 1.0,
        gray: float = 0.2,
    ) -> ViewMaker:
        return _recipe(name, context, color_strength, flip_rates(flip, upside_down, turn), crop_minimum, gray)


_register_recipe("simclr", "random crop, flip, color jitter, grayscale", "Chen et al. 2020", left_out=PARTS)


@register(
    "view maker",
    "crop",
    help="random crop and flip, unchanged colors",
    modalities="images",
    symmetry=SYMMETRY,
    strengths=at(crop_minimum=(0.4, 0.7, 0.08)),
    alone={"flip": 0.0},
)
def _crop(
    context: ViewContext,
    *,
    crop_minimum: Rate = "auto",
    flip: Rate = "auto",
    upside_down: Turning = 0.0,
    turn: Turning = 0.0,
) -> ViewMaker:
    least = 0.08 if crop_minimum == "auto" else crop_minimum
    mean, std = context.statistics["pixel_mean"], context.statistics["pixel_scale"]
    rates: dict[str, Any] = flip_rates(flip, upside_down, turn)
    return ImageViews(scale=(least, 1.0), jitter=0, gray=0, mean=mean, std=std, **rates)


_register_recipe("byol", "a different recipe for each view, with blur and solarization", "Grill et al. 2020")

_register_recipe("moco", "crops, color jitter and blur of MoCo v2", "Chen, Fan et al. 2020")


def _local_size(row_shape: Sequence[int], derived: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
    maker = image_recipe("multicrop", size=(row_shape[0], row_shape[1]))
    assert isinstance(maker, PairedImageViews)
    return "small crops of multicrop", maker.size


@register(
    "view maker",
    "multicrop",
    help="two full crops and several small ones, for frameworks with local views",
    modalities="images",
    source="Caron et al. 2020",
    local_views=True,
    symmetry=SYMMETRY,
    smaller=_local_size,
)
def _multicrop(
    context: ViewContext,
    *,
    crop_minimum: Rate = "auto",
    flip: Rate = "auto",
    upside_down: Turning = 0.0,
    turn: Turning = 0.0,
    color_strength: float = 1.0,
    gray: float = 0.2,
    local_crops: int = 4,
) -> ViewMaker:
    rates = flip_rates(flip, upside_down, turn)
    return _recipe("multicrop", context, color_strength, rates, crop_minimum, gray, local_crops)
