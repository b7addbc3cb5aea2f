"""Kinds of parts, and bounds of options, as pydantic reads them."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from viewsmith.core.registry import Bounds, register


class Ours(BaseModel):
    count: Annotated[int, Bounds(ge=1, le=3)] = 1
    rate: Annotated[float, Bounds(gt=0, lt=1)] = 0.5


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
        register("loss", "mine", help="a loss")
