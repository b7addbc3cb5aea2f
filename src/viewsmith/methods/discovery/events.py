"""Discovery in recordings: an event that recurs in pieces of recordings, such as a heart beat, and where.

1. Windows: every window of w points, less its mean in each channel, averaged over a few points in a row, reduced to
   whitened principal components.
2. Contrast: windows are chosen that look alike across pieces and unlike windows in general
   (`viewsmith.methods.discovery.contrast`).
3. One view: the chosen windows may be an event shifted to both sides. From the larger half of them, with one window of
   a piece, the rounds are repeated; the result is taken unless it loses gain.
4. Choice: the gain of a width is the mean held-out score of the best window of a piece. The same search in pieces with
   the same spectra and random phases says what is found in nothing; the width with the most above it is taken, and none
   if it is not clearly above: nothing recurs.

With one template this is the consensus motif of a set of recordings (Kamgar et al. 2019); surrogates with random phases
are those of Theiler et al. (1992).

Symbols: z a window; w its points; n pieces of C channels and T points; s(z) = log p_P(z) / p_U(z).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewsmith.methods.discovery.contrast import Contrast, Moments, Whitening, choose_windows, folds

POINTS = 24  # averages of a window in each channel
FITTED_STEPS, STEPS = 8, 16  # windows begin at every w / 8 points when an event is fitted, else at every w / 16
DRAWS = 4  # of pieces with random phases
SPLITS = 2  # times that the chosen windows are cut in two
ONE_VIEW = 0.9  # of the gain of all, which one view must reach
CLEAR = 6.0  # least clarity of an event that recurs
LEAST_SPREAD = 0.25  # nats


@dataclass(frozen=True)
class Event:
    """An event, fitted: it scores the windows of any pieces.

    Attributes
    ----------
    width : int
        Points of a window.
    windows : (Whitening, Contrast)
    gain : float
        Mean held-out score of the best window of a piece, in nats.
    nothing : (float, float)
        Mean and standard deviation of the gain in pieces with random phases.
    """

    width: int
    windows: tuple[Whitening, Contrast]
    gain: float
    nothing: tuple[float, float]

    @property
    def clarity(self) -> float:
        """Distance of the gain from what is found in nothing, in standard deviations."""
        return (self.gain - self.nothing[0]) / self.nothing[1]

    @property
    def recurs(self) -> bool:
        """Whether the gain is clearly above what is found in nothing."""
        return self.clarity > CLEAR

    def scores(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First points (m,) of the windows of pieces (n, C, T), and s(z), (n, m)."""
        whitening, contrast = self.windows
        starts, values = window_values(x, self.width)
        z = whitening(values)
        return starts, contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:2])


def window_values(x: np.ndarray, width: int, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """First points (m,) of windows, and their averages less the mean, float32 (n, m, C POINTS), of pieces (n, C, T)."""
    step = max(1, width // POINTS)
    summed = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 0))).cumsum(2)
    means = ((summed[:, :, step:] - summed[:, :, :-step]) / step).astype(np.float32)
    starts = np.arange(0, x.shape[2] - width + 1, max(1, width // steps))
    values = means[:, :, starts[:, None] + np.arange(0, width - step + 1, step)]
    values = (values - values.mean(3, keepdims=True)).transpose(0, 2, 1, 3)
    return starts, np.ascontiguousarray(values).reshape(len(x), len(starts), -1)


def random_phases(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pieces with the same spectra and random phases, the same ones in all channels of a piece, float32 (n, C, T)."""
    spectrum = np.fft.rfft(x, axis=2)
    phases = rng.uniform(0, 2 * np.pi, (len(x), 1, spectrum.shape[2]))
    phases[:, :, 0] = 0
    return np.fft.irfft(spectrum * np.exp(1j * phases), n=x.shape[2], axis=2).astype(np.float32)


def find_events(x: np.ndarray, free: np.ndarray, widths: Sequence[int], seed: int = 0) -> list[Event]:
    """Find what recurs in pieces: an event for each width, see `choose`.

    Parameters
    ----------
    x : ndarray of float32, shape (n, C, T)
    free : ndarray of bool, shape (n, T)
        Points that a window may contain.
    widths : sequence of int
        Points of a window.
    seed : int
        For the folds of pieces and the random phases.
    """
    rng = np.random.default_rng(seed)
    empty = [random_phases(x, rng) for _ in range(DRAWS)]
    fold, found = folds(len(x), seed), []
    for width in widths:
        nothing = [_search(drawn, free, width, fold)[1] for drawn in empty]
        windows, gain = _search(x, free, width, fold)
        spread = max(float(np.std(nothing, ddof=1)), LEAST_SPREAD)
        found.append(Event(width, windows, gain, (float(np.mean(nothing)), spread)))
    return found


def choose(tried: Sequence[Event]) -> Event | None:
    """The event with the most gain above what is found in nothing; None if nothing recurs."""
    likely = [event for event in tried if event.recurs]
    return max(likely, key=lambda event: event.gain - event.nothing[0], default=None)


def free_windows(free: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """Windows all of whose points are free, bool (n, m)."""
    taken = np.pad(~free, ((0, 0), (1, 0))).cumsum(1)
    return np.asarray(taken[:, starts + width] == taken[:, starts])


def _search(x: np.ndarray, free: np.ndarray, width: int, fold: np.ndarray) -> tuple[tuple[Whitening, Contrast], float]:
    """What windows of one width lead to, and its gain."""
    starts, values = window_values(x, width, FITTED_STEPS)
    whole = free_windows(free, starts, width)
    whitening = Whitening.of(values[whole])
    z = whitening(values)
    scores, contrast = choose_windows(z, whole, fold)
    found, least = [(_gain(scores), contrast)], ONE_VIEW * _gain(scores)
    for _ in range(SPLITS):
        scores, contrast = choose_windows(z, whole, fold, _half(z, whole, scores), count=1)
        if _gain(scores) >= least:
            found.append((_gain(scores), contrast))
    gain, contrast = max(found[1:] or found, key=lambda pair: pair[0])
    return (whitening, contrast), gain


def _gain(scores: np.ndarray) -> float:
    best = scores.max(1)
    return float(best[np.isfinite(best)].mean())


def _half(z: np.ndarray, whole: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores (n, m) under the larger half of the best windows, cut across their leading axis."""
    best = z[np.arange(len(z)), scores.argmax(1)][np.isfinite(scores.max(1))]
    along = (best - best.mean(0)) @ np.linalg.svd(best - best.mean(0), full_matrices=False)[2][0]
    half = best[along > 0 if (along > 0).mean() >= 0.5 else along <= 0]
    contrast = Contrast.of(Moments.of(half), Moments.of(z[whole]))
    return contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:2])
