"""Two processes with half of a batch each compute the same meta gradient as one process with the whole batch."""

import pytest
import torch
from metaug_cases import SHARED, two_steps, work


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The results of each of two processes."""
    return tensors_of_pair(work)


@pytest.mark.parametrize("name", SHARED)
def test_two_processes_equal_one_on_the_whole_batch(of_two, name):
    expected = two_steps(name)
    assert any("features: gradient" in key for key in expected)
    for found in of_two:
        assert found[name].keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(
                found[name][key], value, rtol=1e-10, atol=1e-10, msg=lambda m, k=key: f"{k}: {m}"
            )
    one, other = (found[name] for found in of_two)
    assert all(torch.equal(one[key], other[key]) for key in expected)
