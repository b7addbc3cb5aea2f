"""How much memory rows may take."""

from __future__ import annotations

import os

from viewsmith.core.errors import InputError


def check_size(n_bytes: int, what: str, advice: str) -> None:
    """Raise InputError before an array is made that `memory_limit` does not leave room for."""
    limit = memory_limit()
    if limit is not None and n_bytes > limit:
        raise InputError(
            f"{what} would take {n_bytes / 2**30:,.1f} GiB in memory, more than the {limit / 2**30:,.1f} GiB that are "
            f"half of this machine's; {advice}"
        )


def memory_limit() -> int | None:
    """Bytes that the rows may take: half of the machine's memory, for training works on a copy; None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None
