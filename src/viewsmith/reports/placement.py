"""Views beside their samples in one picture, whatever their size: crops in the middle, windows where they lie."""

from __future__ import annotations

import numpy as np

from viewsmith.reports.galleries import OUTSIDE

GRAY = 128


def like_sample(views: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Views (n, k, ...) of samples (n, ...), images or sequences, in the samples' shape.

    Smaller images are in the middle of gray, larger ones lose rows and columns evenly. A shorter piece of a sequence
    stands where the sequence has it, among `OUTSIDE`; one that is not in it begins where the sequence begins.
    """
    if views.shape[2:] == samples.shape[1:]:
        return views
    if samples.ndim == 2:
        pairs = zip(views, samples, strict=True)
        return np.stack([np.stack([_placed(view, sample) for view in of]) for of, sample in pairs])
    for axis, side in enumerate(samples.shape[1:3], start=2):
        if (given := views.shape[axis]) > side:
            views = views.take(np.arange(side) * given // side, axis=axis)
    missing = [large - small for large, small in zip(samples.shape[1:], views.shape[2:], strict=True)]
    sides = [(part // 2, part - part // 2) for part in missing]
    return np.pad(views, [(0, 0), (0, 0), *sides], constant_values=GRAY)


def _placed(view: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Letters of a view (L',), 0 after its end, along its sample (L,)."""
    piece, whole = view.tobytes().rstrip(b"\0"), sample.tobytes().rstrip(b"\0").upper()
    start = whole.find(piece)
    found = np.zeros_like(sample)
    if start < 0 or not piece:
        length = min(len(view), len(sample))
        found[:length] = view[:length]
        return found
    found[: len(whole)] = OUTSIDE
    found[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
    return found
