"""Whether values of options have the types, choices and bounds that are declared, for layers without pydantic."""

import numbers
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from viewsmith.core.errors import InputError, check_choice, one_line
from viewsmith.core.registry import Bounds, annotations_of

#: Values of the types of options: what they are an instance of, and not, and how they are called.
_KINDS: dict[Any, tuple[Any, tuple[type, ...], str]] = {
    bool: ((bool, int), (), "True or False"),
    int: (numbers.Integral, (bool,), "a whole number"),
    float: (numbers.Real, (bool,), "a number"),
    str: (str, (), "a text"),
    Path: ((str, os.PathLike), (), "a path"),
    Sequence: (Iterable, (str, bytes), "a list"),
    **dict.fromkeys((Mapping, dict), (Mapping, (), "a dict")),
}


def check_declared(options: Any, name: str) -> None:
    """Raise InputError unless an option is one of the values of its type, and within its bounds."""
    value, annotation = getattr(options, name), annotations_of(options.__class__)[name]
    if value is None:
        return
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    kinds = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)
    known = [_KINDS.get(get_origin(kind) or kind) for kind in kinds if kind is not types.NoneType]
    if all(known) and not any(isinstance(value, of) and type(value) not in but for of, but, _ in filter(None, known)):
        expected = " or ".join(text for _, _, text in filter(None, known))
        raise InputError(f"{name} is {one_line(repr(value), 60)}, expected {expected}")
    for further in getattr(annotation, "__metadata__", ()):
        if isinstance(further, Bounds):
            further.check(name, value)
    for each in (inner, *get_args(inner)):
        if get_origin(each) is Literal:
            check_choice(name, value, each)
