"""Shared fixtures: one thread, small real data, the folder of real data sets."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Results are compared bit for bit on the CPU; export the variable to run the tests on a GPU anyway.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pytest

from cases import SEED

if TYPE_CHECKING:
    import numpy as np


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set one thread before any test module is imported, and the number of examples of property tests."""
    if config.getoption("hypothesis_profile", None):
        import properties  # noqa: F401  registers the profiles, before hypothesis looks for one
    # Compiling tests takes longer than collecting them.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The process that distributes tests to workers does not need torch, which takes seconds to import.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        gc.disable()  # until tests run: modules and tests make many objects, and hardly any garbage
        import torch

        torch.set_num_threads(1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which cases were drawn, to repeat them."""
    terminalreporter.write_line(f"slow cases are drawn with VIEWSMITH_CASES={SEED}")


def pytest_collection_finish() -> None:
    """Exclude the objects of imported modules from garbage collection, which saves time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fewer features in closed forms, no t-SNE, and so in fixtures of tests, unless a test is marked full_size."""
    from small_searches import ClosedForms

    ClosedForms.of_tests().set(small=item.get_closest_marker("full_size") is None)


@pytest.fixture(scope="session", autouse=True)
def signals_of_a_terminal():
    """Reset signals to their defaults: the caller may ignore or block some, which child processes would inherit."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@pytest.fixture
def small_searches(request):
    """Discovery with fewer patches and starts, but in tests that are marked slow."""
    from small_searches import smaller

    if request.node.get_closest_marker("slow"):
        yield
    else:
        with smaller():
            yield


@pytest.fixture
def own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that a test registers are gone after it; those of modules that are imported later are loaded first."""
    from viewsmith.core import registry

    for kind in registry._entries:
        registry.entries(kind)
    monkeypatch.setattr(registry, "_entries", {kind: [*parts] for kind, parts in registry._entries.items()})


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without pictures, for tests of other things."""
    from quick_reports import without_pictures

    without_pictures(monkeypatch)


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: threads of several workers wait for each other, and results depend on the number of threads."""
    yield
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def less_care():
    """HDF5 files are read without a trial in another process, freed memory is kept, disks are not waited for."""
    from viewsmith.data.readers import h5ad
    from viewsmith.networks import scaling
    from viewsmith.training import engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(h5ad, "try_attributes", lambda path: None)
        patch.setattr(os, "fsync", lambda descriptor: None)
        for module in (engine, scaling):
            patch.setattr(module, "return_freed_memory", lambda: None)
        yield


@pytest.fixture
def no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the code path of a GPU, which skips no work that depends on values of tensors."""
    from viewsmith.core import tensors

    monkeypatch.setattr(tensors, "HOST", set())


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of one step, and no t-SNE, which takes longer than everything else."""
    import numpy as np

    from viewsmith.core.registry import entries
    from viewsmith.estimator import figures, resolve
    from viewsmith.methods.contrastive import estimator as contrastive

    for entry in entries("modality"):
        monkeypatch.setattr(type(entry.build()), "steps", 1)
    for name in ("SHORTEST", "SHORT"):
        monkeypatch.setattr(contrastive, name, (1, 3e-3))
    monkeypatch.setattr(resolve, "TRIAL_STEPS", 1)
    monkeypatch.setattr(figures, "two_dimensional_map", lambda h: (h[:, :2], np.arange(len(h))))


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    """1797 handwritten digits as 64 counts from 0 to 16, three of them always 0: float32 (1797, 64)."""
    from sklearn.datasets import load_digits

    return load_digits().data.astype("float32")


@pytest.fixture(scope="session")
def wine() -> np.ndarray:
    """178 wines with 13 features on very different scales: float32 (178, 13)."""
    from sklearn.datasets import load_wine

    return load_wine().data.astype("float32")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, named by VIEWSMITH_DATA."""
    folder = os.environ.get("VIEWSMITH_DATA")
    if not folder:
        pytest.skip("VIEWSMITH_DATA names no folder of data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def processes():
    """Starts processes that have run no other code; the server that they are forked from imports slow packages once."""
    context = multiprocessing.get_context("forkserver")
    # torch imports its compiler with the first optimizer, which takes longer than any training in the tests.
    preloaded = ["torch", "torch._dynamo", "viewsmith.methods.loading", "sklearn.manifold", "pydantic"]
    context.set_forkserver_preload([*preloaded, "matplotlib.figure", "matplotlib.backends.backend_svg"])
    return context


@pytest.fixture(scope="session")
def in_pair(processes, tmp_path_factory):
    """Calls ``work(rank, *args, **kwargs)`` in a group of two processes and waits until both have succeeded."""
    from pair_member import member as target

    def run(work, *args, **kwargs):
        meet = tmp_path_factory.mktemp("group") / "meet"
        members = [processes.Process(target=target, args=(work, rank, meet, *args), kwargs=kwargs) for rank in (0, 1)]
        for member in members:
            member.start()
        for member in members:
            member.join(90)
        alive = [member.kill() for member in members if member.is_alive()]
        assert not alive and [member.exitcode for member in members] == [0, 0]

    return run


@pytest.fixture(scope="session")
def tensors_of_pair(in_pair, tmp_path_factory):
    """The tensors that ``work(rank, folder)`` saved as ``folder/RANK.pt`` in each of two processes."""

    import torch

    def run(work):
        folder = tmp_path_factory.mktemp("tensors")
        in_pair(work, str(folder))
        return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]

    return run
