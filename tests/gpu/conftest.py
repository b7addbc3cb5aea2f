"""The device of the tests: a GPU; with VIEWSMITH_TEST_DEVICE=cpu the CPU, to see that the tests themselves work."""

import os

import pytest
import torch
from simulated import NAME, register_backend, simulated_device

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # matrix products that are the same in every run

DEVICE = os.environ.get("VIEWSMITH_TEST_DEVICE", "cuda")

if not torch.cuda.is_available():  # a backward pass fails with two kinds of accelerators
    register_backend()  # torch counts devices in the first backward pass, which may be in a test of another folder


@pytest.fixture
def simulated(monkeypatch):
    """The simulated device, which viewsmith finds by its name."""
    from viewsmith.estimator import fitting
    from viewsmith.methods.discovery import estimator
    from viewsmith.workflows import generate

    if torch.cuda.is_available():
        pytest.skip("the simulated device is for machines without a GPU")

    find_device = fitting.find_device
    with simulated_device() as device:
        for module in (fitting, estimator, generate):
            monkeypatch.setattr(module, "find_device", lambda name: device if name == NAME else find_device(name))
        yield NAME


@pytest.fixture
def device(request):
    """Name of the device: the parameter of the test, "simulated", or a GPU, if it is there."""
    if getattr(request, "param", None) == "simulated":
        return request.getfixturevalue("simulated")
    if DEVICE == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU: torch.cuda.is_available() is False")
    return DEVICE
