"""Parts of error messages: names, counts and reasons, formatted for a message of one line."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence


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
