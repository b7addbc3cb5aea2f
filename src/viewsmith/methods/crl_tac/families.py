"""Families of transformations and channels from what the user gives: functions, options, or a trained channel."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import Entry, entries, find, register
from viewsmith.core.samples import block_size
from viewsmith.core.tensors import load_weights
from viewsmith.estimator.arguments import Arguments
from viewsmith.estimator.plan import TrainingData, check_crops
from viewsmith.methods.crl_tac.channel import AugmentationChannel
from viewsmith.methods.crl_tac.transforms import Family, Functions, TransformsContext
from viewsmith.modalities import Modality, modality_of
from viewsmith.training.run import RunFolder
from viewsmith.views.base import ViewContext

CUSTOM = "family:"  # prefix of a custom family in configurations
FamilyOption = str | Family | Sequence[Callable[[Tensor], Tensor]]


def family_text(family: FamilyOption) -> str:
    """The text for a family in a configuration."""
    if isinstance(family, str):
        return family
    if isinstance(family, Family):
        return f"{CUSTOM}{type(family).__name__} of {family.size}"
    return f"{CUSTOM}{len(family)} functions"


def is_custom(family: FamilyOption) -> bool:
    """Whether the family is custom, not a text."""
    if not isinstance(family, str):
        return True
    if family.startswith(CUSTOM):
        raise InputError(
            f"the family of this model is custom ({family.removeprefix(CUSTOM)}): give it, as in "
            "viewsmith.load(run, family=family)"
        )
    if family != "auto":
        raise InputError(
            f"family is {family!r}, expected 'auto', or in Python a viewsmith.views.Family or a list of functions"
        )
    return False


def copy_of(family: FamilyOption) -> Family:
    """A copy of the family, with frozen weights if it has any."""
    assert not isinstance(family, str)
    made = copy.deepcopy(family) if isinstance(family, Family) else Functions(family)
    return made.requires_grad_(False)


def inspect_family(options: Any, data: TrainingData) -> dict[str, Any]:
    """Size and shapes of a custom family, from its views of some training samples."""
    x, device = data.x, data.device
    family = copy_of(options.family).to(device)
    name, size = type(family).__name__, getattr(family, "size", None)
    if not isinstance(size, int) or size < 2:
        raise InputError(f"the family {name} has size {size}, expected at least 2 transformations")
    names = getattr(family, "names", None)
    if names is not None and (isinstance(names, str) or [*map(str, names)] != [*names] or len(names) != size):
        raise InputError(f"the family {name} has the names {names!r}, expected {size} strings or None")
    some = x[: max(2, min(64, block_size(x[:1]) // size))].to(device)
    with torch.no_grad():
        try:
            views, again = family.all_views(some), family.all_views(some)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the family {name} fails on samples {tuple(some.shape)}: {error_text(error)}") from error
    if not isinstance(views, Tensor) or views.shape[:2] != (len(some), size) or views.ndim < 3:
        given = tuple(views.shape) if isinstance(views, Tensor) else type(views).__name__
        raise InputError(
            f"the family {name} returns {given}, expected ({len(some)}, {size}, ...): all views of each sample"
        )
    if not torch.isfinite(views).all():
        raise InputError(f"the family {name} returned values that are not finite for samples of the training set")
    if not torch.allclose(views, again):
        raise InputError(
            f"the family {name} returns different views of the same samples in a second call: expected the same views; "
            "draw random parameters only once"
        )
    shapes = tuple(some.shape[1:]), tuple(views.shape[2:])
    if not isinstance(options.encoder, nn.Module):  # custom encoders are tested on the views later
        _check_encoder(options.encoder, data.modality, shapes)
    return {"size": size, "sample": list(shapes[0]), "view": list(shapes[1])}


def _check_encoder(encoder: str, modality: Modality, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Check that the encoder accepts the views."""
    if not like_samples(*shapes):
        raise InputError(
            f"the encoder {encoder} expects samples of shape {shapes[0]}, but the views of the family have shape "
            f"{shapes[1]}: keep the number of features or channels, or give a custom encoder"
        )
    entry = find("encoder", encoder, modality.name)
    check_crops("views", shapes[1][1:], entry, encoder, modality, shapes[0][1:])


def like_samples(sample: Sequence[int], view: Sequence[int]) -> bool:
    """Whether views have as many features or channels as samples; images and sequences may be smaller."""
    return len(view) == len(sample) and view[0] == sample[0]


def check_like_samples(sample: Sequence[int], view: Sequence[int]) -> None:
    """Raise InputError if views are not `like_samples`."""
    if not like_samples(sample, view):
        raise InputError(
            f"views of the custom family have shape {tuple(view)}, unlike samples {tuple(sample)}, and cannot be "
            "converted to the units of the data: use method_.channel.family.all_views(torch.tensor(scaled(X)))"
        )


def family_of_run(family: FamilyOption, known: dict[str, Any], modality: Modality) -> Family:
    """A copy of the custom family for a loaded model, with the shapes that were inspected in fit."""
    made = copy_of(family)
    if made.size != known["size"]:
        raise InputError(
            f"the family has {made.size} transformations, but the model was trained with {known['size']}: give the "
            "family that was given to fit"
        )
    if None not in modality.required_shape(known["sample"]):  # some modalities have samples of variable length
        made.shapes = tuple(known["sample"]), tuple(known["view"])
    return made


CHANNEL = "channel:"  # prefix of the CRL-TAC run whose augmentation channel draws the views


def transforms_of(modality: Modality) -> Entry:
    """The registered transformations of a modality; raises InputError if there are none."""
    found = entries("transforms", modality.name)
    if not found:
        raise InputError(f"no transformations are registered for {modality.name}: give a custom family")
    return found[0]


def make_family(
    modality: Modality,
    row_shape: tuple[int, ...],
    seed: int,
    options: Mapping[str, Any],
    family: FamilyOption = "auto",
    custom: Mapping[str, Any] | None = None,
    columns: Sequence[int] | None = None,
) -> Family:
    """The transformations of the modality, or custom ones."""
    if is_custom(family):
        return family_of_run(family, dict(custom or {}), modality)
    context = TransformsContext(row_shape, modality.channels(row_shape), seed, columns)
    return transforms_of(modality).build(context, **options)


def make_channel(
    modality: Modality, row_shape: tuple[int, ...], family: Family, *, learned: bool = True
) -> AugmentationChannel:
    """A channel for a family: learned, with fresh weights, or uniform."""
    if not learned:
        return AugmentationChannel(family)
    network = family.score_network(modality.channels(row_shape), modality.blank(row_shape).ndim - 1)
    return AugmentationChannel(family, network)


def _adapt(options: Arguments, modality: Modality, row_shape: tuple[int, ...]) -> Arguments:
    """Use the scaling of the run whose channel draws the views."""
    run = _run(str(options.view_maker).split("+")[-1])
    known = _specification(run)
    if known["modality"] != modality.name or not modality.same_shape(known["row_shape"], row_shape):
        raise InputError(
            f"the channel of {run.path} was trained on {known['modality']} of shape {tuple(known['row_shape'])}, but "
            f"the data are {modality.name} of shape {tuple(row_shape)}: give samples of the same shape"
        )
    if options.scaling not in ("auto", known["scaling"]):
        raise InputError(
            f"scaling is {options.scaling!r}, but the channel of {run.path} was trained with {known['scaling']!r}: "
            "leave scaling out"
        )
    return dataclasses.replace(options, scaling=known["scaling"])


def _derive(options: Arguments, data: Any) -> dict[str, Any]:
    """Settings of the channel, saved with the model that uses it."""
    return {"channel": _specification(_run(str(options.view_maker).split("+")[-1]))}


def _crop_size(row_shape: tuple[int, ...], derived: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    crop = derived["channel"]["options"].get("crop_size")
    return None if crop is None else ("crops of the channel", (crop, crop))


@register(
    "view maker",
    CHANNEL,
    help="drawn from the augmentation channel of a crl-tac run",
    source="Koyama et al. 2021",
    argument="RUN",
    argument_help="the folder of a crl-tac run",
    changes_shape=True,
    adapt=_adapt,
    derive=_derive,
    smaller=_crop_size,
)
def trained_channel(context: ViewContext) -> AugmentationChannel:
    """The frozen channel of a CRL-TAC run; its weights are saved with the model that uses it."""
    known = context.derived["channel"]
    modality, row_shape = modality_of(known["modality"]), tuple(known["row_shape"])
    family = make_family(modality, row_shape, known["seed"], known["options"], columns=known.get("columns"))
    made = make_channel(modality, row_shape, family, learned=known["learned"])
    if context.fresh:
        run, prefix = _run(context.name), "method.channel."
        weights = {name.removeprefix(prefix): w for name, w in run.read_weights()[0].items() if name.startswith(prefix)}
        load_weights(made, weights, str(run.model))
    return made.requires_grad_(False)


@register(
    "framework",
    "info-max",
    help="information that the projection of a view has of its sample (crl-tac)",
    source="Koyama et al. 2021",
    general=False,
    options={"projector_dims": tuple[int, ...]},
)
def _info_max() -> None:
    raise InputError("the framework 'info-max' is a part of the method crl-tac")


def _run(view_maker: str) -> RunFolder:
    return RunFolder(view_maker.removeprefix(CHANNEL))


def _specification(run: RunFolder) -> dict[str, Any]:
    """Settings from which the channel of a CRL-TAC run is built."""
    config = run.read_config()
    method = config.get("method")
    if method != "crl-tac":
        raise InputError(f"{run.path} is a run of {method}, which has no augmentation channel: give a crl-tac run")
    parameters, fitted = config.get("parameters", {}), config.get("fitted", {})
    if str(parameters.get("family")).startswith(CUSTOM):
        raise InputError(
            f"the channel of {run.path} has custom transformations, which are not saved with a run: give a crl-tac run "
            "with family='auto'"
        )
    known = {"learned": parameters.get("channel", "learned") == "learned", "options": fitted.get("family_options")}
    known |= {name: fitted.get(name) for name in ("modality", "row_shape", "seed", "scaling")}
    if missing := [name for name, value in known.items() if value is None]:
        written = "family_options" if missing[0] == "options" else missing[0]
        raise InputError(f"{run.config} is incomplete: it has no {written!r}; restore it or train again")
    return known | {"columns": fitted.get("statistics", {}).get("columns")}
