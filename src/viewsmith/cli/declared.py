"""Names, options and presets of all parts of the package, from `declared.json`: they are checked before the parts, and
torch, are imported, which takes seconds. `python tests/cli/test_cli_declared.py` writes the file."""

import ast
import contextlib
import dataclasses
import functools
import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from viewsmith.core.registry import Bounds, Entry, Kind, has_others, standing_in
from viewsmith.estimator.parts import Part

FILE = Path(__file__).with_name("declared.json")

#: What annotations consist of; modules and models are not given in text.
TYPES = {"typing": typing, "Bounds": Bounds, "Any": Any, "Mapping": Mapping, "Sequence": Sequence}


@functools.cache
def content() -> dict[str, Any]:
    """What is declared: classes of estimators, and parts by kind."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


@contextlib.contextmanager
def parts_declared() -> Iterator[None]:
    """The registry has the declared parts alone, whose options can be checked, and which cannot be built; if there are
    parts of others, it has all, which are then imported."""
    if has_others():
        import viewsmith.methods.loading  # noqa: F401, it registers parts

        yield
        return
    with standing_in(_entries()):
        yield


@functools.cache
def _entries() -> list[Entry]:
    found = []
    for kind, parts in content()["parts"].items():
        for part in parts:
            tags = part["tags"] | {"options": _Options(part["options"])}
            build: Any = SimpleNamespace(**part["attributes"])
            if kind == "method":
                build, tags = _class(part["class"]), part["tags"]
            elif kind == "modality":
                build = functools.partial(_Modality, **part["attributes"])
            found.append(Entry(typing.cast(Kind, kind), part["name"], build, "", tuple(part["modalities"]), "", tags))
    return found


class _Modality(SimpleNamespace):
    """Defaults of a modality; its argument, as in ``letters:ABC``, changes none of them."""

    def __init__(self, argument: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)


class _Options(dict[str, Any]):
    """Options of a part by name: their annotations, evaluated when they are asked for."""

    def items(self) -> Any:
        return {name: _annotation(text) for name, text in super().items()}.items()


@functools.cache
def _annotation(text: str) -> Any:
    return eval(text, {**TYPES})  # of this package's own file


@functools.cache
def _class(name: str) -> type:
    """A class with the options of an estimator, or of a part of one, and nothing else."""
    told = content()["classes"][name]
    annotations = {option: _annotation(text) for option, (text, _) in told["options"].items()}
    defaults = {option: ast.literal_eval(default) for option, (_, default) in told["options"].items()}
    constants = {constant: ast.literal_eval(value) for constant, value in told["constants"].items()}
    annotations |= dict.fromkeys(constants, ClassVar[Any])
    # Of no module: no text is searched for its documentation.
    body = {"__annotations__": annotations, "__module__": "", **defaults, **constants}
    made = type(name, tuple(_class(base) for base in told["bases"]) or (Part,), body)
    # An estimator has its options as attributes.
    return dataclasses.dataclass(kw_only=True, eq=False, repr=False, init="name" in constants)(made)
