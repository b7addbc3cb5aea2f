"""Text as features: character n-grams, hashed, on their principal axes."""

from __future__ import annotations

import numpy as np
import torch

from viewsmith.networks.inputs.scaling import PrincipalAxes

HASHES = 1024
AXES = 16
FITTED = 20_000  # rows, at most, that axes are fitted to


def ngram_counts(texts: list[str]) -> np.ndarray:
    """Counts of the 2- to 4-grams within words, hashed to `HASHES` features, each row of length 1; float32.

    An empty text has a row of zeros.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), n_features=HASHES, alternate_sign=False, dtype=np.float32
    )
    counts: np.ndarray = hashing.transform(texts).toarray()
    return counts


def fit_axes(texts: list[str]) -> PrincipalAxes:
    """Principal axes of the n-grams of texts, at most `AXES`."""
    step = -(-len(texts) // FITTED)
    rows = torch.from_numpy(ngram_counts(texts[::step]))
    axes = PrincipalAxes(HASHES, min(AXES, len(rows)))
    axes.fit(rows)
    return axes


def on_axes(texts: list[str], axes: PrincipalAxes) -> np.ndarray:
    """Coordinates of texts, float32 (n, k)."""
    made = []
    with torch.no_grad():
        for start in range(0, len(texts), FITTED):
            made.append(axes(torch.from_numpy(ngram_counts(texts[start : start + FITTED]))).numpy())
    return np.concatenate(made)
