"""What a training step reads without waiting for a GPU; the memory of this process, and the limit for rows."""

import contextlib
import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError

#: Types of devices whose values Python can read without waiting.
HOST = {"cpu"}


def on_host(x: Tensor) -> bool:
    """Whether Python can read the values of a tensor without waiting until a GPU has done all queued work."""
    return x.device.type in HOST


def constant(values: Sequence[float], like: Tensor) -> Tensor:
    """Numbers as a tensor (len(values),) like `like`, made once: it must not be changed."""
    return _constant(tuple(values), like.dtype, like.device)


@functools.cache
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    # `torch.tensor` would make it on the host and wait for a copy. A tensor of inference mode could not be used in a
    # training later.
    with torch.inference_mode(False):
        return torch.cat([torch.full((1,), value, dtype=dtype, device=device) for value in values])


class HostNumbers(nn.Module):
    """Numbers ``numbers["rounds"]`` saved with a module: buffers, for which a read would wait, and Python numbers."""

    def __init__(self, **values: float) -> None:
        super().__init__()
        self._values = dict(values)
        for name, value in values.items():
            self.register_buffer(name, torch.tensor(value))
        self.register_load_state_dict_post_hook(_read_numbers)

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __setitem__(self, name: str, value: float) -> None:
        self._values[name] = value
        self.get_buffer(name).fill_(value)


def _read_numbers(numbers: HostNumbers, keys: object) -> None:
    numbers._values = {name: buffer.item() for name, buffer in numbers.named_buffers()}


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
