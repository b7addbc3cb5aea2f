"""The memory of this process, and the limit for rows; without torch."""

import contextlib
import ctypes
import os
from pathlib import Path

from viewsmith.core.errors import InputError


def check_size(n_bytes: int, source_name: str, advice: str) -> None:
    """Check that an array fits into `memory_limit` before it is allocated."""
    limit = memory_limit()
    if limit is not None and n_bytes > limit:
        raise InputError(
            f"{source_name} would take {n_bytes / 2**30:,.1f} GiB, more than half of this machine's memory "
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


#: Bytes from which memory is returned when it is freed: while a training is prepared, and during it (glibc's maximum).
PREPARATION, TRAINING = 2**22, 2**25


def return_blocks(size: int) -> None:
    """Return memory of `size` bytes or more to the system as soon as it is freed, if the C library can (glibc).

    By default glibc soon keeps blocks of up to 32 MiB in its heap, where small ones that stay cut it into pieces.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):
        for option, value in ((-3, size), (-1, 2 * size)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            ctypes.CDLL(None).mallopt(option, value)


def return_freed_memory() -> None:
    """Return freed memory to the operating system, if the C library can (glibc). No value changes."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
