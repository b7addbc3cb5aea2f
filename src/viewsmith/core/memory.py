"""Memory that a long job frees and asks for again at every step."""

from __future__ import annotations

import ctypes
import functools
import os

#: glibc's numbers of the two settings, and their values in bytes.
TRIM, MMAP = (-1, 2**28), (-3, 2**25)


@functools.cache
def keep_freed_memory() -> bool:
    """Have glibc's allocator keep up to 256 MiB that the process has freed, instead of handing it back at once.

    A step frees its activations and the next asks for as many; what went back to the system in between is zeroed page
    by page again. Tensors of more than 32 MiB go back as ever. Nothing changes where the user has set the allocator by
    the environment, or where there is no glibc.

    Returns
    -------
    bool
        Whether it was done.
    """
    if any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ:
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - its absence raises: another C library
        return all(library.mallopt(number, size) for number, size in (MMAP, TRIM))
    except (OSError, AttributeError, TypeError):  # TypeError: no CDLL(None) on Windows
        return False
