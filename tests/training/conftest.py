"""Processes that tests may kill."""

import multiprocessing

import pytest
from training_toys import apart


@pytest.fixture(scope="session")
def processes():
    """Starts processes that have not run any of ours; torch is loaded once, in the server they are forked from."""
    context = multiprocessing.get_context("forkserver")
    # torch loads its compiler at the first optimiser, which takes longer than any training here.
    context.set_forkserver_preload(["torch", "torch._dynamo", "viewsmith.training", "viewsmith.methods"])
    return context


@pytest.fixture
def in_process(processes):
    """Runs a function in a process of its own and returns its exit code."""

    def call(function, *args, **kwargs):
        process = processes.Process(target=apart, args=(function, *args), kwargs=kwargs)
        process.start()
        process.join(60)
        if process.is_alive():
            process.kill()
            pytest.fail(f"{function.__name__} did not end")
        return process.exitcode

    return call
