"""Cases that are not slow have all values of the axes."""

import itertools

import pytest

import cases as module
from cases import covering

CASES = list(itertools.product("abc", range(4), (True, False), "x"))


@pytest.mark.parametrize("axes", [(), ((0,), (1, 2)), ((3,),)])
def test_quick_cases_have_all_values_and_the_other_cases_are_slow(axes):
    cases = covering(CASES, *axes)
    few = [case for case in cases if type(case) is tuple]
    rest = [case.values for case in cases if type(case) is not tuple]
    assert sorted(few + rest) == sorted(CASES)
    for axis in axes or itertools.combinations(range(4), 2):
        assert {tuple(case[at] for at in axis) for case in few} == {tuple(case[at] for at in axis) for case in CASES}
    assert len(few) == {(): 12, ((0,), (1, 2)): 8, ((3,),): 1}[axes]
    assert covering(CASES, *axes) == cases


def test_some_slow_cases_are_drawn_by_the_seed(monkeypatch):
    every, found = covering(CASES), {}
    for seed in (1, 2):
        monkeypatch.setattr(module, "SEED", seed)
        found[seed] = [getattr(case, "values", case) for case in covering(CASES, drawn=3)]
        assert found[seed] == [getattr(case, "values", case) for case in covering(CASES, drawn=3)]
        assert len(found[seed]) == 12 + 3 and {case for case in every if type(case) is tuple} <= set(found[seed])
    assert found[1] != found[2] and len(covering(CASES, drawn=99)) == len(every)
