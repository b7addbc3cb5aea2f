"""Bring views to the shape of their samples, to draw both in one picture: crops are padded, windows are aligned."""

from __future__ import annotations

import numpy as np

from viewsmith.reports.galleries import OUTSIDE

GRAY = 128


def match_sample_shape(views: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Pad, subsample or align views of images or sequences to the shape of their samples.

    Smaller images are centered on gray; larger images are subsampled evenly. Shorter recordings are centered on NaN. A
    window of a sequence is aligned to the position where the sequence contains it, with `OUTSIDE` at all other
    positions. A view that the sequence does not contain is aligned to the start.

    Parameters
    ----------
    views : (n, k, ...) array
    samples : (n, ...) array

    Returns
    -------
    (n, k, ...) array
        With the trailing shape of `samples`.
    """
    if views.shape[2:] == samples.shape[1:]:
        return views
    if samples.ndim == 2:
        pairs = zip(views, samples, strict=True)
        return np.stack([np.stack([_align(view, sample) for view in of_sample]) for of_sample, sample in pairs])
    for axis, size in enumerate(samples.shape[1:3], start=2):
        if (given := views.shape[axis]) > size:
            views = views.take(np.arange(size) * given // size, axis=axis)
    missing = [large - small for large, small in zip(samples.shape[1:], views.shape[2:], strict=True)]
    padding = [(part // 2, part - part // 2) for part in missing]
    outside = np.nan if views.dtype.kind == "f" else GRAY
    return np.pad(views, [(0, 0), (0, 0), *padding], constant_values=outside)


def _align(view: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """A view, (L',), aligned to its sample, (L,); both are letters with zeros after their end."""
    window, sequence = view.tobytes().rstrip(b"\0"), sample.tobytes().rstrip(b"\0").upper()
    start = sequence.find(window)
    aligned = np.zeros_like(sample)
    if start < 0 or not window:
        length = min(len(view), len(sample))
        aligned[:length] = view[:length]
        return aligned
    aligned[: len(sequence)] = OUTSIDE
    aligned[start : start + len(window)] = np.frombuffer(window, np.uint8)
    return aligned
