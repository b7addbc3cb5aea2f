"""Choosing the generated views that are kept: alike in meaning, different in looks, none of them an outlier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows
from viewsmith.losses.nt_xent import unit
from viewsmith.views.generated.cache import ViewCache
from viewsmith.views.neighbors import outliers

CHOOSE = 64  # rows whose views are chosen at a time


def choose_views(agreement: Tensor, similarity: Tensor, rejected: Tensor, k: int) -> Tensor:
    """Choose k of the candidates of each sample, one after the other.

    The next one has the largest ``agreement - max similarity``, where the largest similarity is that to the sample and
    to the views chosen before: quality, and novelty among what is there already (quality as of GenView: Li et al. 2024,
    equations 11 and 12, with the looks of the views in place of their backgrounds).

    Parameters
    ----------
    agreement : Tensor, shape (n, C)
        Similarity of each candidate to its sample in meaning, such as the cosine of representations.
    similarity : Tensor, shape (n, C + 1, C + 1)
        Similarity in looks, such as the cosine of inputs, among the sample (the first) and its candidates.
    rejected : Tensor of bool, shape (n, C)
        Candidates that are not to be chosen, such as outliers.
    k : int

    Returns
    -------
    Tensor of int64, shape (n, k)
        Where fewer than k candidates are left, they are repeated in turn; -1 where none is.
    """
    n, count = agreement.shape
    rows = torch.arange(n, device=agreement.device)
    # Of each candidate, to what is there: at first the sample.
    nearest, free = similarity[:, 0, 1:].clone(), ~rejected
    chosen = torch.full((n, k), -1, dtype=torch.int64, device=agreement.device)
    for number in range(min(k, count)):
        score = torch.where(free, agreement - nearest, -torch.inf)
        best = score.argmax(dim=1)
        found = free[rows, best]
        chosen[:, number] = torch.where(found, best, -1)
        free[rows, best] = False
        taken = similarity[rows, best + 1, 1:]
        nearest = torch.where(found[:, None], torch.maximum(nearest, taken), nearest)
    left = (chosen >= 0).sum(dim=1, keepdim=True)
    repeated = chosen.gather(1, torch.arange(k, device=chosen.device) % left.clamp_min(1))
    return torch.where(left > 0, repeated, -1)


@torch.no_grad()
def choose_cached(cache: ViewCache, rows: Rows, pool: Tensor, encoder: nn.Module, n_views: int) -> Tensor:
    """Numbers of the cached views to keep of each row, int64 (n, n_views), by `choose_views`.

    `pool`, (n, d), has the representations of the scaled rows by the encoder.
    """
    chosen = []
    for index in torch.arange(len(pool), device=pool.device).split(CHOOSE):
        views = [cache.take(index, torch.full_like(index, number)) for number in range(cache.n_views)]
        y = torch.stack([encoder(view).float() for view in views], dim=1)
        agreement = (unit(y) * unit(pool[index])[:, None]).sum(2)
        looks = unit(torch.stack([rows[index], *views], dim=1).flatten(2))
        rejected = torch.stack([outliers(each, index, pool) for each in y.unbind(1)], dim=1)
        chosen.append(choose_views(agreement, looks @ looks.mT, rejected, n_views))
    return torch.cat(chosen)
