"""A limit for the time of preparations: their loops call `check_time`, which ends them when the time is over.

Several processes reach the limit in different places, and would wait for each other's messages: they stop in stretches
without messages alone (`together`), at whose end they agree.
"""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from viewsmith.core import distributed
from viewsmith.core.errors import StoppedEarly

#: Shorter preparations are never stopped: they would have to be done again.
GRACE = 10.0  # seconds


@dataclass(frozen=True)
class Limit:
    """When the time is over, on which device processes send messages, and whether this one may stop."""

    end: float
    device: torch.device | str
    may_stop: bool


_LIMIT: ContextVar[Limit | None] = ContextVar("limit", default=None)


class OutOfTime(StoppedEarly):
    """The time limit ended before the preparation of a training did."""

    def __init__(self) -> None:
        super().__init__(
            "nothing was trained: the time limit ended while the training was prepared; give more minutes (--minutes), "
            "or fewer rows"
        )


@contextlib.contextmanager
def time_limit(seconds: float | None, device: torch.device | str = "cpu") -> Iterator[None]:
    """Within the context, `check_time` raises OutOfTime after so many seconds; None: as outside of it."""
    if seconds is None:
        yield
        return
    with _as_limit(Limit(time.monotonic() + max(seconds, GRACE), device, not distributed.is_distributed())):
        yield


@contextlib.contextmanager
def together() -> Iterator[None]:
    """A stretch of a preparation without messages between processes: if the time of one is over, it ends for all."""
    limit = _LIMIT.get()
    if limit is None or limit.may_stop:
        yield
        return
    late = False
    try:
        with _as_limit(Limit(limit.end, limit.device, True)):
            yield
    except OutOfTime:
        late = True
    if distributed.max_over_processes(int(late), limit.device):
        raise OutOfTime


@contextlib.contextmanager
def _as_limit(limit: Limit) -> Iterator[None]:
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check_time() -> None:
    """Raise OutOfTime if the time of a `time_limit` is over, in several processes within `together`."""
    limit = _LIMIT.get()
    if limit is not None and limit.may_stop and time.monotonic() > limit.end:
        raise OutOfTime
