"""Mutual nearest neighbors in different groups (batches, subjects), and graphs that contain them."""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.views.neighbor_graph import PrecomputedGraph
from viewsmith.views.neighbors import nearest_neighbors


def mutual_neighbors(x: Tensor, groups: Tensor, k: int = 5) -> Tensor:
    """Pairs of rows of two groups that are among each other's k nearest rows of the other group, int64 (2, pairs).

    The definition of Haghverdi et al. (2018), Nature Biotechnology 36, for every two groups; Euclidean distances.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    groups : Tensor of int64, shape (n,)
        Group numbers.
    k : int
        At least 1; reduced to the size of the other group.

    Returns
    -------
    Tensor of int64, shape (2, pairs)
        Both directions of every pair, without repetition, sorted.
    """
    members = [(groups == each).nonzero()[:, 0] for each in groups.unique()]
    n, found = len(x), []
    for number, a in enumerate(members):
        for b in members[number + 1 :]:
            # Code i n + j stands for the edge from row i to row j.
            there = (a[:, None] * n + b[nearest_neighbors(x[b], k, queries=x[a])]).flatten()
            back = (a[nearest_neighbors(x[a], k, queries=x[b])] * n + b[:, None]).flatten()
            found.append(there[torch.isin(there, back)])
    codes = torch.cat(found) if found else groups.new_zeros(0)
    pairs = torch.stack([codes // n, codes % n])
    return _sorted(torch.cat([pairs, pairs.flip(0)], dim=1), n)


def _sorted(pairs: Tensor, n: int) -> Tensor:
    codes = (pairs[0] * n + pairs[1]).sort().values
    return torch.stack([codes // n, codes % n])


def aligned_graph(n: int, near: Tensor, mutual: Tensor) -> PrecomputedGraph:
    """Neighbor graph of n rows: a step goes to a mutual neighbor, if there is one, with probability 1/2.

    Edges of the graph are equally likely, so they are repeated: each of the k ordinary edges of a row with m mutual
    neighbors is there m times, and each of its m mutual edges k times.

    Parameters
    ----------
    n : int
    near : Tensor of int64, shape (2, edges)
        Ordinary edges, from the first row to the second.
    mutual : Tensor of int64, shape (2, pairs)
        `mutual_neighbors`.
    """
    ordinary, other = near[0].bincount(minlength=n), mutual[0].bincount(minlength=n)
    times = torch.cat([other[near[0]].clamp_min(1), ordinary[mutual[0]].clamp_min(1)])
    edges = torch.cat([near, mutual], dim=1).repeat_interleave(times, dim=1)
    edges = edges[:, edges[0].argsort(stable=True)]
    offsets = torch.cat([edges.new_zeros(1), edges[0].bincount(minlength=n).cumsum(0)])
    return PrecomputedGraph(offsets, edges[1])
