"""The box step: the rectangle in which the cells of a map sum to the most, of any size."""

from __future__ import annotations

import numpy as np


def best_boxes(maps: np.ndarray, smallest: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """The rectangle with the largest sum in each map, by integral images.

    Parameters
    ----------
    maps : ndarray, shape (n, h, w)
        Positive inside a part, negative outside.
    smallest : int
        Smallest side of a rectangle, in cells; smaller maps are taken whole.

    Returns
    -------
    boxes : ndarray of int, shape (n, 4)
        top, left, bottom, right; the last two are outside.
    sums : ndarray, shape (n,)
    """
    n, h, w = maps.shape
    tall, wide = min(smallest, h), min(smallest, w)
    rows = np.concatenate([np.zeros((n, 1, w)), np.cumsum(maps, 1, dtype=np.float64)], 1)
    best, boxes, each = np.full(n, -np.inf), np.zeros((n, 4), np.int64), np.arange(n)
    for top in range(h - tall + 1):
        for bottom in range(top + tall, h + 1):
            prefix = np.concatenate([np.zeros((n, 1)), np.cumsum(rows[:, bottom] - rows[:, top], 1)], 1)
            # The best left edge for a right edge is the smallest prefix at least `wide` before it.
            ends, starts = prefix[:, wide:], np.minimum.accumulate(prefix[:, : w - wide + 1], 1)
            right = np.argmax(ends - starts, 1)
            value = ends[each, right] - starts[each, right]
            better = np.flatnonzero(value > best)
            for i in better:
                left = int(np.argmin(prefix[i, : right[i] + 1]))
                boxes[i] = top, left, bottom, right[i] + wide
            best[better] = value[better]
    return boxes, best
