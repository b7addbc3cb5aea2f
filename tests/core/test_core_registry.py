"""Kinds of parts, and options that are declared once: bounds, checks, documentation, signature."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError
from torch import nn

from viewsmith.core import registry
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.frameworks import Framework
from viewsmith.views import ViewMaker


class Ours(BaseModel):
    count: Annotated[int, registry.Bounds(ge=1, le=3)] = 1
    rate: Annotated[float, registry.Bounds(gt=0, lt=1)] = 0.5


class Pydantics(BaseModel):
    count: Annotated[int, Field(ge=1, le=3)] = 1
    rate: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5


def outcome(model, given):
    try:
        return model(**given).model_dump()
    except ValidationError as error:
        return [(found["type"], found["msg"]) for found in error.errors()]


@pytest.mark.parametrize("count", [0, 1, 3, 4, "2", 1.5, "x", True])
def test_bounds_of_a_whole_number_are_those_of_pydantic(count):
    assert outcome(Ours, {"count": count}) == outcome(Pydantics, {"count": count})


@pytest.mark.parametrize("rate", [0, 0.1, "0.9", 1, float("nan"), float("inf"), None])
def test_bounds_of_a_number_are_those_of_pydantic(rate):
    assert outcome(Ours, {"rate": rate}) == outcome(Pydantics, {"rate": rate})


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="the kind of part is 'loss', expected one of method, framework, view maker"):
        registry.register("loss", "mine", help="a loss")


def _late(pair):
    return pair


class OnePlace(Framework):
    forward = staticmethod(_late)


class NoParts(Framework):
    def __init__(self, *, level=1):
        super().__init__()

    def forward(self, pair, progress=0.0):
        return pair


class Plain(ViewMaker):
    def forward(self, x):
        return x


class OtherName(ViewsmithEstimator):
    name = "other"

    def _build(self, plan):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("kind", "build", "message"),
    [
        ("framework", nn.Linear, "is no subclass of viewsmith.frameworks.Framework"),
        ("framework", type("Empty", (Framework,), {}), r"needs forward\(self, pair, progress=0.0\)"),
        ("framework", OnePlace, r"needs forward\(self, pair, progress=0.0\)"),
        ("framework", NoParts, r"needs __init__\(self, encoder=None, head=None, \*, OPTIONS\)"),
        ("view maker", Plain, r"needs forward\(self, x, \*, index=None, generator=None\)"),
        ("encoder", lambda: nn.Linear(2, 2), "needs to take an EncoderContext"),
        ("reader", lambda path: path, "needs to take a path and DataOptions"),
        ("modality", type("Unnamed", (), {}), "has the class attribute name = None, expected 'mine'"),
        ("method", nn.Linear, "needs a subclass of ViewsmithEstimator"),
        ("method", type("Unbuilt", (ViewsmithEstimator,), {"name": "mine"}), "needs a subclass of ViewsmithEstimator"),
        ("method", OtherName, "has the class attribute name = 'other', expected 'mine'"),
    ],
)
def test_a_part_that_cannot_be_called_is_refused_where_it_is_registered(kind, build, message):
    with pytest.raises(ValueError, match=f"the {kind} 'mine' {message}"):
        registry.register(kind, "mine", help="a part")(build)
    assert "mine" not in registry.registered(kind)


def test_an_option_without_an_annotation_has_the_type_of_its_default():
    def build(context, *, flag=True, count=2, rate=0.5, name="x", other=None):
        raise NotImplementedError

    found = {name: option.annotation for name, option in registry.Entry("encoder", "mine", build, "").options.items()}
    assert found == {"flag": bool, "count": int | float, "rate": float, "name": str, "other": Any}


@dataclass(kw_only=True)
class Shared:
    """Options of two classes."""

    level: Literal["low", "high"] = "low"
    """How much of it.

    More about it, in a second paragraph."""
    plain: int = 0
    kind: ClassVar[str] = "shared"


@dataclass(kw_only=True)
class Options(Shared):
    """Options of this class come first."""

    size: Annotated[int | None, registry.Bounds(ge=2)] = None
    """Its size."""
    level: Literal["low", "high"] = "high"
    """How much of it here."""


def test_texts_are_those_below_attributes_and_of_the_nearest_class():
    assert registry.texts_of(Shared) == {"level": "How much of it.\n\nMore about it, in a second paragraph."}
    assert list(registry.texts_of(Options).items()) == [("size", "Its size."), ("level", "How much of it here.")]


def test_a_class_in_a_function_or_an_interpreter_has_no_texts():
    @dataclass
    class Local:
        name: str = ""
        """A name."""

    typed = {}
    exec("class Typed:\n    name: str = ''\n    'A name.'", typed)
    assert registry.texts_of(Local) == registry.texts_of(typed["Typed"]) == {}


def test_entries_have_the_type_and_one_line():
    assert registry.entries_of(Shared)["level"] == (
        'level : {"low", "high"}\n    How much of it. More about it, in a second paragraph.\n'
    )
    assert registry.entries_of(Options)["size"].startswith("size : int or None\n")


@pytest.mark.parametrize(
    "annotation, text",
    [
        (float | Literal["auto"], 'float or "auto"'),
        (Literal[1, 2], "{1, 2}"),
        (tuple[Annotated[int, registry.Bounds(ge=1)], ...], "tuple of int"),
        (Sequence[str], "sequence of str"),
        (Mapping[str, int] | None, "mapping or None"),
        (dict[str, Any], "dict"),
        (str | nn.Module, "str or torch.nn.Module"),
        (Path | None, "Path or None"),
        (Any, "object"),
    ],
)
def test_types_are_written_as_in_documentation(annotation, text):
    assert registry.type_text(annotation) == text


class Own(registry.Declared):
    """A base class of parts, with a fact about them."""

    needs_pool: bool = False

    def __init__(self, **options: Any) -> None:
        self.take(**options)


class Given(Own):
    needs_pool: bool = True
    rate: float = 0.5


class Constructed(Given):
    calls: int = 0

    def __init__(self, *, power: float = 1.0):
        super().__init__()
        self.power = power


def test_options_are_those_that_the_constructor_takes():
    """Facts about a part are none, nor are attributes of a class with a constructor of its own."""
    for part, names in ((Given, ["rate"]), (Constructed, ["power"])):
        assert list(registry.Entry("view maker", "own", part, "help").options) == names
    assert Given(rate=0.25).rate == 0.25 and Constructed(power=2).power == 2
    with pytest.raises(TypeError, match="Given: got an unexpected keyword argument 'rates'"):
        Given(rates=1)


def test_a_function_gets_the_documented_options():
    def read(source: str, **options: Any) -> Options:
        """Read it.

        Parameters
        ----------
        source : str
        [options]
        """
        return Options(**options)

    registry.declare(read, Options)
    assert list(inspect.signature(read).parameters) == ["source", "level", "size"]
    assert inspect.signature(read).parameters["level"].default == "high"
    assert "source : str\nsize : int or None\n    Its size.\nlevel :" in inspect.getdoc(read)


def test_long_lines_are_wrapped_as_entries():
    first, *others = registry.wrapped("    " + "word " * 50 + "\nshort").split("\n")
    assert len(first) <= 116 and others[0].startswith("    word") and others[-1] == "short"
