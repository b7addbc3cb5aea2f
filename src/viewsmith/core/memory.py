"""Memory: the limit for the rows of a data set, the use of this process, and the return of freed memory."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from viewsmith.core.errors import InputError


def check_size(n_bytes: int, what: str, advice: str) -> None:
    """Check that an array fits into `memory_limit` before it is allocated.

    Parameters
    ----------
    n_bytes : int
        Size of the array.
    what : str
        What the array holds, as the subject of the message.
    advice : str
        What the user can do, as the end of the message.

    Raises
    ------
    InputError
        The array is larger than `memory_limit`.
    """
    limit = memory_limit()
    if limit is not None and n_bytes > limit:
        raise InputError(
            f"{what} would take {n_bytes / 2**30:,.1f} GiB, more than half of this machine's memory "
            f"({limit / 2**30:,.1f} GiB); {advice}"
        )


def memory_limit() -> int | None:
    """Bytes for the rows of a data set: half of the memory, because training makes a copy; None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def resident_bytes() -> int | None:
    """Bytes of memory that this process uses (resident set size); None on systems other than Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def return_freed_memory() -> None:
    """Return freed memory to the operating system, if the C library can (glibc). No value changes."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, TypeError, AttributeError):
        return
