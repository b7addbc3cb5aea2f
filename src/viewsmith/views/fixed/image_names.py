"""Registered names of the image view makers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from viewsmith.core.registry import register
from viewsmith.views.base import ViewContext, ViewMaker
from viewsmith.views.fixed.images import ImageViews, PairedImageViews, Recipe, image_recipe

# "auto" is resolved by a test of the data; without data it is the published rate.
MIRROR = {"flip": "mirror"}


def _rate(flip: float | Literal["auto"]) -> float:
    return 0.5 if flip == "auto" else flip


def _recipe(
    name: Recipe,
    context: ViewContext,
    color_strength: float,
    flip: float | Literal["auto"],
    crop_minimum: float | Literal["auto"],
    local_crops: int = 4,
) -> ViewMaker:
    crops: dict[str, Any] = {} if crop_minimum == "auto" else {"scale": (crop_minimum, 1.0)}
    height, width = context.row_shape[:2]
    return image_recipe(
        name,
        size=(height, width),
        strength=color_strength,
        flip=_rate(flip),
        crops=local_crops,
        mean=context.stats["pixel_mean"],
        std=context.stats["pixel_scale"],
        **crops,
    )


def _register_recipe(name: Recipe, help: str, source: str) -> None:
    @register("view maker", name, help=help, domains="images", source=source, symmetry=MIRROR)
    def recipe(
        context: ViewContext,
        *,
        crop_minimum: float | Literal["auto"] = "auto",
        flip: float | Literal["auto"] = "auto",
        color_strength: float = 1.0,
    ) -> ViewMaker:
        return _recipe(name, context, color_strength, flip, crop_minimum)


_register_recipe("simclr", "random crop, flip, color jitter, grayscale", "Chen et al. 2020")


@register(
    "view maker",
    "crop",
    help="random crop and flip, unchanged colors",
    domains="images",
    symmetry=MIRROR,
)
def _crop(
    context: ViewContext,
    *,
    crop_minimum: float | Literal["auto"] = "auto",
    flip: float | Literal["auto"] = "auto",
) -> ViewMaker:
    least = 0.08 if crop_minimum == "auto" else crop_minimum
    mean, std = context.stats["pixel_mean"], context.stats["pixel_scale"]
    return ImageViews(scale=(least, 1.0), flip=_rate(flip), jitter=0, gray=0, mean=mean, std=std)


_register_recipe("byol", "a different recipe for each view, with blur and solarization", "Grill et al. 2020")
_register_recipe("moco", "crops, color jitter and blur of MoCo v2", "Chen, Fan et al. 2020")


def _local_size(row_shape: Sequence[int], facts: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
    maker = image_recipe("multicrop", size=(row_shape[0], row_shape[1]))
    assert isinstance(maker, PairedImageViews)
    return "small crops of multicrop", maker.size


@register(
    "view maker",
    "multicrop",
    help="two full crops and several small ones, for frameworks with local views",
    domains="images",
    source="Caron et al. 2020",
    local_views=True,
    symmetry=MIRROR,
    smaller=_local_size,
)
def _multicrop(
    context: ViewContext,
    *,
    crop_minimum: float | Literal["auto"] = "auto",
    flip: float | Literal["auto"] = "auto",
    color_strength: float = 1.0,
    local_crops: int = 4,
) -> ViewMaker:
    return _recipe("multicrop", context, color_strength, flip, crop_minimum, local_crops)
