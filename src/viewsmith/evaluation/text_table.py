"""Plain-text tables of scores: aligned columns with the best score marked, in blocks that fit a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

WIDTH = 120


def aligned(cells: Sequence[str], pad: Callable[[str, int], str] = str.ljust) -> list[str]:
    """The cells of a column, padded to one width."""
    width = max(map(len, cells))
    return [pad(cell, width) for cell in cells]


def marked(values: Sequence[float], *, lower: bool = False) -> list[str]:
    """Scores to three decimals, each followed by ``*`` if it equals the best one in this form, else by a space.

    The best is the highest, or the lowest if `lower`.
    """
    texts = [f"{value:.3f}" for value in values]
    finite = [text for text, value in zip(texts, values, strict=True) if math.isfinite(value)]
    best = (min if lower else max)(finite, key=float, default=None)
    return [text + ("*" if text == best else " ") for text in texts]


def beside(columns: Sequence[Sequence[str]]) -> str:
    """Columns of equal length beside each other, as lines of text."""
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def in_blocks(names: Sequence[str], columns: Sequence[Sequence[str]], width: int = WIDTH) -> list[str]:
    """One or more tables with the names of the rows and as many of the columns as fit.

    Parameters
    ----------
    names : sequence of n str
    columns : sequence of columns of n + 1 aligned str
        The first cell of each is its title.
    width : int
        Largest width of a table in characters.
    """
    first, blocks, used = aligned(["", *names]), list[list[Sequence[str]]](), width
    for column in columns:
        if used + len(column[0]) + 2 > width:
            blocks.append([first])
            used = len(first[0])
        blocks[-1].append(column)
        used += len(column[0]) + 2
    return [beside(block) for block in blocks]
