"""Memory that a process uses, and the return of freed memory to the system."""

import os
import sys

import numpy as np
import pytest

from viewsmith.core.device import resident_bytes, return_freed_memory

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="known on Linux only")


@LINUX
def test_resident_bytes_grow_with_an_array():
    grown = []
    for _ in range(3):  # the system may take other pages of the process away at the same time
        before = resident_bytes()
        array = np.ones(2**23)
        grown.append(resident_bytes() - before)
        del array
    assert max(grown) > 2**22 * 8


def test_returning_freed_memory_changes_no_value_and_needs_no_glibc(monkeypatch):
    array = np.arange(1000)
    return_freed_memory()
    assert np.array_equal(array, np.arange(1000))
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    return_freed_memory()


def test_resident_bytes_are_none_on_other_systems(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert resident_bytes() is None
