"""Validation of constructor arguments and options of parts against their annotations, when fit is called.

pydantic is imported on use.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from viewsmith.core.errors import InputError, one_line
from viewsmith.core.registry import Entry

if TYPE_CHECKING:
    import pydantic

#: Options of earlier versions (of a part: PART.OPTION), and their names now.
RENAMED = {
    "dino.prototypes": "out_dim",
    "domain": "modality",
    "freeze_first_layers": "freeze",
    "skip_components": "appended_pca",
    "skip_length": "appended_length",
    "skip_unit": "appended_unit",
}


@functools.cache
def schema(cls: type) -> type[pydantic.BaseModel]:
    """A model of the constructor's arguments: names, types, bounds and defaults as annotated."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return _model(cls.__name__, {field.name: (hints[field.name], field.default) for field in dataclasses.fields(cls)})


def _model(name: str, fields: dict[str, Any]) -> type[pydantic.BaseModel]:
    import pydantic

    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return pydantic.create_model(name, __config__=config, **fields)


T = TypeVar("T")


def check_options(cls: type[T], given: dict[str, Any], further: Collection[str] = ()) -> T:
    """An object of `cls` with validated, converted arguments; messages also suggest `further` options of its parts."""
    model = schema(cls)  # type: ignore[arg-type]
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        known = [*model.model_fields, *further]
        close = difflib.get_close_matches(unknown[0], known, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(close)}?" if close else f"its options are {', '.join(known)}"
        if unknown[0] in RENAMED:
            hint = f"it is called {RENAMED[unknown[0]]} now"
        raise InputError(f"{cls.__name__} has no option {unknown[0]!r}: {hint}")
    return cls(**_validated(model, given, cls.__name__))


def check_renamed(entry: Entry, given: Iterable[str]) -> None:
    """Raise InputError, with the name of today, for an option that the part had under another name."""
    for name in given:
        if now := RENAMED.get(f"{entry.name}.{name}"):
            raise InputError(f"the {entry.kind} {entry.name!r} has no option {name!r}: it is called {now} now")


def check_part_options(entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a registered part, validated and converted by its annotations."""
    known = entry.options
    check_renamed(entry, given)
    if unknown := sorted(given.keys() - known.keys()):
        theirs = f"its options are {', '.join(known)}" if known else "it has none"
        raise InputError(f"the {entry.kind} {entry.name!r} has no option {unknown[0]!r}: {theirs}")
    model = _model(f"the {entry.kind} {entry.name}", {name: (known[name].annotation, ...) for name in given})
    return _validated(model, given, f"the {entry.kind} {entry.name!r}")


def _validated(model: type[pydantic.BaseModel], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    import pydantic

    try:
        value = model.model_validate({name: _plain(name, value, model) for name, value in given.items()})
    except pydantic.ValidationError as error:
        raise InputError(_explain(owner, error)) from None
    return {name: getattr(value, name) for name in model.model_fields}


def _plain(name: str, value: Any, model: type[pydantic.BaseModel]) -> Any:
    """Convert numpy scalars to Python's, "none" to None where None is allowed, and "256,256" to a list for a tuple."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:  # which is not imported for this
        return value.item()
    if isinstance(value, str):
        annotation = str(model.model_fields[name].annotation)
        if value == "none" and "None" in annotation:
            return None
        if "tuple" in annotation.lower() and not value.isalpha():
            return [part for part in value.strip("()[] ").split(",") if part.strip()]
    return value


def _explain(owner: str, error: pydantic.ValidationError) -> str:
    """One line for a pydantic error; for a union, what each of its members expects."""
    details = error.errors()
    name, *inner = details[0]["loc"]
    same = [d for d in details if d["loc"][0] == name]
    if inner and details[0]["type"] == "literal_error" and "[" not in str(inner[0]):
        name = f"{name}: {one_line(inner[0], 60)}"  # a key of a mapping, such as the name of a column
    expected = []
    for detail in same:
        text = re.split(", (?:unable|got) ", detail["msg"].removeprefix("Input should be "))[0].removeprefix("a valid ")
        if detail["type"] == "missing":  # of a tuple: the number of the value
            text = f"at least {int(detail['loc'][-1]) + 1} values"
        elif detail["type"] == "too_long":
            text = f"at most {detail['ctx']['max_length']} values"
        if text not in expected:
            expected.append(text)
    given = same[0]["input"]
    return f"{owner}: {name} is {given!r}, expected {' or '.join(expected)}"
