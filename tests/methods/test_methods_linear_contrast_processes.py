"""Two processes that share the blocks of views find the linear map of one process."""

import pytest
import torch
from linear_contrast_cases import fitted, samples, work

from viewsmith.views import GaussianNoise

pytestmark = pytest.mark.full_size


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The weights in each of two processes."""
    return tensors_of_pair(work)


def test_two_processes_equal_one(of_two):
    expected = fitted(samples(), GaussianNoise(0.5)).framework.encoder.state_dict()
    for found in of_two:
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(value, of_two[1][name]) for name, value in of_two[0].items())
