"""From settings to an augmentation channel: the family of transformations and the network that scores them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from torch import nn

from viewsmith.estimators.parts import channels_of
from viewsmith.networks.channels import CropScores, MaskScores, PositionScores
from viewsmith.views.channel import AugmentationChannel
from viewsmith.views.families import Crops, Family, Masks, Windows


def crop_of(options: SimpleNamespace, row_shape: Sequence[int]) -> tuple[int, int]:
    """Side and distance of the crops of images: the paper's, 20 and 4, where they leave a choice."""
    side = min(row_shape[:2])
    usual = (20, 4) if side >= 24 else (max(1, round(side * 5 / 7)), max(1, side // 8))
    return (
        usual[0] if options.crop_size == "auto" else options.crop_size,
        usual[1] if options.crop_stride == "auto" else options.crop_stride,
    )


def target_of(options: SimpleNamespace, fitted: dict[str, Any]) -> float | None:
    """The effective number of transformations that the channel must not fall below."""
    if options.effective_target != "auto":
        return None if options.effective_target is None else float(options.effective_target)
    family = make_family(SimpleNamespace(**{**vars(options), **fitted}))
    return float(min(8.0, max(2.0, family.size / 4)))


def make_family(settings: SimpleNamespace) -> Family:
    """The transformations of the domain.

    Raises
    ------
    InputError
        The samples are too small for more than one.
    """
    if settings.domain == "vectors":
        return Masks(settings.row_shape[0], count=settings.masks, keep=settings.mask_share, seed=settings.seed)
    if settings.domain == "dna":
        return Windows(share=settings.window_share, count=settings.windows)
    return Crops(
        *settings.row_shape[:2],
        crop=settings.crop_size,
        stride=settings.crop_stride,
        scales=settings.crop_scales,
        flip=settings.crop_flips,
    )


def make_channel(settings: SimpleNamespace, *, learned: bool = True) -> AugmentationChannel:
    """The channel with fresh weights, or the uniform one."""
    family = make_family(settings)
    if not learned:
        return AugmentationChannel(family)
    scores: nn.Module
    if isinstance(family, Crops):
        scores = CropScores(channels_of(settings))
    elif isinstance(family, Windows):
        scores = PositionScores()
    else:
        scores = MaskScores(settings.row_shape[0], family.size)
    return AugmentationChannel(family, scores)
