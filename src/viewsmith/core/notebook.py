"""What a notebook shows: tables of facts, and a bar below the cell that is updated in place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


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
        self._handle.update({"text/html": bar, "text/plain": f"{text} ({done:.0f} of {total:.0f})"}, raw=True)


def html_table(title: str, rows: Iterable[Sequence[object]], header: Sequence[object] = (), note: str = "") -> str:
    """A table in HTML, all texts escaped."""

    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    head = f"<thead>{line(header, 'th')}</thead>" if header else ""
    body = "".join(line(cells, "td") for cells in rows)
    end = f"<p>{escape(note)}</p>" if note else ""
    return f"<div><strong>{escape(title)}</strong><table>{head}<tbody>{body}</tbody></table>{end}</div>"
