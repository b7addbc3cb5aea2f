"""Ranges and choices of a search, as text: what a command refuses before it imports anything that searches."""

import contextlib
import math
import re

from viewsmith.core.errors import InputError, duplicates


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
