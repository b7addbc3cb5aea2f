"""Selection of generated views: similar to the sample in representation, different in input, and no outliers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows
from viewsmith.losses.nt_xent import unit
from viewsmith.views.generated.cache import ViewCache
from viewsmith.views.neighbors import outliers

BLOCK = 64  # rows whose views are chosen at a time


def choose_views(agreement: Tensor, similarity: Tensor, rejected: Tensor, k: int) -> Tensor:
    """Choose k of the C candidates of each sample by quality and novelty, one after the other.

    The next choice is the candidate with the largest ``agreement - max similarity``. The maximum is over the sample and
    the views chosen before, so that a view differs from all of them. This is the quality of GenView (Li et al. 2024,
    equations 11 and 12) with the similarity of inputs instead of that of backgrounds.

    Parameters
    ----------
    agreement : Tensor, shape (n, C)
        Similarity of each candidate to its sample, such as the cosine of their representations.
    similarity : Tensor, shape (n, C + 1, C + 1)
        Similarities of the inputs, such as cosines, among the sample (the first) and its candidates.
    rejected : Tensor of bool, shape (n, C)
        Candidates that must not be chosen, such as outliers.
    k : int

    Returns
    -------
    Tensor of int64, shape (n, k)
        If fewer than k candidates can be chosen, they are repeated in turn; -1 if there is none.
    """
    n, count = agreement.shape
    rows = torch.arange(n, device=agreement.device)
    # Largest similarity of each candidate to the sample and the views chosen so far.
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
def choose_among(
    x: Tensor, views: Sequence[Tensor], index: Tensor, pool: Tensor, encoder: nn.Module, n_views: int
) -> Tensor:
    """Choose `n_views` of the candidates of each sample with `choose_views`.

    Parameters
    ----------
    x : Tensor, shape (B, ...)
        Scaled samples.
    views : sequence of C Tensors like `x`
        Scaled candidates.
    index : Tensor of int64, shape (B,)
        Rows of the pool that the samples are.
    pool : Tensor, shape (n, d)
        Representations of all samples; outliers are found in their neighborhoods.
    encoder : nn.Module
        In evaluation mode.
    n_views : int

    Returns
    -------
    Tensor of int64, shape (B, n_views)
        Numbers of the candidates; -1 for the sample itself.
    """
    y = torch.stack([encoder(view).float() for view in views], dim=1)
    agreement = (unit(y) * unit(pool[index])[:, None]).sum(2)
    inputs = unit(torch.stack([x, *views], dim=1).flatten(2))
    rejected = torch.stack([outliers(each, index, pool) for each in y.unbind(1)], dim=1)
    return choose_views(agreement, inputs @ inputs.mT, rejected, n_views)


def choose_cached(cache: ViewCache, rows: Rows, pool: Tensor, encoder: nn.Module, n_views: int) -> Tensor:
    """Choose `n_views` cached views of each row with `choose_among`.

    Parameters
    ----------
    cache : ViewCache
        The candidates.
    rows : Tensor or Samples, n rows
        Scaled training rows.
    pool : Tensor, shape (n, d)
        Their representations.
    encoder : nn.Module
        In evaluation mode.
    n_views : int

    Returns
    -------
    Tensor of int64, shape (n, n_views)
        Numbers of the views in the cache; -1 for the row itself.
    """
    chosen = []
    for index in torch.arange(len(pool), device=pool.device).split(BLOCK):
        views = [cache.take(index, torch.full_like(index, number)) for number in range(cache.n_views)]
        chosen.append(choose_among(rows[index], views, index, pool, encoder, n_views))
    return torch.cat(chosen)
