"""Sequences with one event at a random place, and the place; as `clutter.py` for images.

promoters   a promoter window of `dna_arabidopsis_promoter` (251 bases) in 1,000 random bases, which are drawn base by
            base with the frequencies of that window; the class is whether the window is a promoter
events      one of six shapes of 48 points, in one of three channels more than in the others, in noise and drift; 256
            points; the class is the shape

Shapes: a bump, a step that decays, a burst, a chirp, a double peak, a ramp.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from benchmarks.common.data import data_folder

NAMES = ("promoters", "events")
BASES, PROMOTER = 1000, "dna_arabidopsis_promoter"
POINTS, EVENT, CHANNELS = 256, 48, 3
HEIGHT, DRIFT = 4.0, 0.1  # of an event, and of a step of the drift, in standard deviations of the noise

Split = Literal["train", "test"]


def make(name: str, n: int, seed: int, split: Split = "train") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the sequences of a regime.

    Parameters
    ----------
    name : {"promoters", "events"}
    n : int
        Number of sequences.
    seed : int
        Determines events, places and background.
    split : {"train", "test"}
        Part of the data set that promoter windows come from.

    Returns
    -------
    sequences : ndarray, uint8 (n, 1000) letters, or float32 (n, 3, 256)
    labels : ndarray, (n,)
    windows : ndarray, int64 (n, 2)
        Start and end (the position after the last) of each event.
    """
    rng = np.random.default_rng([seed, NAMES.index(name), split == "test"])
    return _promoters(n, rng, split) if name == "promoters" else _events(n, rng)


def _promoters(n: int, rng: np.random.Generator, split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(data_folder() / f"{PROMOTER}.npz") as archive:
        source, classes = archive[f"X_{split}"], archive[f"y_{split}"]
    rows = np.concatenate([rng.permutation(len(source)) for _ in range(-(-n // len(source)))])[:n]
    letters, width = np.frombuffer(b"ACGT", np.uint8), source.shape[1]
    starts = rng.integers(0, BASES - width + 1, n)
    made = np.empty((n, BASES), np.uint8)
    for sequence, window, start in zip(made, source[rows] & 0xDF, starts, strict=True):  # in upper case
        counts = (window[:, None] == letters).sum(axis=0)
        sequence[:] = rng.choice(letters, BASES, p=counts / counts.sum())
        sequence[start : start + width] = window
    return made, classes[rows], np.stack([starts, starts + width], axis=1)


def shapes() -> np.ndarray:
    """The six shapes, (6, EVENT), with largest absolute value 1."""
    t = np.linspace(0, 1, EVENT)
    envelope = np.sin(np.pi * t) ** 2
    found = np.stack(
        [
            envelope,
            np.exp(-4 * t),
            envelope * np.sin(2 * np.pi * 8 * t),
            envelope * np.sin(2 * np.pi * 10 * t**2),
            np.exp(-(((t - 0.25) / 0.08) ** 2)) + np.exp(-(((t - 0.75) / 0.08) ** 2)),
            t * (t < 0.95),
        ]
    )
    return found / np.abs(found).max(axis=1, keepdims=True)


def _events(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels, starts = rng.integers(0, 6, n), rng.integers(0, POINTS - EVENT + 1, n)
    drift = np.cumsum(rng.normal(0, DRIFT, (n, CHANNELS, POINTS)), axis=2)
    made = rng.normal(size=(n, CHANNELS, POINTS)) + drift - drift.mean(axis=2, keepdims=True)
    weights = rng.uniform(0.2, 0.5, (n, CHANNELS))
    weights[np.arange(n), rng.integers(0, CHANNELS, n)] = 1
    for recording, shape, start, weight in zip(made, shapes()[labels], starts, weights, strict=True):
        recording[:, start : start + EVENT] += HEIGHT * weight[:, None] * shape
    return made.astype(np.float32), labels, np.stack([starts, starts + EVENT], axis=1)
