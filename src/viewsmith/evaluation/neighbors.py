"""Exact nearest neighbors and the majority vote of their classes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.views.neighbors import nearest_neighbors

Metric = Literal["cosine", "euclidean"]


def neighbors(rows: ArrayLike, queries: ArrayLike, k: int, metric: Metric = "cosine") -> NDArray[np.int64]:
    """Indices of the `k` nearest rows of each query, the nearest first.

    Parameters
    ----------
    rows, queries : arrays (n, d) and (m, d)
        The cosine with a row of zeros is 0.
    k : int
        Reduced to n.
    metric : {"cosine", "euclidean"}

    Returns
    -------
    int array (m, k)
        The order of rows at equal distance is not defined, but the same in every call.
    """
    x, q = (torch.tensor(np.ascontiguousarray(part), dtype=torch.float32) for part in (rows, queries))
    return nearest_neighbors(x, k, queries=q, metric=metric).numpy()


def majority(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """The most frequent class code, (m,), in each row of `codes`, (m, k); for ties, the smallest code."""
    votes = np.zeros((len(codes), n_classes), dtype=np.int64)
    np.add.at(votes, (np.arange(len(codes))[:, None], codes), 1)
    return votes.argmax(axis=1)
