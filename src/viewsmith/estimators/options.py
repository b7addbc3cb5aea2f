"""Constructor arguments as the configuration: checked against their annotations when fit is called."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import types
import typing
from typing import Any

import numpy as np
import pydantic
from pydantic import ConfigDict, create_model

from viewsmith.core.errors import InputError


@functools.cache
def schema(cls: type) -> type[pydantic.BaseModel]:
    """A model of the constructor's arguments: names, types, bounds and defaults as annotated."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {field.name: (hints[field.name], field.default) for field in dataclasses.fields(cls)}
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return create_model(cls.__name__, __config__=config, **fields)


def check_options(cls: type, given: dict[str, Any]) -> types.SimpleNamespace:
    """Validated and converted arguments of `cls`, defaults filled in. Texts are converted ("3" where a number is due).

    Raises
    ------
    InputError
        The first argument that is unknown or out of range: what was given, what was expected.
    """
    model = schema(cls)
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        close = difflib.get_close_matches(unknown[0], model.model_fields, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(close)}?" if close else f"its options are {', '.join(model.model_fields)}"
        raise InputError(f"{cls.__name__} has no option {unknown[0]!r}: {hint}")
    try:
        value = model.model_validate({name: _plain(name, value, model) for name, value in given.items()})
    except pydantic.ValidationError as error:
        raise InputError(_explain(cls, error)) from None
    return types.SimpleNamespace(**{name: getattr(value, name) for name in model.model_fields})


def _plain(name: str, value: Any, model: type[pydantic.BaseModel]) -> Any:
    """numpy scalars as Python's; the text "none" as None where None is allowed; "256,256" as a list where one is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        annotation = str(model.model_fields[name].annotation)
        if value == "none" and "None" in annotation:
            return None
        if "tuple" in annotation.lower() and not value.isalpha():
            return [part for part in value.strip("()[] ").split(",") if part.strip()]
    return value


def _explain(cls: type, error: pydantic.ValidationError) -> str:
    """One line of a pydantic error; for a union, what each of its members expects."""
    details = error.errors()
    name = details[0]["loc"][0]
    same = [d for d in details if d["loc"][0] == name]
    expected = []
    for detail in same:
        text = re.split(", (?:unable|got) ", detail["msg"].removeprefix("Input should be "))[0].removeprefix("a valid ")
        if text not in expected:
            expected.append(text)
    given = same[0]["input"]
    return f"{cls.__name__}: {name} is {given!r}, expected {' or '.join(expected)}"
