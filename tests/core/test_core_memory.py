"""Freed memory that the process keeps."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
import platform
import resource
import torch
from viewsmith.core.memory import keep_freed_memory

def step():
    activations = [torch.ones(2**18) for _ in range(32)]  # 1 MiB each

def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // steps

if platform.libc_ver()[0] == "glibc":
    ctypes.CDLL(None).mallopt(-3, 2**17)  # where glibc starts: larger pieces come from the system and go back to it
faults(5)
plain = faults(20)
done = keep_freed_memory()
faults(5)
print(done, plain, faults(20))
"""


def told(**variables):
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name and "GLIBC" not in name}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment | variables, capture_output=True, text=True, check=True
    )
    done, plain, kept = found.stdout.split()
    return done == "True", int(plain), int(kept)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_what_is_freed_is_not_asked_of_the_system_again():
    done, plain, kept = told()
    assert done
    # 32 MiB are 8,192 pages; without the setting they come anew in each step.
    assert plain > 4000 and kept < 400


def test_a_setting_of_the_user_stays():
    assert not told(MALLOC_TRIM_THRESHOLD_="131072")[0]
    assert not told(GLIBC_TUNABLES="glibc.malloc.mmap_max=65536")[0]
