"""Contrast of a pair against the rest of the batch: InfoNCE in one direction, NT-Xent in both."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Kernel = Literal["cosine", "cauchy"]


def unit(z: Tensor) -> Tensor:
    """Rows of `z` at length one; a row of zeros stays zero, with a finite gradient."""
    norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / torch.where(norm == 0, torch.ones_like(norm), norm)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared Euclidean distances, (n, m) from (n, d) and (m, d), by one matrix product."""
    norms = a.square().sum(1, keepdim=True) + b.square().sum(1)
    return torch.addmm(norms, a, b.T, alpha=-2).clamp_min(0)


def info_nce(
    anchors: Tensor,
    candidates: Tensor,
    positive: Tensor,
    *,
    temperature: float = 0.5,
    kernel: Kernel = "cosine",
    excluded: Tensor | None = None,
) -> Tensor:
    """InfoNCE (van den Oord et al. 2018, equation 4), one value per anchor.

    ``l_i = -log( k(a_i, c_i+) / sum_j k(a_i, c_j) )``, the positive being part of the sum, with
    ``k = exp(cos / tau)`` or the Cauchy kernel ``k = (1 + d^2)^(-1 / tau)`` of the embeddings as they are.

    Parameters
    ----------
    anchors : Tensor, shape (B, d)
    candidates : Tensor, shape (N, d)
    positive : Tensor of int64, shape (B,)
        Column of each anchor's positive among the candidates.
    temperature : float
        tau.
    kernel : {"cosine", "cauchy"}
    excluded : Tensor of bool, shape (B, N), optional
        Candidates left out of the sum; must not hold a positive.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.
    """
    if kernel == "cosine":
        logits = unit(anchors) @ (unit(candidates) / temperature).T
        if excluded is not None:
            logits = logits.masked_fill(excluded, float("-inf"))
        return torch.nn.functional.cross_entropy(logits, positive, reduction="none")
    # The kernel lies in (0, 1], so its sum is taken directly: no exponential, no overflow.
    similarity = 1 / (1 + squared_distances(anchors, candidates))
    if temperature != 1:
        similarity = similarity ** (1 / temperature)
    if excluded is not None:
        similarity = similarity.masked_fill(excluded, 0)
    # The positive's distance by subtraction, in the sum too: the product form loses digits where views are close.
    attraction = torch.log1p((anchors - candidates[positive]).square().sum(1)) / temperature
    similarity = similarity.scatter(1, positive[:, None], torch.exp(-attraction)[:, None])
    return attraction + similarity.sum(1).log()


def nt_xent(
    z0: Tensor,
    z1: Tensor,
    *,
    temperature: float = 0.5,
    kernel: Kernel = "cosine",
    negatives: Literal["all", "cross"] = "all",
    ids: tuple[Tensor, Tensor] | None = None,
    gathered: tuple[Tensor, Tensor] | None = None,
    gathered_ids: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
) -> Tensor:
    """Normalised temperature-scaled cross entropy of B pairs of views (SimCLR: Chen et al. 2020, equation 1).

    ``negatives="all"``: both views are anchors, every other view of the batch is a candidate, and the value of a
    pair is the mean of its two anchors'. ``negatives="cross"``: the first views are anchors and the second views
    candidates (one direction, a quarter of the similarities).

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Embeddings of the two views; not normalised by the caller.
    temperature : float
        tau; with the Cauchy kernel 1 / tau is its exponent, and 1 the usual choice.
    kernel : {"cosine", "cauchy"}
    negatives : {"all", "cross"}
    ids : pair of int64 Tensor, each (B,), optional
        Which row each view shows. Views of the anchor's or the positive's row are no negatives.
    gathered, gathered_ids : pairs like (z0, z1) and `ids`, optional
        First and second views of a larger batch which holds this one at rows ``offset : offset + B``.

    Returns
    -------
    Tensor, shape (B,)
    """
    c0, c1 = gathered if gathered is not None else (z0, z1)
    here = torch.arange(len(z0), device=z0.device) + offset
    if negatives == "cross":
        anchors, candidates, positive, own = z0, c1, here, None
    else:
        anchors, candidates = torch.cat([z0, z1]), torch.cat([c0, c1])
        own, positive = torch.cat([here, here + len(c0)]), torch.cat([here + len(c0), here])

    excluded = None
    if ids is not None:
        k0, k1 = gathered_ids if gathered_ids is not None else ids
        shown, partner = (ids[0], ids[1]) if negatives == "cross" else (torch.cat(ids), torch.cat(ids[::-1]))
        others = k1 if negatives == "cross" else torch.cat([k0, k1])
        excluded = (shown[:, None] == others) | (partner[:, None] == others)
        excluded.scatter_(1, positive[:, None], False)
    if own is not None:
        if excluded is None:
            excluded = torch.zeros(len(anchors), len(candidates), dtype=torch.bool, device=z0.device)
        excluded.scatter_(1, own[:, None], True)

    losses = info_nce(anchors, candidates, positive, temperature=temperature, kernel=kernel, excluded=excluded)
    return losses if negatives == "cross" else losses.view(2, -1).mean(0)
