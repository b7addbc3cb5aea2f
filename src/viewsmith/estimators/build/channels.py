"""From a plan to an augmentation channel; and a trained channel as a view maker of other methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Entry, entries, register
from viewsmith.core.tensors import load_weights
from viewsmith.domains import Domain, domain_of
from viewsmith.estimators.arguments import Arguments
from viewsmith.estimators.build.custom_transforms import CUSTOM, FamilyOption, is_custom, rebuild_family
from viewsmith.training.run import RunFolder
from viewsmith.views.base import ViewContext
from viewsmith.views.learned.augmentation_channel import AugmentationChannel
from viewsmith.views.learned.transforms import Family, TransformsContext

CHANNEL = "channel:"  # before the run of CRL-TAC whose augmentation channel makes the views


def transforms_of(domain: Domain) -> Entry:
    """The family of transformations that serves a domain."""
    found = entries("transforms", domain.name)
    if not found:
        raise InputError(f"there are no transformations for {domain.name}: give a family of your own")
    return found[0]


def make_family(
    domain: Domain,
    row_shape: tuple[int, ...],
    seed: int,
    options: Mapping[str, Any],
    family: FamilyOption = "auto",
    custom: Mapping[str, Any] | None = None,
) -> Family:
    """The transformations of the domain, or the user's own.

    Parameters
    ----------
    domain : Domain
    row_shape : tuple of int
    seed : int
    options : mapping
        Of the domain's transformations.
    family : str, Family or list of callable
    custom : mapping, optional
        What was found of a family of the user's own, see `inspect_family`.

    Raises
    ------
    InputError
        The samples are too small for more than one; a family of the user's own is missing.
    """
    if is_custom(family):
        return rebuild_family(family, dict(custom or {}), domain)
    context = TransformsContext(row_shape, domain.channels(row_shape), seed)
    made: Family = transforms_of(domain).build(context, **options)
    return made


def make_channel(
    domain: Domain, row_shape: tuple[int, ...], family: Family, *, learned: bool = True
) -> AugmentationChannel:
    """The channel of a family with fresh weights, or the uniform one."""
    if not learned:
        return AugmentationChannel(family)
    network = family.score_network(domain.channels(row_shape), domain.blank(row_shape).ndim - 1)
    return AugmentationChannel(family, network)


# ---- as a view maker of other methods -------------------------------------------------------------------------------


def _adapt(options: Arguments, domain: Domain, row_shape: tuple[int, ...]) -> Arguments:
    """Take the scaling of the run whose channel makes the views.

    Raises
    ------
    InputError
        The run is not CRL-TAC's, or of other samples, or scaled in another way, or its transformations are functions.
    """
    run = _run(str(options.view_maker).split("+")[-1])
    known = _specification(run)
    if known["domain"] != domain.name or not domain.same_shape(known["row_shape"], row_shape):
        raise InputError(
            f"the channel of {run.path} was trained on {known['domain']} of shape {tuple(known['row_shape'])}, and "
            f"these are {domain.name} of shape {tuple(row_shape)}: give samples like those it was trained on"
        )
    if options.scaling not in ("auto", known["scaling"]):
        raise InputError(
            f"scaling is {options.scaling!r}, and the channel of {run.path} was trained with {known['scaling']!r}: "
            "leave scaling out"
        )
    return dataclasses.replace(options, scaling=known["scaling"])


def _facts(options: Arguments, data: Any) -> dict[str, Any]:
    """What the channel is built from again; kept with the model that it serves."""
    return {"channel": _specification(_run(str(options.view_maker).split("+")[-1]))}


def _crop_size(row_shape: tuple[int, ...], facts: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    crop = facts["channel"]["options"].get("crop_size")
    return None if crop is None else ("crops of the channel", (crop, crop))


@register(
    "view maker",
    CHANNEL,
    help="drawn from the augmentation channel of a run of crl-tac",
    source="Koyama et al. 2021",
    argument="RUN",
    argument_help="the folder of a run of crl-tac",
    changes_shape=True,
    adapt=_adapt,
    facts=_facts,
    smaller=_crop_size,
)
def trained_channel(context: ViewContext) -> AugmentationChannel:
    """The channel of a run of CRL-TAC, which learns no more; its weights are kept with the model it serves."""
    known = context.facts["channel"]
    domain, row_shape = domain_of(known["domain"]), tuple(known["row_shape"])
    family = make_family(domain, row_shape, known["seed"], known["options"])
    made = make_channel(domain, row_shape, family, learned=known["learned"])
    if context.fresh:
        run, prefix = _run(context.name), "method.channel."
        weights = {name.removeprefix(prefix): w for name, w in run.read_weights()[0].items() if name.startswith(prefix)}
        load_weights(made, weights, str(run.model))
    return made.requires_grad_(False)


def _run(view_maker: str) -> RunFolder:
    return RunFolder(view_maker.removeprefix(CHANNEL))


def _specification(run: RunFolder) -> dict[str, Any]:
    """What the channel of a run of CRL-TAC is built from."""
    config = run.read_config()
    method = config.get("method")
    if method != "crl-tac":
        raise InputError(f"{run.path} is a run of {method}, which has no channel: give one of crl-tac")
    parameters, fitted = config.get("parameters", {}), config.get("fitted", {})
    if str(parameters.get("family")).startswith(CUSTOM):
        raise InputError(
            f"the channel of {run.path} chooses from functions of the user's own, which a run does not keep: give a "
            "run of crl-tac with the family 'auto'"
        )
    known = {"learned": parameters.get("channel", "learned") == "learned", "options": fitted.get("family_options")}
    known |= {name: fitted.get(name) for name in ("domain", "row_shape", "seed", "scaling")}
    if missing := [name for name, value in known.items() if value is None]:
        written = "family_options" if missing[0] == "options" else missing[0]
        raise InputError(f"{run.config} is incomplete: it has no {written!r}; restore it or train again")
    return known
