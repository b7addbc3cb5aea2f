"""Memory that a process uses, and the return of freed memory to the system."""

import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from viewsmith.core.rows import PREPARATION, resident_bytes, return_blocks, return_freed_memory

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="known on Linux only")


@LINUX
def test_resident_bytes_grow_with_an_array():
    grown = []
    for _ in range(10):  # the system may take other pages of the process away at the same time
        before = resident_bytes()
        with mmap.mmap(-1, 2**26) as pages:  # new pages: an array may get memory that the process kept
            pages.write(bytes(2**26))
            grown.append(resident_bytes() - before)
    assert max(grown) > 2**25


def test_returning_freed_memory_changes_no_value_and_needs_no_glibc(monkeypatch):
    array = np.arange(1000)
    return_freed_memory()
    assert np.array_equal(array, np.arange(1000))
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    return_freed_memory()
    return_blocks(PREPARATION)


HOLES = """
import os
import numpy as np
from viewsmith.core.rows import PREPARATION, TRAINING, resident_bytes, return_blocks
for sizes in ((), (PREPARATION,), (PREPARATION, TRAINING)):
    if os.fork():
        os.wait()
        continue
    for each in sizes:
        return_blocks(each)
    before = resident_bytes()
    blocks = np.ones(2**21)
    del blocks  # glibc keeps blocks of this size from now on
    blocks = [(np.ones(2**20), np.ones(2**14)) for _ in range(20)]
    blocks = [small for _, small in blocks]
    print((resident_bytes() - before) / 2**20, flush=True)
    os._exit(0)
"""


@LINUX
def test_large_blocks_between_small_ones_are_returned_while_a_training_is_prepared():
    result = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    never, preparing, training = map(float, result.stdout.split())
    assert min(never, training) > 100 and preparing < 20


def test_resident_bytes_are_none_on_other_systems(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert resident_bytes() is None
