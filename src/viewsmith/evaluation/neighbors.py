"""Exact cosine neighbors and the vote among them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.views.neighbors import nearest_neighbors


def cosine_neighbors(rows: ArrayLike, queries: ArrayLike, k: int) -> NDArray[np.int64]:
    """Indices (m, k) of the `rows` (n, d) most alike to each query (m, d) by cosine, most alike first.

    The cosine with a row of zeros is 0. `k` is cut to n. Which of several equally distant rows comes first is not
    defined, but the same in every call.
    """
    known, asked = (torch.tensor(np.asarray(part), dtype=torch.float32) for part in (rows, queries))
    return nearest_neighbors(known, k, queries=asked, metric="cosine").numpy()


def majority(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """The most frequent class code (m,) in each row of `codes` (m, k); the smallest code wins a tie."""
    votes = np.zeros((len(codes), n_classes), dtype=np.int64)
    np.add.at(votes, (np.arange(len(codes))[:, None], codes), 1)
    return votes.argmax(axis=1)
