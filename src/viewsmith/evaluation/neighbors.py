"""Exact nearest neighbors, the majority vote of their classes, and scores of rows in groups."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.views.neighbors import nearest_neighbors

Metric = Literal["cosine", "euclidean"]


def neighbors(rows: ArrayLike, queries: ArrayLike, k: int, metric: Metric = "cosine") -> NDArray[np.int64]:
    """Indices of the `k` nearest rows of each query, the nearest first."""
    x, q = (torch.tensor(np.ascontiguousarray(part), dtype=torch.float32) for part in (rows, queries))
    return nearest_neighbors(x, k, queries=q, metric=metric).numpy()


def majority(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """The most frequent class code, (m,), in each row of `codes`, (m, k); for ties, the smallest code."""
    votes = np.zeros((len(codes), n_classes), dtype=np.int64)
    np.add.at(votes, (np.arange(len(codes))[:, None], codes), 1)
    return votes.argmax(axis=1)


K = 15

#: Name and one-line description of each score of `group_scores`.
GROUP_SCORES: dict[str, str] = {
    "group_mixing": f"fraction of rows of other groups among the {K} nearest test rows (cosine), divided by that "
    "expected at random: 0 separated, 1 mixed",
    "biology_kept": f"fraction of test rows whose class is the majority of their {K} nearest test rows of other groups",
}


def group_mixing(near: NDArray[np.int64], groups: NDArray[np.int64]) -> float:
    """Fraction of neighbors in other groups, divided by its expectation if groups were assigned at random.

    The expectation for a row of a group of m rows, of n in all, is (n - m) / (n - 1); the result is the ratio of the
    means over rows.

    Parameters
    ----------
    near : int array (n, k)
        Rows of the neighbors, without the row itself.
    groups : int array (n,)
        Group numbers from 0.

    Returns
    -------
    float
        0 if all neighbors are in the row's own group, about 1 if groups do not matter. NaN with a single group.
    """
    n = len(groups)
    expected = (n - np.bincount(groups)[groups]) / (n - 1)
    if not expected.any():
        return float("nan")
    return float((groups[near] != groups[:, None]).mean() / expected.mean())


def biology_kept(rows: NDArray[np.float32], classes: NDArray[np.int64], groups: NDArray[np.int64], k: int = K) -> float:
    """Accuracy of the majority class of each row's k nearest rows of other groups.

    A representation that mixes groups at random scores like a guess. So does one in which groups are apart for reasons
    that have nothing to do with classes. Rows of a class that no other group has count as errors.

    Parameters
    ----------
    rows : array (n, d)
    classes, groups : int arrays (n,)
        Numbers from 0.
    k : int
        Reduced to the rows of other groups.

    Returns
    -------
    float
        From 0 to 1; NaN with a single group.
    """
    right = np.zeros(len(rows), dtype=bool)
    if groups.max() == 0:
        return float("nan")
    for group in range(groups.max() + 1):
        here = groups == group
        near = neighbors(rows[~here], rows[here], k, "cosine")
        right[here] = majority(classes[~here][near], int(classes.max()) + 1) == classes[here]
    return float(right.mean())


def group_scores(rows: ArrayLike, groups: ArrayLike, classes: ArrayLike) -> dict[str, float]:
    """Both scores (`GROUP_SCORES`) of the representations of rows (n, d) with groups and classes; NaN with a single
    group."""
    x = np.asarray(rows, dtype=np.float32)
    codes, labels = (np.unique(np.asarray(part), return_inverse=True)[1] for part in (groups, classes))
    # One more neighbor, because a row is its own nearest row; with equal rows, it may not be the first.
    near = neighbors(x, x, min(K + 1, len(x)), "cosine")
    # Without the row itself, or without the last neighbor if it is not among them.
    others = np.stack([row[row != number][: near.shape[1] - 1] for number, row in enumerate(near)])
    return {"group_mixing": group_mixing(others, codes), "biology_kept": biology_kept(x, labels, codes)}
