"""Splits by whole groups."""

import numpy as np
import pytest

from viewsmith.data.dataset import TEST_FRACTION, split_groups


@pytest.mark.parametrize("seed", range(8))
def test_both_parts_have_a_group_whatever_its_size(seed):
    groups = np.repeat(["small", "large"], [1, 99])
    train, test = split_groups(groups, seed)
    assert len(train) and len(test)
    assert sorted([*train, *test]) == list(range(100))
    assert not {*groups[train]} & {*groups[test]}


def test_enough_groups_are_test_rows():
    groups = np.repeat(np.arange(20), 5)
    _, test = split_groups(groups)
    assert TEST_FRACTION * 100 <= len(test) <= TEST_FRACTION * 100 + 5
