"""View makers of images that change one thing: light, color, gray, blur, the gain of channels, turns; and what differs
between two images of one thing by one instrument: gamma, background, noise, focus, channels that are missing or moved.

Values are those in the range of their channel, about 0 to 1. None of the latter is a default: where a test or the table
of views says that one leaves the data, or where it is what is measured, it is no view.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Fraction, register
from viewsmith.modalities.images.channels import check_photographs
from viewsmith.modalities.images.views import SYMMETRY, ImageViews, Rate, Turning, flip_rates, of_photographs
from viewsmith.views.base import ViewContext, ViewMaker, at, rand, randint, randn

view = partial(register, "view maker", modalities="images")


def _colored(context: ViewContext, name: str) -> ViewContext:
    """The context; raises InputError for images without colors of 8 bits."""
    channels, dtype = len(context.statistics["pixel_mean"]), context.statistics.get("dtype", "uint8")
    todo = "choose crop, turns, blur, or gain, which changes each channel by itself"
    check_photographs(f"the views {name!r} are", channels, dtype, todo)
    return context


WHOLE = (1.0, 1.0)  # the part of an image that is shown
CROPPED = (0.7, 1.0)  # of images of instruments of which no symmetry holds
Strength = Annotated[float, Bounds(ge=0, le=5)]
Generator = torch.Generator | None


def _unchanged(context: ViewContext, **changes: float | tuple[float, float]) -> ImageViews:
    """Views of whole images with these changes alone."""
    mean, std = context.statistics["pixel_mean"], context.statistics["pixel_scale"]
    none = {"flip": 0.0, "jitter": 1.0, "gray": 0.0}
    none |= {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    return ImageViews(scale=WHOLE, mean=mean, std=std, **(none | changes))  # type: ignore[arg-type]


@view(
    "turns",
    help="mirror images, images upside down, quarter turns and turns by 45 degrees",
    symmetry=SYMMETRY | {"diagonal": ("eighth-turn", 0.0)},
    strengths=(
        *at(flip=(0.5, 0.0, 0.0, 0.5), upside_down=(0.0, 0.5, 0.0, 0.5), turn=(0.0, 0.0, 0.5, 0.5)),
        {"flip": 0.5, "upside_down": 0.5, "turn": 0.5, "diagonal": 0.5},
    ),
)
def _turns(
    context: ViewContext,
    *,
    flip: Rate = "auto",
    upside_down: Turning = 0.5,
    turn: Turning = 0.5,
    diagonal: Turning = 0.0,
) -> ImageViews:
    rates = flip_rates(flip, upside_down, turn) | {"diagonal": 0.0 if diagonal == "auto" else diagonal}
    if not any(rates.values()) and not of_photographs(context):  # tested, and none keeps the data
        return ImageViews(scale=CROPPED, jitter=0.0, gray=0.0, flip=0.0)
    return _unchanged(context, jitter=0.0, **rates)


@view("light", help="random brightness and contrast", strengths=at(light_strength=(0.4, 0.2, 0.8)))
def _light(context: ViewContext, *, light_strength: Strength = 0.4) -> ImageViews:
    return _unchanged(_colored(context, "light"), brightness=light_strength, contrast=light_strength)


@view("color", help="random saturation, and hue by a quarter of the strength", strengths=at(hue_strength=(0.4, 0.8)))
def _color(context: ViewContext, *, hue_strength: Strength = 0.4) -> ImageViews:
    return _unchanged(_colored(context, "color"), saturation=hue_strength, hue=min(hue_strength / 4, 0.5))


@view("gray", help="gray, some of the time", strengths=at(gray_rate=(0.5,)))
def _gray(context: ViewContext, *, gray_rate: Fraction = 0.5) -> ImageViews:
    return _unchanged(_colored(context, "gray"), jitter=0.0, gray=gray_rate)


@view("blur", help="Gaussian blur", strengths=at(blur_sigma=(1.0, 2.0)))
def _blur(context: ViewContext, *, blur_sigma: Annotated[float, Bounds(gt=0.1, le=50)] = 1.0) -> ImageViews:
    return _unchanged(context, jitter=0.0, blur=1.0, sigma=(0.1, blur_sigma))


SMALLEST = 1e-4  # value whose power is taken in place of smaller ones


class ValueViews(ViewMaker):
    """A random change of images (B, C, H, W) in the ranges of their channels, about 0 to 1, which `mean` and `std`
    scale; `of_any_size`: it is the same for smaller images."""

    static_step = True

    def __init__(
        self,
        change: Callable[[Tensor, Generator], Tensor],
        mean: Sequence[float],
        std: Sequence[float],
        clips: bool,
        of_any_size: bool = True,
    ) -> None:
        super().__init__()
        self.change, self.clips, self.of_any_size = change, clips, of_any_size
        self.mean = nn.Buffer(torch.tensor(mean).view(-1, 1, 1).float(), persistent=False)
        self.std = nn.Buffer(torch.tensor(std).view(-1, 1, 1).float(), persistent=False)

    def of_reduced(self, scale: float) -> "ValueViews | None":
        return self if self.of_any_size else None

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: Generator = None) -> Tensor:
        mean, std = self.mean.to(x), self.std.to(x)
        changed = self.change(x * std + mean, generator)
        return (changed.clamp(0, 1) if self.clips else changed).sub(mean).div(std)


def gain(u: Tensor, strength: float, offset: float = 0.0, generator: Generator = None) -> Tensor:
    """u exp(s e) + t e', with Gaussian e and e' for each channel of each image."""
    changed = u * (strength * randn(u[..., :1, :1], generator)).exp()
    return changed + offset * randn(u[..., :1, :1], generator) if offset else changed


def gamma(u: Tensor, strength: float, generator: Generator = None) -> Tensor:
    """u^exp(s e), e Gaussian for each channel of each image; values at and below 0 are left as they are."""
    power = (strength * randn(u[..., :1, :1], generator)).exp()
    return torch.where(u > SMALLEST, u.clamp_min(SMALLEST) ** power, u)


def background(u: Tensor, strength: float, generator: Generator = None) -> Tensor:
    """u + s (e0 + e1 x + e2 y), x and y from -1 to 1, e Gaussian for each channel of each image."""
    level, across, down = (randn(u[..., :1, :1], generator) for _ in range(3))
    rows = torch.linspace(-1, 1, u.shape[2], device=u.device, dtype=u.dtype)[:, None]
    columns = torch.linspace(-1, 1, u.shape[3], device=u.device, dtype=u.dtype)
    return u + strength * (level + across * columns + down * rows)


def detector_noise(u: Tensor, shot: float, read: float, generator: Generator = None) -> Tensor:
    """u + (s sqrt(u) + r) noise: of counted photons, whose variance grows with the value, and of the detector."""
    changed = u + shot * u.clamp_min(0).add(SMALLEST).sqrt() * randn(u, generator)
    return changed + read * randn(u, generator) if read else changed


def defocus(u: Tensor, radius: float, generator: Generator = None) -> Tensor:
    """The mean in a disk around each pixel, of a radius from 0 to `radius` pixels for each image."""
    reach = int(radius) + 1
    steps = torch.arange(-reach, reach + 1, device=u.device, dtype=u.dtype)
    distance = (steps.square()[:, None] + steps.square()).sqrt()
    r = radius * rand((len(u), 1, 1), u, generator)
    disk = (r + 0.5 - distance).clamp(0, 1)
    disk = disk / disk.sum((1, 2), keepdim=True)
    weights = disk[:, None, None].expand(-1, u.shape[1], -1, -1, -1).reshape(-1, 1, *disk.shape[1:])
    padded = F.pad(u, (reach,) * 4, mode="replicate")
    return F.conv2d(padded.flatten(0, 1)[None], weights, groups=len(weights)).view(u.shape)


def channel_dropout(u: Tensor, rate: float, generator: Generator = None) -> Tensor:
    """Each channel with a probability replaced by its mean over the image; one, drawn at random, always stays."""
    dropped = rand((len(u), u.shape[1]), u, generator) < rate
    stays = randint(u.shape[1], (len(u), 1), u, generator)
    dropped = dropped.scatter(1, stays.long(), False)
    return torch.where(dropped[..., None, None], u.mean((2, 3), keepdim=True), u)


def registration_shift(u: Tensor, pixels: int, generator: Generator = None) -> Tensor:
    """Each channel but the first moved by up to so many whole pixels; the edge is repeated."""
    for axis in (2, 3):
        shift = randint(2 * pixels + 1, (len(u), u.shape[1], 1), u, generator).long() - pixels
        shift = shift * (torch.arange(u.shape[1], device=u.device)[:, None] > 0)
        at = (torch.arange(u.shape[axis], device=u.device) + shift).clamp(0, u.shape[axis] - 1)
        u = u.gather(axis, at.unsqueeze(5 - axis).expand_as(u))
    return u


def _views(
    context: ViewContext, change: Callable[[Tensor, Generator], Tensor], *, of_any_size: bool = True
) -> ValueViews:
    mean, std = context.statistics["pixel_mean"], context.statistics["pixel_scale"]
    return ValueViews(change, mean, std, "dtype" not in context.statistics, of_any_size)


def _several(context: ViewContext, name: str) -> ViewContext:
    """The context; raises InputError for images of one channel."""
    if len(context.statistics["pixel_mean"]) < 2:
        raise InputError(f"the views {name!r} are for images of at least 2 channels, and these have 1: leave them out")
    return context


@view(
    "gain",
    help="each channel times a random factor, plus a random offset if wanted",
    strengths=at(gain_strength=(0.3, 0.1)),
)
def _gain(context: ViewContext, *, gain_strength: Strength = 0.3, offset_strength: Strength = 0.0) -> ValueViews:
    return _views(context, lambda u, g: gain(u, gain_strength, offset_strength, g))


@view("gamma", help="a random power of each channel in its range", strengths=at(gamma_strength=(0.2, 0.4)))
def _gamma(context: ViewContext, *, gamma_strength: Strength = 0.2) -> ValueViews:
    return _views(context, lambda u, g: gamma(u, gamma_strength, g))


@view("background", help="a random level and slope of each channel", strengths=at(background_strength=(0.05, 0.1)))
def _background(context: ViewContext, *, background_strength: Strength = 0.05) -> ValueViews:
    return _views(context, lambda u, g: background(u, background_strength, g))


@view(
    "detector-noise",
    help="noise of counted photons, and of the detector",
    strengths=at(shot_noise=(0.05, 0.1), read_noise=(0.025, 0.05)),
)
def _detector_noise(context: ViewContext, *, shot_noise: Strength = 0.05, read_noise: Strength = 0.0) -> ValueViews:
    return _views(context, lambda u, g: detector_noise(u, shot_noise, read_noise, g), of_any_size=False)


@view("defocus", help="images out of focus: means in a disk", strengths=at(defocus_radius=(1.0, 2.0)))
def _defocus(context: ViewContext, *, defocus_radius: Annotated[float, Bounds(gt=0, le=50)] = 1.0) -> ValueViews:
    return _views(context, lambda u, g: defocus(u, defocus_radius, g), of_any_size=False)


@view("channel-dropout", help="channels of images left out, one always stays", strengths=at(dropout_rate=(0.25, 0.5)))
def _channel_dropout(context: ViewContext, *, dropout_rate: Fraction = 0.25) -> ValueViews:
    return _views(_several(context, "channel-dropout"), lambda u, g: channel_dropout(u, dropout_rate, g))


@view("registration", help="channels moved by some pixels against the first one", strengths=at(shift_pixels=(1, 2)))
def _registration(context: ViewContext, *, shift_pixels: Annotated[int, Bounds(ge=1, le=100)] = 1) -> ValueViews:
    context = _several(context, "registration")
    return _views(context, lambda u, g: registration_shift(u, shift_pixels, g), of_any_size=False)
