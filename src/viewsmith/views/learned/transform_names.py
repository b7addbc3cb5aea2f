"""The names of families of transformations, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from viewsmith.core.registry import register
from viewsmith.views.learned.transforms import Crops, Masks, crop_grid
from viewsmith.views.learned.windows import Detrend, Windows


@dataclass(frozen=True)
class TransformsContext:
    """The arguments that a registered family of transformations is built from.

    A family is registered by ``@register("transforms", ...)`` on a function of this context, whose keyword-only
    arguments are its options. Its traits: ``noun`` (its name in messages) and ``learning_rate`` (of CRL-TAC's encoder,
    if it is not the default).

    Attributes
    ----------
    row_shape : tuple of int
        Shape of a sample as given by the user.
    channels : int
        First dimension of a scaled sample.
    seed : int
    columns : sequence of int or None
        Of a table: the number of the column that each feature is of.
    """

    row_shape: tuple[int, ...]
    channels: int
    seed: int
    columns: Sequence[int] | None = None


@register("transforms", "crops", help="crops on a grid", domains="images", noun="crops of images")
def _crops(
    context: TransformsContext,
    *,
    crop_size: int | Literal["auto"] | None = None,
    crop_stride: int | Literal["auto"] = "auto",
    crop_scales: tuple[float, ...] = (1.0,),
    crop_flips: bool = False,
) -> Crops:
    crop, stride = crop_grid(context.row_shape, crop_size, crop_stride)
    return Crops(*context.row_shape[:2], crop=crop, stride=stride, scales=crop_scales, flip=crop_flips)


@register(
    "transforms",
    "masks",
    help="subsets of the features",
    domains="vectors",
    noun="masks of vectors",
)
def _masks(context: TransformsContext, *, masks: int = 64, mask_fraction: float = 0.5) -> Masks:
    return Masks(context.columns or context.row_shape[0], count=masks, keep=mask_fraction, seed=context.seed)


@register(
    "transforms",
    "windows",
    help="windows of sequences",
    domains=("dna", "series"),
    noun="windows of sequences",
    learning_rate=5e-4,
)
def _windows(
    context: TransformsContext, *, windows: int = 16, window_fraction: float = 0.5, detrend: Detrend = "none"
) -> Windows:
    padded = len(context.row_shape) == 1  # recordings (channels, time) have one length
    return Windows(fraction=window_fraction, count=windows, padded=padded, detrend=detrend)
