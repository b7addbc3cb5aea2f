"""A progress bar on the terminal or in a notebook, for long loops."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from viewsmith.core.distributed import rank
from viewsmith.core.notebook import NotebookBar, in_notebook

T = TypeVar("T")


def with_progress(
    items: Iterable[T],
    source_name: str,
    total: int,
    unit: str,
    *,
    size: Callable[[T], int] = lambda item: 1,
    after: float = 1.0,
) -> Iterator[T]:
    """Yield the items; after `after` seconds a progress bar appears on stderr if it is a terminal, or in a notebook."""
    if rank() == 0 and in_notebook():
        yield from _in_notebook(items, source_name, total, unit, size, after)
        return
    if not sys.stderr.isatty() or rank() != 0:
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(source_name), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task, started = bar.add_task(source_name, total=total), time.monotonic()
    shown = False
    try:
        for item in items:
            yield item
            bar.advance(task, size(item))
            if not shown and time.monotonic() - started >= after:
                shown = True
                bar.start()
    finally:
        if shown:
            bar.stop()


def _in_notebook(
    items: Iterable[T], what: str, total: int, unit: str, size: Callable[[T], int], after: float
) -> Iterator[T]:
    bar, done, drawn = None, 0, time.monotonic() - 0.25 + after
    for item in items:
        yield item
        done += size(item)
        if time.monotonic() - drawn >= 0.25 or (bar is not None and done >= total):
            bar, drawn = bar or NotebookBar(), time.monotonic()
            bar.update(f"{what}: {min(done, total):,} of {total:,} {unit}", done, total)
