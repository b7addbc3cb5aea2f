"""Cases from products of options: few in every run of the tests; in `make test-all` all, or others every day."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import pytest

#: Seed of the slow cases that are drawn, in the last line of the tests' output: one for a day, so that processes agree.
SEED = int(os.environ.get("VIEWSMITH_CASES", date.today().toordinal()))


def covering(cases: Iterable[Sequence[Any]], *axes: tuple[int, ...], drawn: int | None = None) -> list[Any]:
    """Parameters of all cases; cases without a new value on one of the `axes` are marked slow.

    Parameters
    ----------
    cases : iterable of sequences
    *axes : tuple of int
        Places in a case, ``(0,)`` or ``(0, 2)``, whose values together are to be seen in a quick run; every two places
        unless given. Cases are taken greedily, first those that show the most at once, in a fixed random order that
        mixes the values of the other places.
    drawn : int, optional
        So many of the slow cases are drawn with `SEED`. Default: all.
    """
    cases = [tuple(case) for case in cases]
    axes = axes or tuple(itertools.combinations(range(len(cases[0])), 2))
    covered = [{(axis, *(repr(case[at]) for at in axis)) for axis in axes} for case in cases]
    missing = set().union(*covered)
    quick = set()
    order = random.Random(0).sample(range(len(cases)), len(cases))
    for most in range(len(axes), 0, -1):
        for number in order:
            if len(covered[number] & missing) >= most:
                missing -= covered[number]
                quick.add(number)
    rest = [number for number in range(len(cases)) if number not in quick]
    kept = rest if drawn is None else random.Random(SEED).sample(rest, min(drawn, len(rest)))
    return [cases[number] if number in quick else slow(*cases[number]) for number in sorted({*quick, *kept})]


def slow(*case: Any, id: str | None = None) -> Any:
    """A case that only `make test-all` runs."""
    return pytest.param(*case, marks=pytest.mark.slow, id=id)
