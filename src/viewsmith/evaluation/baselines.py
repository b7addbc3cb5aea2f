"""What a user would have without contrastive learning: PCA and UMAP, fitted on train rows."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.core.errors import InputError, MissingExtra

Rows = NDArray[np.float32]

UMAP_WIDTH = 200
UMAP_AXES = 50
UMAP_NEIGHBORS = 15


def pca(train: ArrayLike, test: ArrayLike, n_components: int = 64) -> tuple[Rows, Rows]:
    """Principal coordinates of both (n, d) arrays, axes fitted on `train`.

    `n_components` is cut to what centered rows can span: n - 1 and d. The same rows give the same coordinates.
    """
    from sklearn.decomposition import PCA

    rows, test_rows = np.asarray(train, dtype=np.float32), np.asarray(test, dtype=np.float32)
    with np.errstate(invalid="ignore"):  # scikit-learn divides by the variance, which rows that are all alike lack
        model = PCA(max(1, min(n_components, len(rows) - 1, rows.shape[1])), random_state=0).fit(rows)
    return model.transform(rows), model.transform(test_rows)


def umap(train: ArrayLike, test: ArrayLike, n_components: int = 32, seed: int = 0) -> tuple[Rows, Rows]:
    """UMAP coordinates of both (n, d) arrays, fitted on `train`; one thread, repeatable.

    Rows wider than 200 are first reduced to 50 principal coordinates, without which UMAP collapses on some sets.
    `n_components` is cut to n - 2, the neighborhoods of 15 to n - 1.

    Raises
    ------
    MissingExtra
        umap-learn is not installed.
    InputError
        Fewer than four train rows.
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), _torch_threads_kept():
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ModuleNotFoundError as error:
            raise MissingExtra("umap-learn", "viz", "the UMAP baseline") from error
        rows, test_rows = np.asarray(train, dtype=np.float32), np.asarray(test, dtype=np.float32)
        if len(rows) < 4:
            raise InputError(f"UMAP was given {len(rows)} train rows; at least 4 are needed")
        if rows.shape[1] > UMAP_WIDTH:
            rows, test_rows = pca(rows, test_rows, UMAP_AXES)
        model = UMAP(
            n_components=min(n_components, len(rows) - 2),
            n_neighbors=min(UMAP_NEIGHBORS, len(rows) - 1),
            random_state=seed,
            n_jobs=1,
        )
        return model.fit_transform(rows), model.transform(test_rows)


@contextlib.contextmanager
def _torch_threads_kept() -> Iterator[None]:
    """UMAP's compiler sets the number of OpenMP threads, which is torch's too."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
