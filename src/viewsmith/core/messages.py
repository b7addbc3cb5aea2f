"""Words of the data room's messages: names and reasons from outside, made safe for one line."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence


def one_line(text: object, limit: int = 300) -> str:
    """`text` without line breaks and control characters, cut at `limit` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def name_list(names: Sequence[object], limit: int = 5) -> str:
    """The first names, separated by commas, and how many more there are."""
    shown = ", ".join(one_line(name, 60) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 column``, ``2 columns``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def known_names(name: str, known: Sequence[str], what: str) -> str:
    """What to say after an unknown name: close matches where there are any, else the first known names."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {name_list(close)}?" if close else f"{what}: {name_list(known)}"


def repeated(names: Sequence[str]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]
