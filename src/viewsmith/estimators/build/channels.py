"""From settings to an augmentation channel: the family of transformations and the network that scores them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.domains.images import same_shape
from viewsmith.estimators.build.custom_transforms import OWN, is_own, rebuilt
from viewsmith.estimators.build.model import channels_of
from viewsmith.estimators.build.resolve import CHANNEL, crop_of, view_names
from viewsmith.networks.channels import CropScores, ImageScores, MaskScores, PositionScores, SequenceScores
from viewsmith.core.tensors import load_weights
from viewsmith.training.run import RunFolder
from viewsmith.views.learned.augmentation_channel import AugmentationChannel, Counts, nonzero
from viewsmith.views.learned.transforms import Crops, Family, Masks, Windows


def target_of(options: SimpleNamespace, family: Family) -> float | None:
    """The effective number of transformations that the channel must not fall below.

    Raises
    ------
    InputError
        There are fewer.
    """
    target = options.effective_target
    if target == "auto":
        return min(8.0, 0.9 * family.size)
    if target is not None and target > family.size:
        raise InputError(
            f"effective_target is {target:g}, and the family has {family.size} transformations: take that or less"
        )
    return None if target is None else float(target)


def nonempty_of(settings: SimpleNamespace) -> Counts | None:
    """Which views show something: the user's function; of images as they are, whatever is not black; else unknown."""
    if callable(settings.nonempty):
        counts: Counts = settings.nonempty
        return counts
    black = settings.nonempty == "auto" and settings.domain == "images" and settings.scaling == "none"
    return nonzero if black else None


def make_family(settings: SimpleNamespace) -> Family:
    """The transformations of the domain, or the user's own.

    Raises
    ------
    InputError
        The samples are too small for more than one; a family of the user's own is missing.
    """
    if is_own(settings.family):
        return rebuilt(settings.family, settings.own_family, settings.domain)
    if settings.domain == "vectors":
        return Masks(settings.row_shape[0], count=settings.masks, keep=settings.mask_fraction, seed=settings.seed)
    if settings.domain == "dna":
        return Windows(share=settings.window_fraction, count=settings.windows)
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
    return AugmentationChannel(family, _scores(settings, family))


def _scores(settings: SimpleNamespace, family: Family) -> nn.Module:
    """One score a crop or a base where the family is made of these; else a network with M outputs."""
    if isinstance(family, Crops):
        return CropScores(channels_of(settings))
    if isinstance(family, Windows):
        return PositionScores()
    if settings.domain == "vectors":
        return MaskScores(settings.row_shape[0], family.size)
    return SequenceScores(family.size) if settings.domain == "dna" else ImageScores(channels_of(settings), family.size)


# ---- as view makers of other methods --------------------------------------------------------------------------------

#: What a channel is built from again; kept with the model that it serves.
SPECIFICATION = (
    *("domain", "row_shape", "seed", "channel", "crop_size", "crop_stride", "crop_scales", "crop_flips"),
    *("masks", "mask_fraction", "windows", "window_fraction"),
)


def uniform_crops(settings: SimpleNamespace) -> AugmentationChannel:
    """The view maker grid-crop: uniform over the crops that CRL-TAC would take."""
    crop, stride = crop_of(settings.row_shape)
    return AugmentationChannel(Crops(*settings.row_shape[:2], crop=crop, stride=stride))


def follow_channel(options: SimpleNamespace, domain: str, row_shape: Sequence[int]) -> None:
    """Take scaling and specification (`channel_from`) of the run whose channel makes the views.

    Raises
    ------
    InputError
        The run is not CRL-TAC's, or of other samples, or scaled in another way, or its transformations are functions.
    """
    run = _run(view_names(options.view_maker, domain)[-1])
    known = _described(run)
    if known["domain"] != domain or (domain != "dna" and not same_shape(known["row_shape"], row_shape)):
        raise InputError(
            f"the channel of {run.path} was trained on {known['domain']} of shape {tuple(known['row_shape'])}, and "
            f"these are {domain} of shape {tuple(row_shape)}: give samples like those it was trained on"
        )
    if options.scaling not in ("auto", known["scaling"]):
        raise InputError(
            f"scaling is {options.scaling!r}, and the channel of {run.path} was trained with {known['scaling']!r}: "
            "leave scaling out"
        )
    options.scaling = known["scaling"]
    options.channel_from = {name: known[name] for name in SPECIFICATION}


def trained_channel(settings: SimpleNamespace) -> AugmentationChannel:
    """The channel of a run of CRL-TAC, which learns no more; its weights are kept with the model it serves."""
    specification = SimpleNamespace(**settings.channel_from, family="auto")
    made = make_channel(specification, learned=specification.channel == "learned")
    if settings.fresh:
        run, prefix = _run(settings.view_maker), "method.channel."
        weights = {name.removeprefix(prefix): w for name, w in run.read_weights()[0].items() if name.startswith(prefix)}
        load_weights(made, weights, str(run.model))
    return made.requires_grad_(False)


def _run(view_maker: str) -> RunFolder:
    return RunFolder(view_maker.partition(CHANNEL)[2])


def _described(run: RunFolder) -> dict[str, Any]:
    """Options of a run of CRL-TAC, with what fit resolved in place of "auto"."""
    config = run.read_config()
    method = config.get("method")
    if method != "crl-tac":
        raise InputError(f"{run.path} is a run of {method}, which has no channel: give one of crl-tac")
    known: dict[str, Any] = {**config.get("parameters", {}), **config.get("fitted", {})}
    if missing := {*SPECIFICATION, "scaling"} - known.keys():
        raise InputError(f"{run.config} is incomplete: it has no {min(missing)!r}; restore it or train again")
    if str(known.get("family")).startswith(OWN):
        raise InputError(
            f"the channel of {run.path} chooses from functions of the user's own, which a run does not keep: give a "
            "run of crl-tac with the family 'auto'"
        )
    return known
