"""Shared fixtures: one thread, small real data, the folder of real data sets."""

import multiprocessing
import os
from pathlib import Path

# Results are compared bit for bit with the CPU's; export the variable to run the tests on a GPU all the same.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of several workers would wait for each other, and bit-equality holds at one thread count."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    """1797 handwritten digits as 64 counts from 0 to 16, three of them always 0: float32 (1797, 64)."""
    return load_digits().data.astype(np.float32)


@pytest.fixture(scope="session")
def wine() -> np.ndarray:
    """178 wines with 13 features on very different scales: float32 (178, 13)."""
    return load_wine().data.astype(np.float32)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, named by VIEWSMITH_DATA."""
    folder = os.environ.get("VIEWSMITH_DATA")
    if not folder:
        pytest.skip("VIEWSMITH_DATA names no folder of data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def processes():
    """Starts processes that have not run any of ours; torch is loaded once, in the server they are forked from."""
    context = multiprocessing.get_context("forkserver")
    # torch loads its compiler at the first optimiser, which takes longer than any training in the tests.
    context.set_forkserver_preload(["torch", "torch._dynamo", "viewsmith.estimators"])
    return context
