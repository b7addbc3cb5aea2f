"""Values of options: their types, choices and bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.option_types import check_declared
from viewsmith.core.registry import Bounds


@dataclass
class Options:
    size: Annotated[int | None, Bounds(ge=2)] = None
    level: Literal["low", "high"] = "low"
    rate: float | str = 1.0
    place: Path | None = None
    names: Sequence[str] = ()
    roles: Mapping[str, str] | None = None
    strict: bool = False


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("size", 2), ("size", np.int64(3)), ("size", None), ("rate", np.float32(1)), ("rate", "2s"), ("place", "a")),
        *(("place", Path("a")), ("names", ("a",)), ("names", np.array(["a"])), ("roles", {"a": "b"}), ("strict", 1)),
    ],
)
def test_values_of_a_type_are_taken(name, given):
    check_declared(Options(**{name: given}), name)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("size", 1, "size is 1, expected at least 2"),
        ("size", True, "size is True, expected a whole number"),
        ("level", "other", "level is 'other', expected low or high"),
        ("rate", [1], "rate is [1], expected a number or a text"),
        ("place", 5, "place is 5, expected a path"),
        ("names", "a", "names is 'a', expected a list"),
        ("roles", ["a"], "roles is ['a'], expected a dict"),
        ("strict", "no", "strict is 'no', expected True or False"),
    ],
)
def test_other_values_are_one_line(name, given, expected):
    assert expected in refusal(check_declared, Options(**{name: given}), name)
