"""Sounds between silences: where they lie in a recording, by the level over its own background."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import ndimage

#: In place of a length: recordings are cut into the sounds between silences.
SOUNDS = "sounds"

FRAME_SECONDS, FRAMES_A_HOP = 0.01, 4  # of a spectrum, and how many of its length to the next one
SMOOTHED = 5  # spectra in a row that are averaged
QUIET = 20  # percentile of the power of a band that is its background
LEAST_SECONDS = 0.02  # of a sound
LOWEST_RATE = 1000.0  # points per second
BLOCK = 2**20  # points that are in memory at once
FRAMES = 20_000  # of a recording, at most, by which its background is known


def sound_spans(x: Any, rate: float) -> np.ndarray:
    """First points of the sounds of a recording (channels, time), and those after their last, int (k, 2).

    The power of each band of the spectrum is divided by its background, a low percentile over the recording; the level
    is its mean over bands in decibels. Sounds are above Otsu's threshold (1979), for 20 ms at least."""
    points = 2 ** max(4, round(np.log2(FRAME_SECONDS * rate)))
    hop = points // FRAMES_A_HOP
    every = -(-(x.shape[1] // hop + 1) // FRAMES)
    some = np.concatenate([power[::every] for power in _powers(x, points, hop)])
    background = np.percentile(some, QUIET, axis=0) + 1e-12 * max(float(some.max()), 1e-30)
    levels = [10 * np.log10((power / background).mean(1) + 1e-12) for power in _powers(x, points, hop)]
    level = np.concatenate(levels)
    if not some.any() or np.ptp(level) == 0:
        return np.empty((0, 2), np.int64)
    spans = [(s.start, s.stop) for (s,) in ndimage.find_objects(ndimage.label(level > otsu_threshold(level))[0])]
    found = hop * np.array(spans, np.int64).reshape(-1, 2)
    found = np.minimum(found, x.shape[1])
    return np.asarray(found[found[:, 1] - found[:, 0] >= LEAST_SECONDS * rate])


def _powers(x: Any, points: int, hop: int) -> Iterator[np.ndarray]:
    """Power spectra (frames, bands) of frames around every `hop`-th point, averaged over some in a row, in blocks."""
    window, half, step = np.hanning(points), points // 2, BLOCK // hop * hop
    for start in range(0, x.shape[1], step):
        stop = min(start + step, x.shape[1])
        low, high = max(0, start - half), min(x.shape[1], stop + half)
        part = np.nan_to_num(np.asarray(x[:, low:high], np.float64))
        part = np.pad(part, ((0, 0), (half - (start - low), half - (high - stop))))
        frames = np.lib.stride_tricks.sliding_window_view(part, points, axis=1)[:, : stop - start : hop] * window
        power = (np.abs(np.fft.rfft(frames)) ** 2).sum(0)
        yield ndimage.uniform_filter1d(power, SMOOTHED, axis=0, mode="nearest").clip(0)  # a running sum leaves rounding


def otsu_threshold(values: np.ndarray, bins: int = 256) -> float:
    """The value that parts values into two groups with the largest variance between them (Otsu 1979)."""
    counts, edges = np.histogram(values, bins)
    middle = (edges[1:] + edges[:-1]) / 2
    below, total = np.cumsum(counts), np.cumsum(counts * middle)
    n, m = below[:-1], total[:-1]
    between = (total[-1] * n / below[-1] - m) ** 2 / np.maximum(n * (below[-1] - n), 1)
    return float(middle[between.argmax()])
