"""A deterministic two-dimensional map (t-SNE) of any features."""

from __future__ import annotations

import numpy as np

from viewsmith.core.errors import InputError

_TSNE_ROWS = 10  # for fewer rows the neighborhoods of t-SNE are meaningless
_PCA_WIDTH = 50


def two_dimensional_map(x: np.ndarray, *, seed: int = 0, max_rows: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """Map the rows of `x` to two dimensions by t-SNE, after PCA to 50 dimensions and initialized by PCA.

    Parameters
    ----------
    x : (n, ...) array
        One row per sample, flattened if it has more than one axis; all values finite. One or two features are used as
        positions directly (one is padded by a second axis of zeros). Fewer than ten rows are mapped by PCA.
    seed : int
        Seed of the sample of rows and of the optimizer; the same seed gives the same map.
    max_rows : int
        If there are more rows, a random sample of this size is mapped.

    Returns
    -------
    xy : (m, 2) float64 array
        Positions, m = min(n, max_rows).
    index : (m,) int array
        Indices of the mapped rows of `x`, ascending.

    Raises
    ------
    InputError
        No rows, no features, values that are not finite, or `max_rows` below 1.
    """
    x = np.asarray(x)
    if x.ndim == 0 or x.size == 0:
        raise InputError(f"the map was given an array of shape {x.shape}; give at least one row and one feature")
    if max_rows < 1:
        raise InputError(f"max_rows is {max_rows}; give at least 1")
    index = np.arange(len(x))
    if len(x) > max_rows:
        index = np.sort(np.random.default_rng(seed).choice(len(x), size=max_rows, replace=False))
    rows = x[index].reshape(len(index), -1).astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError("the map was given values that are not finite; remove or impute them first")
    if rows.shape[1] <= 2:
        return _padded(rows), index
    return _layout(rows, seed), index


def _layout(rows: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.decomposition import PCA

    rows = rows - rows.mean(axis=0)
    scale = np.abs(rows).max()
    # Collapsed features must not raise an error: the initialization of t-SNE would divide by their spread of zero.
    if scale < 1e-12:
        return np.zeros((len(rows), 2))
    width = _PCA_WIDTH if len(rows) >= _TSNE_ROWS else 2
    narrow = PCA(n_components=min(width, *rows.shape), random_state=seed).fit_transform(rows / scale)
    if len(rows) < _TSNE_ROWS:
        return _padded(narrow * scale)

    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(rows) - 1) / 3)
    return np.asarray(
        TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(narrow), dtype=np.float64
    )


def _padded(rows: np.ndarray) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, 2 - rows.shape[1])))
