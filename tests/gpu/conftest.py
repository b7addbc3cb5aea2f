"""The device of the tests: a GPU; with VIEWSMITH_TEST_DEVICE=cpu the CPU, to see that the tests themselves work."""

import os

import pytest
import torch

DEVICE = os.environ.get("VIEWSMITH_TEST_DEVICE", "cuda")


@pytest.fixture(scope="session")
def device():
    """The device, if it is there."""
    if DEVICE == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU: torch.cuda.is_available() is False")
    return DEVICE
