"""A limit for the time of preparations: their loops call `check_time`, which ends them when the time is over."""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from viewsmith.core.errors import StoppedEarly

#: Shorter preparations are never stopped: they would have to be done again.
GRACE = 10.0  # seconds

_END: ContextVar[float | None] = ContextVar("end", default=None)


class OutOfTime(StoppedEarly):
    """The time limit ended before the preparation of a training did."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Within the context, `check_time` raises OutOfTime after so many seconds; None: as outside of it."""
    if seconds is None:
        yield
        return
    token = _END.set(time.monotonic() + max(seconds, GRACE))
    try:
        yield
    finally:
        _END.reset(token)


def check_time() -> None:
    """Raise OutOfTime if the time of a `time_limit` is over."""
    end = _END.get()
    if end is not None and time.monotonic() > end:
        raise OutOfTime(
            "nothing was trained: the time limit ended while the training was prepared; give more minutes (--minutes), "
            "or fewer rows"
        )
