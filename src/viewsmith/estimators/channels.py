"""From settings to an augmentation channel: the family of transformations and the network that scores them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.estimators.parts import channels_of
from viewsmith.estimators.settings import CHANNEL, crop_of, view_names
from viewsmith.networks.channels import CropScores, MaskScores, PositionScores
from viewsmith.views.channel import AugmentationChannel
from viewsmith.views.families import Crops, Family, Masks, Windows


def target_of(options: SimpleNamespace, fitted: dict[str, Any]) -> float | None:
    """The effective number of transformations that the channel must not fall below."""
    if options.effective_target != "auto":
        return None if options.effective_target is None else float(options.effective_target)
    family = make_family(SimpleNamespace(**{**vars(options), **fitted}))
    return min(8.0, 0.9 * family.size)


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


# ---- as view makers of other methods --------------------------------------------------------------------------------

#: What a channel is built from again; kept with the model that it serves.
SPECIFICATION = (
    *("domain", "row_shape", "seed", "channel", "crop_size", "crop_stride", "crop_scales", "crop_flips"),
    *("masks", "mask_share", "windows", "window_share"),
)


def uniform_crops(settings: SimpleNamespace) -> AugmentationChannel:
    """The view maker grid-crop: uniform over the crops that CRL-TAC would take."""
    crop, stride = crop_of(settings.row_shape)
    return AugmentationChannel(Crops(*settings.row_shape[:2], crop=crop, stride=stride))


def follow_channel(options: SimpleNamespace, domain: str, row_shape: Sequence[int]) -> None:
    """Take scaling and specification of the run whose channel makes the views.

    Raises
    ------
    InputError
        The run is not CRL-TAC's, or of other samples, or scaled in another way.
    """
    run = view_names(options.view_maker, domain)[-1].removeprefix(CHANNEL)
    model = _crl_tac(run)
    theirs = model.fitted_
    if theirs["domain"] != domain or (domain != "dna" and list(theirs["row_shape"]) != list(row_shape)):
        raise InputError(
            f"the channel of {run} was trained on {theirs['domain']} of shape {tuple(theirs['row_shape'])}, and these "
            f"are {domain} of shape {tuple(row_shape)}: give samples like those it was trained on"
        )
    if options.scaling not in ("auto", theirs["scaling"]):
        raise InputError(
            f"scaling is {options.scaling!r}, and the channel of {run} was trained with {theirs['scaling']!r}: "
            "leave scaling out"
        )
    options.scaling = theirs["scaling"]


def channel_specification(view_maker: str) -> dict[str, Any]:
    """All that builds the channel of a run again, its weights apart; nothing for other view makers."""
    if CHANNEL not in view_maker:
        return {}
    model = _crl_tac(view_maker.partition(CHANNEL)[2])
    known = {**vars(model.options_), **model.fitted_}
    return {"channel_from": {name: known[name] for name in SPECIFICATION}}


def trained_channel(settings: SimpleNamespace) -> AugmentationChannel:
    """The channel of a run of CRL-TAC, which learns no more; its weights are kept with the model it serves."""
    specification = SimpleNamespace(**settings.channel_from)
    made = make_channel(specification, learned=specification.channel == "learned")
    if settings.fresh:
        made.load_state_dict(_crl_tac(settings.view_maker.partition(CHANNEL)[2]).method_.channel.state_dict())
    return made.requires_grad_(False)


def _crl_tac(run: str) -> Any:
    from viewsmith.estimators import load

    model = load(run)
    if model.name != "crl-tac":
        raise InputError(f"{run} is a run of {model.name}, which has no channel: give one of crl-tac")
    return model
