"""Cases that are not slow have all values of the axes."""

import itertools

import pytest

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
