"""Parts that an estimator is made of: each is a group of its options, which are also its own by name.

A part is a dataclass whose fields are declared once, with type, bounds and a sentence below. An estimator inherits the
fields of its parts, so ``PiNDA(noise=Noise(strength=0.5))``, ``PiNDA(strength=0.5)``,
``set_params(noise__strength=0.5)`` and ``--set noise.strength=0.5`` are the same.
"""

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, get_origin

from viewsmith.core.errors import InputError
from viewsmith.core.options import annotations_of, entries_of, wrapped


class OptionsSignature:
    """The arguments of a part as Python shows them: its options."""

    def __get__(self, part: Any, cls: Any) -> inspect.Signature:
        fields = getattr(cls, "__dataclass_fields__", {}).values()
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(field.name, kind, default=field.default) for field in fields])


class Part:
    """Options of one part of an estimator: those that are given; for others the estimator has the default."""

    slot: ClassVar[str] = ""  #: argument of estimators that takes the part
    lead: ClassVar[str] = ""  #: option that can be given without its name, as in ``Views("noise")``
    further: ClassVar[str] = ""  #: option with those of the named part, as in ``Views("window", window_minimum=0.5)``
    __signature__: ClassVar[Any] = OptionsSignature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "slot" in cls.__dict__ and (entries := entries_of(cls)):
            listed = "".join(entries.values())
            cls.__doc__ = wrapped(f"{inspect.cleandoc(cls.__doc__ or '')}\n\nParameters\n----------\n{listed}")

    def __init__(self, *lead: Any, **options: Any) -> None:
        if len(lead) > (1 if self.lead else 0):
            raise TypeError(f"{type(self).__name__} takes its options by name")
        self._given = {**dict.fromkeys([self.lead][: len(lead)], *lead), **options}
        known = leaves(type(self))
        unknown = [name for name in self._given if name not in known]
        if unknown and not self.further:
            raise TypeError(f"{type(self).__name__} has no option {unknown[0]!r}{_similar(unknown[0], known)}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The given options by name."""
        return dict(self._given)

    def set_params(self, **options: Any) -> Self:
        """Give further options, or other values."""
        self._given = type(self)(**{**self._given, **options})._given
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"


def leaves(part: type) -> tuple[str, ...]:
    """Names of the options of a part."""
    return tuple(field.name for field in dataclasses.fields(part))


@functools.cache
def slots(cls: Any) -> dict[str, type[Part]]:
    """The parts of an estimator by the argument that takes them."""
    return {base.slot: base for base in cls.__mro__ if issubclass(base, Part) and base.__dict__.get("slot")}


@functools.cache
def places(cls: Any) -> dict[str, str]:
    """The argument that takes an option of an estimator: that of its part; for an option of none, itself."""
    of_parts = {name: slot for slot, part in slots(cls).items() for name in leaves(part)}
    # Not by `dataclasses.fields`: documentation is written before a class is made a dataclass.
    options = (name for name, hint in annotations_of(cls).items() if get_origin(hint) is not ClassVar)
    found = {name: of_parts.get(name, name) for name in options}
    # The parts first, those of the method before the others.
    order = [*slots(cls), *found.values()]
    return dict(sorted(found.items(), key=lambda item: order.index(item[1])))


def expanded(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name, from options, parts (also as mappings), and options with the name of their part before them,
    ``noise__strength`` or ``noise.strength``; an option of which two values are given raises InputError."""
    found: dict[str, Any] = {}
    for name, value in _pairs(cls, given):
        if name in found and found[name] is not value and repr(found[name]) != repr(value):
            raise InputError(f"{name} is given as {found[name]!r} and as {value!r}: leave one out")
        found[name] = value
    return found


def _pairs(cls: type, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    known = slots(cls)
    for name, value in given.items():
        slot, dot, leaf = name.replace("__", ".", 1).partition(".")
        part = known.get(slot)
        if part is None:
            yield name, value
        elif dot:
            yield _of_part(part, leaf), value
        elif isinstance(value, part):
            yield from value.get_params().items()
        elif isinstance(value, Mapping):
            for leaf, each in value.items():
                yield _of_part(part, leaf), each
        elif part.lead and not isinstance(value, Part):
            yield part.lead, value
        elif value is not None:
            yield slot, value  # no part, see `check_parts`


def check_parts(estimator: Any) -> None:
    """Raise InputError for what was given as a part and is none."""
    cls: type = type(estimator)
    for slot, part in slots(cls).items():
        value = vars(estimator).get(slot)
        if isinstance(value, Part) or (value is not None and slot != part.lead):
            raise InputError(f"{slot} is {value!r}, expected {part.__name__}(...)")


def _of_part(part: type[Part], leaf: str) -> str:
    """The name of an option of a part; "name" is the leading one."""
    if leaf == "name" and part.lead:
        return part.lead
    known = leaves(part)
    if leaf not in known and f"{part.slot}_{leaf}" in known:
        return f"{part.slot}_{leaf}"
    if leaf not in known and not part.further:
        raise InputError(f"{part.slot} has no option {leaf!r}{_similar(leaf, known)}")
    return leaf


def _similar(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f": did you mean {' or '.join(close)}?" if close else f": its options are {', '.join(known)}"


class Signature:
    """The arguments of an estimator as Python shows them: its parts, and the options of no part."""

    def __get__(self, estimator: Any, cls: type) -> inspect.Signature:
        hints, parts = annotations_of(cls), slots(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        shown = []
        for name in dict.fromkeys(places(cls).values()):
            part = parts.get(name)
            lead = fields[part.lead if part is not None else name] if part is None or part.lead else None
            default = None if lead is None else lead.default
            annotation = hints[lead.name] if lead is not None and part is None else Any
            shown.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )
        return inspect.Signature(shown)


def arguments_text(cls: type) -> dict[str, str]:
    """Entries of the section "Parameters" of an estimator, by argument: of a part its options, in a line."""
    own, parts, found = entries_of(cls), slots(cls), {}
    for name in dict.fromkeys(places(cls).values()):
        part = parts.get(name)
        if part is None:
            found[name] = own.get(name, "")
            continue
        given = f", or `{part.lead}` alone" if part.lead else ""
        theirs = ", ".join(leaf for leaf, slot in places(cls).items() if slot == name)
        about = (part.__doc__ or "").strip().splitlines()[0]
        found[name] = f"{name} : viewsmith.parts.{part.__name__}{given}\n    {about} Options: {theirs}.\n"
    return found
