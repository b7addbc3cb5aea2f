"""Parts of error messages: names, counts and reasons, formatted for a message of one line."""

from __future__ import annotations

import contextlib
import difflib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import ContextVar


def one_line(text: object, limit: int = 300) -> str:
    """`text` without line breaks and control characters, cut at `limit` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def error_text(error: BaseException) -> str:
    """Type and message of an exception on one line: ``ValueError: ...``."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def name_list(names: Sequence[object], limit: int = 5) -> str:
    """The first `limit` names, separated by commas, and the number of the remaining ones."""
    shown = ", ".join(one_line(name, 60) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def join_names(names: Sequence[str], last: str = "or") -> str:
    """Names in quotes, joined for a sentence: ``'a', 'b' or 'c'``."""
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: ``1 column``, ``2 columns``. `many` is the plural; by default `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def suggest_names(name: str, known: Sequence[str], what: str) -> str:
    """Hint for the message about an unknown name: close matches if there are any, else the first known names."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {name_list(close)}?" if close else f"{what}: {name_list(known)}"


def duplicates(names: Sequence[str]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


#: Lines that were said within `lines_once`; None outside of it.
_SAID: ContextVar[set[str] | None] = ContextVar("said", default=None)


def say(line: str) -> None:
    """Print a line on stderr; within `lines_once` only the first time."""
    said = _SAID.get()
    if said is None or line not in said:
        print(line, file=sys.stderr)
    if said is not None:
        said.add(line)


@contextlib.contextmanager
def lines_once() -> Iterator[None]:
    """Within the context, `say` does not repeat a line: several trainings on the same data say the same of them."""
    token = _SAID.set(set())
    try:
        yield
    finally:
        _SAID.reset(token)


def warn(message: str) -> None:
    """Warn the user, at the line of the code outside of viewsmith that called it."""
    level, depth, frame = 1, 1, sys._getframe(0)
    while frame.f_back is not None:
        # The outermost frame counts: a user's object may be between frames, and decorators of torch are around some.
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package == "viewsmith" or (package == "torch" and level == depth):
            level = depth + 1
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)
