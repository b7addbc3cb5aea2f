"""Two processes with half of a batch each give the same result as one process with the whole batch."""

import pytest
import torch
from framework_cases import FRAMEWORKS
from framework_processes import steps, work


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The results of each of two processes, for every framework."""
    return tensors_of_pair(work)


@pytest.mark.parametrize("name", list(FRAMEWORKS))
def test_two_processes_equal_one_on_the_whole_batch(of_two, name):
    expected = steps(name)
    for found in of_two:
        assert found[name].keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(found[name][key], value, rtol=1e-8, atol=1e-12, msg=lambda m, k=key: f"{k}: {m}")
    # Queue, center and weights are bit-identical in both processes.
    one, other = (found[name] for found in of_two)
    assert all(torch.equal(one[key], other[key]) for key in expected)
