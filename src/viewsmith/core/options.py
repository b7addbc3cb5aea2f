"""Options that are declared once, as an attribute of a class with a type, a default and, below it, what it means.

Checks, documentation and flags of commands follow from that: the first paragraph of the text is the help of a flag.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import math
import re
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from viewsmith.core.errors import InputError, check_choice, duplicates
from viewsmith.core.registry import Bounds

Impute = Literal["none", "median"]
Normalization = Literal["auto", "log", "none"]
ColumnRole = Literal["numeric", "category", "text", "date", "drop"]


@dataclass(frozen=True)
class Flag:
    """How commands show an option: the placeholder of its value, another name, the kind of part that it names."""

    metavar: str | None = None
    name: str | None = None
    lists: str | None = None


@functools.cache
def annotations_of(cls: type) -> dict[str, Any]:
    """Types of the attributes of a class and its bases, with bounds."""
    return get_type_hints(cls, include_extras=True)


def check_declared(options: Any, name: str) -> None:
    """Raise InputError unless an option is one of the values of its type, and within its bounds."""
    value, annotation = getattr(options, name), annotations_of(options.__class__)[name]
    if value is None:
        return
    for further in getattr(annotation, "__metadata__", ()):
        if isinstance(further, Bounds):
            further.check(name, value)
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    for each in (inner, *get_args(inner)):
        if get_origin(each) is Literal:
            check_choice(name, value, each)


@functools.cache
def texts_of(cls: type) -> dict[str, str]:
    """What is written below the attributes of a class and its bases, by name; its own come first."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if "__annotations__" in base.__dict__:
            for name, text in _own_texts(base).items():
                found.setdefault(name, text)
    return found


@functools.cache
def _own_texts(cls: type) -> dict[str, str]:
    try:
        lines = inspect.getsource(sys.modules[cls.__module__]).splitlines()
    except (KeyError, OSError, TypeError):  # typed into an interpreter
        return {}
    heads = (f"class {cls.__name__}(", f"class {cls.__name__}:")
    start = next((number for number, line in enumerate(lines) if line.startswith(heads)), None)
    if start is None:  # in a function
        return {}
    ends = (number for number in range(start + 1, len(lines)) if lines[number] and not lines[number][0].isspace())
    (defined,) = ast.parse("\n".join(lines[start : next(ends, len(lines))])).body
    assert isinstance(defined, ast.ClassDef)
    found = {}
    for declared, text in zip(defined.body, defined.body[1:], strict=False):
        if isinstance(declared, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(declared.target)] = inspect.cleandoc(str(text.value.value))
    return found


def entries_of(cls: type) -> dict[str, str]:
    """Entries of a section "Parameters" for the documented attributes of a class, by name."""
    found = {}
    for name, text in texts_of(cls).items():
        found[name] = f"{name} : {type_text(annotations_of(cls)[name])}\n    {' '.join(text.split())}\n"
    return found


def declare(function: Callable[..., Any], cls: type) -> None:
    """Give a function the documented attributes of a dataclass as keyword arguments: in its signature and its text."""
    signature, documented, hints = inspect.signature(function), entries_of(cls), get_type_hints(cls)
    given = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    given += [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(cls)
        if f.name in documented
    ]
    function.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    text = inspect.cleandoc(function.__doc__ or "")  # none if Python removes documentation
    function.__doc__ = wrapped(text.replace("[options]", "".join(documented.values()).rstrip()))


def by_part(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the options of each part in a table of its own; "parts" then has the names of the parts."""
    parts: dict[str, list[str]] = config.get("parts", {})
    parameters = dict(config.get("parameters", {}))
    tables = {
        part: {name: parameters.pop(name) for name in names if name in parameters} for part, names in parts.items()
    }
    if not parts:
        return config
    # Before what was fitted: a file that lacks its end lacks that, too, and is refused.
    last = {name: config[name] for name in ("data", "fitted") if name in config}
    head = {name: value for name, value in config.items() if name not in last}
    return head | {"parts": list(tables), "parameters": parameters} | tables | last


def of_all_parts(config: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `by_part`; raises ValueError if a part has no table."""
    parts = config.get("parts")
    if not isinstance(parts, list):
        return config
    tables: dict[str, Any] = {part: config.get(part) for part in parts}
    if not all(isinstance(table, dict) for table in [config.get("parameters"), *tables.values()]):
        raise ValueError("a table of its parts is missing")
    parameters = dict(config["parameters"])
    for table in tables.values():
        parameters |= table
    kept = {name: value for name, value in config.items() if name not in tables}
    return kept | {"parts": {part: list(table) for part, table in tables.items()}, "parameters": parameters}


def wrapped(doc: str) -> str:
    """Documentation with its long lines wrapped; what follows is indented as an entry of a list."""
    lines = doc.split("\n")
    long = (textwrap.wrap(line, 116, subsequent_indent="    ") if len(line) > 116 else [line] for line in lines)
    return "\n".join(part for parts in long for part in parts)


def type_text(annotation: Any) -> str:
    """A type as documentation writes it: ``float or "auto"``, ``{"batch", "none"}``, ``tuple of int``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_text(each) for each in inner))
    if origin is Literal:
        values = ", ".join(f'"{value}"' if isinstance(value, str) else repr(value) for value in inner)
        return values if len(inner) == 1 else f"{{{values}}}"
    if origin in (tuple, Sequence):
        return f"{type_text(origin)} of {type_text(inner[0])}"
    if origin is not None:
        return type_text(origin)
    if annotation in (Any, type(None)):
        return "None" if annotation is type(None) else "object"
    name = str(annotation.__qualname__)
    return {"Module": "torch.nn.Module", "Sequence": "sequence", "Mapping": "mapping"}.get(name, name)


def parse_range(name: str, text: str) -> tuple[int | float, int | float] | list[str]:
    """The ends of ``LOW..HIGH``, or the choices of ``A,B,...``, of the option `name`."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if dots:
        first, last = _number(name, text, low), _number(name, text, high)
        if first >= last:
            raise InputError(f"the range of {name} is {text!r}, expected LOW..HIGH with LOW below HIGH")
        return first, last
    choices = [part.strip() for part in text.split(",")]
    if len(choices) < 2 or not all(choices):
        raise InputError(f"the range of {name} is {text!r}, expected LOW..HIGH, or two or more choices, A,B")
    if twice := duplicates(choices):
        raise InputError(f"the range of {name} has {twice[0]!r} twice: leave one out")
    return choices


def _number(name: str, text: str, end: str) -> int | float:
    if re.fullmatch(r"[+-]?\d+", end):
        return int(end)
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(end)):
            return number
    raise InputError(f"the range of {name} is {text!r}, but {end!r} is not a finite number: expected LOW..HIGH")
