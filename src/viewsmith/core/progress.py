"""Progress bars on the terminal or in a notebook, and what else a notebook shows: tables of facts."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any, TypeVar

from viewsmith.core.errors import say

#: Seconds after which a search says elsewhere than on a terminal how long it will take.
TOLD = 20.0


def in_notebook() -> bool:
    """Whether the code runs in a notebook: an IPython kernel, not a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """A progress bar and a line of text below the cell."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, text: str, done: float, total: float) -> None:
        """Draw the bar anew."""
        bar = f'<progress value="{done:.0f}" max="{total:.0f}"></progress> {escape(text)}'
        self._handle.update({"text/html": bar, "text/plain": text}, raw=True)


def html_table(title: str, rows: Iterable[Sequence[object]], header: Sequence[object] = (), note: str = "") -> str:
    """A table in HTML, all texts escaped."""

    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    head = f"<thead>{line(header, 'th')}</thead>" if header else ""
    body = "".join(line(cells, "td") for cells in rows)
    end = f"<p>{escape(note)}</p>" if note else ""
    name = f"<strong>{escape(title)}</strong>" if title else ""
    return f"<div>{name}<table>{head}<tbody>{body}</tbody></table>{end}</div>"


T = TypeVar("T")


def _is_first() -> bool:
    """Whether this process is the first of its group, or alone."""
    if "torch.distributed" not in sys.modules:  # without it there is no group, and it is slow to import
        return True
    from viewsmith.core.distributed import rank

    return rank() == 0


def with_progress(
    items: Iterable[T],
    source_name: str,
    total: int,
    unit: str,
    *,
    size: Callable[[T], int] = lambda item: 1,
    after: float = 1.0,
    told: float | None = None,
) -> Iterator[T]:
    """Yield the items; after `after` seconds a progress bar appears on stderr if it is a terminal, or in a notebook;
    elsewhere after `told` seconds one line with a rough total. Raises OutOfTime within a `time_limit`."""
    first, items = _is_first(), _in_time(items)
    if first and in_notebook():
        yield from _in_notebook(items, source_name, total, unit, size, after)
        return
    if not sys.stderr.isatty() or not first:
        yield from items if told is None or not first else _told(items, source_name, total, unit, size, told)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(source_name), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task, started = bar.add_task(source_name, total=total), time.monotonic()
    timer = threading.Timer(after, bar.start)  # it is also seen while the first item takes long
    timer.start()
    try:
        for item in items:
            yield item
            bar.advance(task, size(item))
            if time.monotonic() - started >= after:
                bar.start()
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


def _in_time(items: Iterable[T]) -> Iterator[T]:
    """Yield the items; raises OutOfTime after the time of a `time_limit`, which is in a module that imports torch."""
    limits = sys.modules.get("viewsmith.core.distributed")
    for item in items:
        if limits is not None:
            limits.check_time()
        yield item


def _told(items: Iterable[T], title: str, total: int, unit: str, size: Callable[[T], int], after: float) -> Iterator[T]:
    """Yield the items, and say once how long all will take."""
    started, done, said = time.monotonic(), 0, False
    for item in items:
        yield item
        done, seconds = done + size(item), time.monotonic() - started
        if not said and seconds >= after and done < total:
            said = True
            say(
                f"{title}: {done:,} of {total:,} {unit} in {seconds:.0f} s, about {seconds * total / done:.0f} s in all"
            )


def _in_notebook(
    items: Iterable[T], title: str, total: int, unit: str, size: Callable[[T], int], after: float
) -> Iterator[T]:
    bar, done, drawn = None, 0, time.monotonic() - 0.25 + after
    for item in items:
        yield item
        done += size(item)
        if time.monotonic() - drawn >= 0.25 or (bar is not None and done >= total):
            bar, drawn = bar or NotebookBar(), time.monotonic()
            bar.update(f"{title}: {min(done, total):,} of {total:,} {unit}", done, total)
