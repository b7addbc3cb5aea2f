"""Contrast of a pair against the rest of the batch: InfoNCE in one direction, NT-Xent in both, MoCo's with a queue.

`info_nce` is the equation. `nt_xent` and `moco_info_nce` give its values without the matrix of similarities.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.losses.chunked import EXPONENTIAL, Excluded, Similarity, cauchy, similarity_sums

Kernel = Literal["cosine", "cauchy"]

# exp(1 / tau) and its inverse, times any number of candidates, must stay within the floating-point range.
STEEPEST_SINGLE, STEEPEST_DOUBLE = 75, 650

# Similarities from which on tiles are faster: 256 pairs with all, 512 across (benchmarks/nt_xent.py).
MANY = 1 << 18


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


def moco_info_nce(
    queries: Tensor,
    keys: Tensor,
    queue: Tensor,
    *,
    temperature: float = 0.2,
    ids: tuple[Tensor, Tensor] | None = None,
    queue_ids: Tensor | None = None,
) -> Tensor:
    """InfoNCE of each query against its own key and a queue of older keys (MoCo: He et al. 2020, equation 1).

    The value of `info_nce` with the cosine kernel, the candidates of a query being its key and the queue. It can be
    differentiated once.

    Parameters
    ----------
    queries, keys : Tensor, shape (B, d)
    queue : Tensor, shape (K, d)
    temperature : float
        tau, at least 0.0016.
    ids : pair of int64 Tensor, each (B,), optional
        Which rows the queries and their keys show. Keys of the queue that show one of the two are no negatives.
    queue_ids : Tensor of int64, shape (K,), optional
        Which row each key of the queue shows; -1: unknown.

    Returns
    -------
    Tensor, shape (B,)
    """
    given = queries.dtype
    queries, keys, queue = (z.to(_precision(given, "cosine", temperature)) for z in (queries, keys, queue))
    with torch.autocast(queries.device.type, enabled=False):
        u, k = unit(queries), unit(keys)
        shown, partner = ids or (None, None)
        similarity, left, right = _factors(u, unit(queue), "cosine", temperature)
        sums = similarity_sums(left, right, similarity, Excluded((), shown, partner, queue_ids))
        return _from_sums(sums, _attraction(u, k, "cosine", temperature)).to(given)


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
    form: Literal["auto", "plain", "chunked"] = "auto",
) -> Tensor:
    """Normalized temperature-scaled cross entropy of B pairs of views (SimCLR: Chen et al. 2020, equation 1).

    ``negatives="all"``: both views are anchors, every other view of the batch is a candidate, and the value of a
    pair is the mean of its two anchors'. ``negatives="cross"``: the first views are anchors and the second views
    candidates (one direction, a quarter of the similarities).

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Embeddings of the two views; not normalized by the caller.
    temperature : float
        tau; with the Cauchy kernel 1 / tau is its exponent, and 1 the usual choice.
    kernel : {"cosine", "cauchy"}
    negatives : {"all", "cross"}
    ids : pair of int64 Tensor, each (B,), optional
        Which row each view shows. Views of the anchor's or the positive's row are no negatives.
    gathered, gathered_ids : pairs like (z0, z1) and `ids`, optional
        First and second views of a larger batch which holds this one at rows ``offset : offset + B``.
    form : {"auto", "plain", "chunked"}
        "plain": `info_nce` on the matrix of all similarities, differentiable any number of times. "chunked": the same
        made tile by tile; memory is linear in the batch, and it can be differentiated once. "auto": the faster.

    Returns
    -------
    Tensor, shape (B,)

    Raises
    ------
    InputError
        The temperature is below 0.0016 (cosine kernel, chunked form).
    """
    others = gathered if gathered is not None else (z0, z1)
    other_ids = gathered_ids if gathered_ids is not None else ids
    symmetric = gathered is None and negatives == "all" and (ids is None or ids[0] is ids[1])
    pairs = len(z0) * len(others[0]) * (1 if negatives == "cross" else 4)
    if form == "plain" or (form == "auto" and pairs < MANY):
        return _plain(z0, z1, others, temperature, kernel, negatives, ids, other_ids, offset)
    given, precision = z0.dtype, _precision(z0.dtype, kernel, temperature)
    with torch.autocast(z0.device.type, enabled=False):
        views = [z.to(precision) for z in (z0, z1, *others)]
        if symmetric:
            losses = _symmetric(views[0], views[1], temperature, kernel, ids)
        else:
            losses = _chunked(views, temperature, kernel, negatives, ids, other_ids, offset)
    return losses.to(given)


def _plain(
    z0: Tensor,
    z1: Tensor,
    others: tuple[Tensor, Tensor],
    temperature: float,
    kernel: Kernel,
    negatives: Literal["all", "cross"],
    ids: tuple[Tensor, Tensor] | None,
    other_ids: tuple[Tensor, Tensor] | None,
    offset: int,
) -> Tensor:
    """`nt_xent` by `info_nce` on the whole matrix of similarities."""
    c0, c1 = others
    here = torch.arange(len(z0), device=z0.device) + offset
    if negatives == "cross":
        anchors, candidates, positive, own = z0, c1, here, None
    else:
        anchors, candidates = torch.cat([z0, z1]), torch.cat([c0, c1])
        own, positive = torch.cat([here, here + len(c0)]), torch.cat([here + len(c0), here])
    excluded = None
    if ids is not None and other_ids is not None:
        shown, partner = (ids[0], ids[1]) if negatives == "cross" else (torch.cat(ids), torch.cat(ids[::-1]))
        rows = other_ids[1] if negatives == "cross" else torch.cat(other_ids)
        excluded = (shown[:, None] == rows) | (partner[:, None] == rows)
        excluded.scatter_(1, positive[:, None], False)
    if own is not None:
        if excluded is None:
            excluded = torch.zeros(len(anchors), len(candidates), dtype=torch.bool, device=z0.device)
        excluded.scatter_(1, own[:, None], True)
    losses = info_nce(anchors, candidates, positive, temperature=temperature, kernel=kernel, excluded=excluded)
    return losses if negatives == "cross" else losses.view(2, -1).mean(0)


def _symmetric(z0: Tensor, z1: Tensor, temperature: float, kernel: Kernel, ids: tuple[Tensor, Tensor] | None) -> Tensor:
    """`nt_xent` of a batch with itself: half of the similarities are enough."""
    n = len(z0)
    z = _points(torch.cat([z0, z1]), kernel)
    rows = None if ids is None else torch.cat(ids)
    similarity, left, right = _factors(z, z, kernel, temperature)
    sums = similarity_sums(left, right, similarity, Excluded((0, n, -n), rows, None, rows), symmetric=True)
    return _from_sums(sums.view(2, n), _attraction(z[:n], z[n:], kernel, temperature)).mean(0)


def _chunked(
    views: list[Tensor],
    temperature: float,
    kernel: Kernel,
    negatives: Literal["all", "cross"],
    ids: tuple[Tensor, Tensor] | None,
    other_ids: tuple[Tensor, Tensor] | None,
    offset: int,
) -> Tensor:
    """`nt_xent` of anchors (the first two of `views`) with the candidates of a larger batch (the last two)."""
    points = [_points(z, kernel) for z in views]
    anchors, candidates = points[:2], points[2:]
    losses = []
    for side in (0,) if negatives == "cross" else (0, 1):
        sums = torch.zeros((), dtype=views[0].dtype, device=views[0].device)
        for other in (1,) if negatives == "cross" else (0, 1):
            rows = (None,) * 3 if ids is None or other_ids is None else (ids[side], ids[1 - side], other_ids[other])
            similarity, left, right = _factors(anchors[side], candidates[other], kernel, temperature)
            # On this diagonal lie the anchors themselves (same side) or their positives (other side).
            sums = sums + similarity_sums(left, right, similarity, Excluded((offset,), *rows))
        positive = candidates[1 - side][offset : offset + len(anchors[side])]
        losses.append(_from_sums(sums, _attraction(anchors[side], positive, kernel, temperature)))
    return torch.stack(losses).mean(0)


def _precision(given: torch.dtype, kernel: Kernel, temperature: float) -> torch.dtype:
    """Where exp(cos / tau) neither overflows nor vanishes, so that no row needs its maximum taken out."""
    if kernel == "cosine" and 1 / temperature > STEEPEST_DOUBLE:
        raise InputError(f"temperature is {temperature:g}, expected at least {1 / STEEPEST_DOUBLE:.5f}; raise it")
    if given == torch.float64 or (kernel == "cosine" and 1 / temperature > STEEPEST_SINGLE):
        return torch.float64
    return torch.float32


def _points(z: Tensor, kernel: Kernel) -> Tensor:
    return unit(z) if kernel == "cosine" else z


def _factors(a: Tensor, c: Tensor, kernel: Kernel, temperature: float) -> tuple[Similarity, Tensor, Tensor]:
    """Rows whose products are the cosines over tau or the squared distances, and the kernel as a function of those."""
    if kernel == "cosine":
        return EXPONENTIAL, a, c / temperature
    a_norm, c_norm = (z.square().sum(1, keepdim=True) for z in (a, c))
    left = torch.cat([a, a_norm, torch.ones_like(a_norm)], 1)
    return cauchy(1 / temperature), left, torch.cat([-2 * c, torch.ones_like(c_norm), c_norm], 1)


def _attraction(a: Tensor, c: Tensor, kernel: Kernel, temperature: float) -> Tensor:
    """log k(a_i, c_i), shape (B,); distances by subtraction, which keeps the digits of close views."""
    if kernel == "cosine":
        return (a * c).sum(1) / temperature
    return -torch.log1p((a - c).square().sum(1)) / temperature


def _from_sums(sums: Tensor, attraction: Tensor) -> Tensor:
    """InfoNCE from the sum over the negatives, (..., B), and log k of the positives, (B,): log(1 + sum / k)."""
    some = sums > 0
    repulsion = torch.where(some, torch.where(some, sums, 1).log(), float("-inf"))
    return torch.logaddexp(repulsion - attraction, torch.zeros_like(attraction))
