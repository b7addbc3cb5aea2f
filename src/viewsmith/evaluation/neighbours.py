"""Exact cosine neighbours and the vote among them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.losses.nt_xent import unit

_BLOCK_VALUES = 1 << 24


def cosine_neighbours(rows: ArrayLike, queries: ArrayLike, k: int) -> NDArray[np.int64]:
    """Indices (m, k) of the `rows` (n, d) most alike to each query (m, d) by cosine, most alike first.

    The cosine with a row of zeros is 0. `k` is cut to n. Which of several equally distant rows comes first is not
    defined, but the same in every call.
    """
    # Similarities, not distances of length-1 rows: those would put a row of zeros nearer than an orthogonal one.
    known = unit(torch.tensor(np.asarray(rows), dtype=torch.float32))
    asked = unit(torch.tensor(np.asarray(queries), dtype=torch.float32))
    k = min(k, len(known))
    blocks = asked.split(max(1, _BLOCK_VALUES // len(known)))
    return torch.cat([(block @ known.T).topk(k, dim=1).indices for block in blocks]).numpy()


def majority(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """The most frequent class code (m,) in each row of `codes` (m, k); the smallest code wins a tie."""
    votes = np.zeros((len(codes), n_classes), dtype=np.int64)
    np.add.at(votes, (np.arange(len(codes))[:, None], codes), 1)
    return votes.argmax(axis=1)
