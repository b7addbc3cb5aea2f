"""Augmentation channels built from a plan, and a trained channel as a view maker of other methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Entry, entries, register
from viewsmith.core.tensors import load_weights
from viewsmith.domains import Domain, domain_of
from viewsmith.estimators.arguments import Arguments
from viewsmith.estimators.build.custom_transforms import CUSTOM, FamilyOption, family_of_run, is_custom
from viewsmith.training.run import RunFolder
from viewsmith.views.base import ViewContext
from viewsmith.views.learned.augmentation_channel import AugmentationChannel
from viewsmith.views.learned.transform_names import TransformsContext
from viewsmith.views.learned.transforms import Family

CHANNEL = "channel:"  # prefix of the CRL-TAC run whose augmentation channel draws the views


def transforms_of(domain: Domain) -> Entry:
    """The registered transformations of a domain; raises InputError if there are none."""
    found = entries("transforms", domain.name)
    if not found:
        raise InputError(f"no transformations are registered for {domain.name}: give a custom family")
    return found[0]


def make_family(
    domain: Domain,
    row_shape: tuple[int, ...],
    seed: int,
    options: Mapping[str, Any],
    family: FamilyOption = "auto",
    custom: Mapping[str, Any] | None = None,
    columns: Sequence[int] | None = None,
) -> Family:
    """The transformations of the domain, or custom ones.

    Parameters
    ----------
    domain : Domain
    row_shape : tuple of int
    seed : int
    options : mapping
        Options of the domain's transformations.
    family : str, Family or list of callable
    custom : mapping, optional
        Size and shapes of a custom family, see `inspect_family`.
    columns : sequence of int, optional
        Of a table: the number of the column that each feature is of.

    Raises
    ------
    InputError
        The samples are too small for more than one transformation; a custom family is missing.
    """
    if is_custom(family):
        return family_of_run(family, dict(custom or {}), domain)
    context = TransformsContext(row_shape, domain.channels(row_shape), seed, columns)
    made: Family = transforms_of(domain).build(context, **options)
    return made


def make_channel(
    domain: Domain, row_shape: tuple[int, ...], family: Family, *, learned: bool = True
) -> AugmentationChannel:
    """A channel for a family: learned, with fresh weights, or uniform."""
    if not learned:
        return AugmentationChannel(family)
    network = family.score_network(domain.channels(row_shape), domain.blank(row_shape).ndim - 1)
    return AugmentationChannel(family, network)


# ---- as a view maker of other methods -------------------------------------------------------------------------------


def _adapt(options: Arguments, domain: Domain, row_shape: tuple[int, ...]) -> Arguments:
    """Use the scaling of the run whose channel draws the views.

    Raises
    ------
    InputError
        The run is not a CRL-TAC run, or has other samples, another scaling or custom transformations.
    """
    run = _run(str(options.view_maker).split("+")[-1])
    known = _specification(run)
    if known["domain"] != domain.name or not domain.same_shape(known["row_shape"], row_shape):
        raise InputError(
            f"the channel of {run.path} was trained on {known['domain']} of shape {tuple(known['row_shape'])}, but "
            f"the data are {domain.name} of shape {tuple(row_shape)}: give samples of the same shape"
        )
    if options.scaling not in ("auto", known["scaling"]):
        raise InputError(
            f"scaling is {options.scaling!r}, but the channel of {run.path} was trained with {known['scaling']!r}: "
            "leave scaling out"
        )
    return dataclasses.replace(options, scaling=known["scaling"])


def _facts(options: Arguments, data: Any) -> dict[str, Any]:
    """Settings of the channel, saved with the model that uses it."""
    return {"channel": _specification(_run(str(options.view_maker).split("+")[-1]))}


def _crop_size(row_shape: tuple[int, ...], facts: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    crop = facts["channel"]["options"].get("crop_size")
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
    facts=_facts,
    smaller=_crop_size,
)
def trained_channel(context: ViewContext) -> AugmentationChannel:
    """The frozen channel of a CRL-TAC run; its weights are saved with the model that uses it."""
    known = context.facts["channel"]
    domain, row_shape = domain_of(known["domain"]), tuple(known["row_shape"])
    family = make_family(domain, row_shape, known["seed"], known["options"], columns=known.get("columns"))
    made = make_channel(domain, row_shape, family, learned=known["learned"])
    if context.fresh:
        run, prefix = _run(context.name), "method.channel."
        weights = {name.removeprefix(prefix): w for name, w in run.read_weights()[0].items() if name.startswith(prefix)}
        load_weights(made, weights, str(run.model))
    return made.requires_grad_(False)


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
    known |= {name: fitted.get(name) for name in ("domain", "row_shape", "seed", "scaling")}
    if missing := [name for name, value in known.items() if value is None]:
        written = "family_options" if missing[0] == "options" else missing[0]
        raise InputError(f"{run.config} is incomplete: it has no {written!r}; restore it or train again")
    return known | {"columns": fitted.get("stats", {}).get("columns")}
