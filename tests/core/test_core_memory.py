"""What a process holds, and what it gives back to the system."""

import os
import sys

import numpy as np
import pytest

from viewsmith.core.memory import give_back, resident_bytes

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says it")


@LINUX
def test_memory_in_use_is_counted():
    before = resident_bytes()
    held = np.ones(2**23)
    assert before is not None and resident_bytes() - before > held.nbytes / 2


def test_giving_back_changes_no_value_and_may_be_unknown(monkeypatch):
    held = np.arange(1000)
    give_back()
    assert np.array_equal(held, np.arange(1000))
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    give_back()


def test_a_system_that_does_not_say_it(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert resident_bytes() is None
