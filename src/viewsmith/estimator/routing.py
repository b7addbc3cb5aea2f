"""Pass options by name to the chosen parts that have them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from viewsmith.core.errors import InputError, name_list
from viewsmith.core.registry import Entry, Kind, entries, find, get
from viewsmith.estimator.arguments import Arguments
from viewsmith.estimator.options import check_part_options
from viewsmith.estimator.resolve import MODULE
from viewsmith.modalities import Modality, modality_of

#: Arguments with options of parts, by the argument with the names of the parts.
OPTIONS_OF = {"framework": "framework_options", "view_maker": "view_options", "encoder": "encoder_options"}

KINDS: dict[str, Kind] = {"framework": "framework", "view_maker": "view maker", "encoder": "encoder"}


def route_options(
    cls: type[Arguments], given: Mapping[str, Any], modality: str | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Arguments for an estimator; options that it does not have are passed to the chosen parts that have them."""
    own = {field.name for field in dataclasses.fields(cls)}
    left = given.keys() - own
    if not left:
        return dict(given), []
    chosen = {argument: _chosen(cls, given, argument, modality) for argument in OPTIONS_OF}
    arguments = {name: value for name, value in given.items() if name in own}
    for name in sorted(left):
        takers = {arg: entry for arg, found in chosen.items() for entry in found[::-1] if name in entry.options}
        if len(takers) > 1:
            parts = " and ".join(f"the {entry.kind} {entry.name!r}" for entry in takers.values())
            tables = " or ".join(f"[{OPTIONS_OF[argument]}]" for argument in takers)
            raise InputError(f"{name} is an option of {parts}: set it in a file (--config), in the table {tables}")
        if not takers:
            _check_not_elsewhere(cls, name, modality)
            arguments[name] = given[name]
        for argument, entry in takers.items():
            value = given[name] if modality is None else check_part_options(entry, {name: given[name]})[name]
            there = arguments.get(OPTIONS_OF[argument])
            arguments[OPTIONS_OF[argument]] = (there if isinstance(there, dict) else {}) | {name: value}
    return arguments, sorted({name for found in chosen.values() for entry in found for name in entry.options} - own)


def _check_not_elsewhere(cls: type[Arguments], name: str, modality: str | None) -> None:
    """Raise InputError, with the name of the part, for an option of a part that is not chosen."""
    for argument, kind in KINDS.items():
        for entry in entries(kind, modality):
            if name in entry.options and entry.tag("general", True):
                raise InputError(
                    f"{cls.__name__} has no option {name!r}, but the {kind} {entry.name!r} has: set "
                    f"{argument} to it, or leave {name} out"
                )
    methods: list[Any] = entries("method")
    owners = [each.name for each in methods if name in {field.name for field in dataclasses.fields(each.build)}]
    if owners:
        raise InputError(
            f"{cls.__name__} has no option {name!r}, which is one of {name_list(owners)}: choose the method "
            f"(--method), or leave {name} out"
        )


def _chosen(cls: type[Arguments], given: Mapping[str, Any], argument: str, modality: str | None) -> list[Entry]:
    """Registry entries of the parts that an argument names; for "auto", the possible defaults."""
    text = str(given.get(argument, getattr(cls, argument)))
    if text.startswith(MODULE):
        return []
    kind = KINDS[argument]
    if kind == "framework":
        return [find(kind, text)]
    found: list[Entry] = []
    for each in [modality_of(e.name) for e in entries("modality")] if modality is None else [modality_of(modality)]:
        names = _defaults(each, argument) if text == "auto" else text.split("+") if kind == "view maker" else [text]
        found += [entry for name in names if (entry := get(kind, name, each.name)) is not None]
    if not found and text != "auto":
        find(kind, text.split("+")[0], modality)
    return found


def _defaults(modality: Modality, argument: str) -> list[str]:
    if argument == "encoder":
        return [modality.default_encoder, modality.default_encoder_on_gpu]
    return modality.default_views.split("+")
