"""View makers of images that change one thing: light, color, gray, blur, the gain of channels, turns."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from viewsmith.core.errors import check_weight
from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.images.channels import check_photographs
from viewsmith.modalities.images.views import SYMMETRY, Chance, ImageViews, Rate, Turning, flip_rates, of_photographs
from viewsmith.views.base import ViewContext, ViewMaker, at, randn

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


def _unchanged(context: ViewContext, **changes: float | tuple[float, float]) -> ImageViews:
    """Views of whole images with these changes alone."""
    mean, std = context.statistics["pixel_mean"], context.statistics["pixel_scale"]
    none = {"flip": 0.0, "jitter": 1.0, "gray": 0.0}
    none |= {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    return ImageViews(scale=WHOLE, mean=mean, std=std, **(none | changes))  # type: ignore[arg-type]


class ChannelGain(ViewMaker):
    """Each channel of each image times a random factor exp(s e), plus t e', with Gaussian e and e', in pixels."""

    mean: Tensor
    std: Tensor
    static_step = True

    def __init__(
        self,
        strength: float = 0.3,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        *,
        offset: float = 0.0,
        clips: bool = True,
    ) -> None:
        super().__init__()
        check_weight("strength", strength)
        check_weight("offset", offset)
        self.strength, self.offset, self.clips = strength, offset, clips
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1).float(), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1).float(), persistent=False)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        factor = (self.strength * randn(x[..., :1, :1], generator)).exp()
        mean, std = self.mean.to(x), self.std.to(x)
        changed = (x * std + mean) * factor
        if self.offset:
            changed = changed + self.offset * randn(x[..., :1, :1], generator)
        return (changed.clamp(0, 1) if self.clips else changed).sub(mean).div(std)


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
def _gray(context: ViewContext, *, gray_rate: Chance = 0.5) -> ImageViews:
    return _unchanged(_colored(context, "gray"), jitter=0.0, gray=gray_rate)


@view("blur", help="Gaussian blur", strengths=at(blur_sigma=(1.0, 2.0)))
def _blur(context: ViewContext, *, blur_sigma: Annotated[float, Bounds(gt=0.1, le=50)] = 1.0) -> ImageViews:
    return _unchanged(context, jitter=0.0, blur=1.0, sigma=(0.1, blur_sigma))


@view(
    "gain",
    help="each channel times a random factor, plus a random offset if wanted",
    strengths=at(gain_strength=(0.3, 0.1)),
)
def _gain(context: ViewContext, *, gain_strength: Strength = 0.3, offset_strength: Strength = 0.0) -> ChannelGain:
    mean, std = context.statistics["pixel_mean"], context.statistics["pixel_scale"]
    return ChannelGain(gain_strength, mean, std, offset=offset_strength, clips="dtype" not in context.statistics)
