"""InfoNCE losses: one direction (`info_nce`), both directions in a batch (`nt_xent`), with a queue (`moco_info_nce`).

`info_nce` is the equation. `nt_xent` and `moco_info_nce` compute its values without the full similarity matrix.
"""

from typing import Literal

import torch
from torch import Tensor

from viewsmith.core.errors import InputError, check_choice, check_temperature
from viewsmith.core.tensors import on_host
from viewsmith.losses import numerics
from viewsmith.losses.numerics import (
    CAUCHY,
    EXPONENTIAL,
    Excluded,
    Similarity,
    by_rows,
    cauchy_cross,
    check_projections,
    similarity_sums,
)

Kernel = Literal["cosine", "cauchy"]
Negatives = Literal["all", "cross"]
Form = Literal["auto", "plain", "chunked"]

# Largest 1 / tau: exp(1 / tau) and its inverse, times any number of candidates, must stay in the range of the dtype.
MAX_INVERSE_TEMPERATURE_FLOAT32, MAX_INVERSE_TEMPERATURE_FLOAT64 = 75, 650

# Number of similarities from which the chunked form is faster: a batch of 256 with negatives="all", of 512 with "cross"
# (benchmarks/speed/losses.py).
CHUNKED_FROM = 1 << 18
# On a GPU the full matrix is faster at all sizes that were measured, up to 1 << 26; from here it takes half a GiB, and
# its gradient as much several times.
CHUNKED_FROM_GPU = 1 << 27


def unit(z: Tensor) -> Tensor:
    """Rows of `z` normalized to length 1, (..., d); a row of zeros stays zero, with a finite gradient."""
    norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / torch.where(norm == 0, torch.ones_like(norm), norm)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared Euclidean distances of all pairs of rows, (n, m) from (n, d) and (m, d), by one matrix product."""
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

    ``l_i = -log( k(a_i, c_i+) / sum_j k(a_i, c_j) )``, where the sum includes the positive. The kernel is
    ``k = exp(cos / tau)``, or the Cauchy kernel ``k = (1 + d^2)^(-1 / tau)`` of the projections without normalization.

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
        Candidates left out of the sum; a positive must not be excluded.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.

    Raises
    ------
    InputError
        There is no such kernel, or the temperature is not above 0.
    """
    check_choice("kernel", kernel, Kernel)
    check_temperature("temperature", temperature)
    if kernel == "cosine":
        logits = unit(anchors) @ (unit(candidates) / temperature).T
        if excluded is not None:
            logits = logits.masked_fill(excluded, float("-inf"))
        return torch.nn.functional.cross_entropy(logits, positive, reduction="none")
    # Logarithms, because the kernel of distant rows underflows at low temperatures.
    logits = -torch.log1p(squared_distances(anchors, candidates)) / temperature
    if excluded is not None:
        logits = logits.masked_fill(excluded, float("-inf"))
    # Distances of positives by subtraction, in the sum too: the product form loses digits when views are close.
    attraction = torch.log1p((anchors - candidates[positive]).square().sum(1)) / temperature
    return attraction + logits.scatter(1, positive[:, None], -attraction[:, None]).logsumexp(1)


def moco_info_nce(
    queries: Tensor,
    keys: Tensor,
    queue: Tensor,
    *,
    temperature: float = 0.2,
    ids: tuple[Tensor, Tensor] | None = None,
    queue_ids: Tensor | None = None,
) -> Tensor:
    """InfoNCE of each query with its own key as positive and a queue of older keys (MoCo: He et al. 2020, equation 1).

    Equals `info_nce` with the cosine kernel, where the candidates of a query are its key and the queue. It can be
    differentiated once.

    Parameters
    ----------
    queries, keys : Tensor, shape (B, d)
    queue : Tensor, shape (K, d)
    temperature : float
        tau, at least 0.0016.
    ids : pair of int64 Tensor, each (B,), optional
        Row of the data set that each query and each key is a view of. Keys of the queue that are views of one of the
        two rows are excluded.
    queue_ids : Tensor of int64, shape (K,), optional
        Row of the data set that each key of the queue is a view of; -1 if unknown.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.

    Raises
    ------
    InputError
        The temperature is below 0.0016.
    """
    check_temperature("temperature", temperature)
    given = queries.dtype
    queries, keys, queue = (z.to(_precision(given, "cosine", temperature)) for z in (queries, keys, queue))
    with torch.autocast(queries.device.type, enabled=False):
        u, k = unit(queries), unit(keys)
        query_ids, key_ids = ids or (None, None)
        similarity, left, right = _factors(u, unit(queue), "cosine", temperature)
        sums = similarity_sums(left, right, similarity, Excluded((), query_ids, key_ids, queue_ids))
        return _from_sums(sums, _attraction(u, k, "cosine", temperature)).to(given)


def nt_xent(
    z0: Tensor,
    z1: Tensor,
    *,
    temperature: float = 0.5,
    kernel: Kernel = "cosine",
    negatives: Negatives = "all",
    ids: tuple[Tensor, Tensor] | None = None,
    gathered: tuple[Tensor, Tensor] | None = None,
    gathered_ids: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
    form: Form = "auto",
) -> Tensor:
    """Normalized temperature-scaled cross entropy of B pairs of views (SimCLR: Chen et al. 2020, equation 1).

    ``negatives="all"``: both views are anchors, all other views of the batch are candidates, and the value of a pair
    is the mean over its two anchors. ``negatives="cross"``: the first views are anchors and the second views are
    candidates (one direction, a quarter of the similarities).

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views; not normalized by the caller.
    temperature : float
        tau. With the Cauchy kernel the exponent is 1 / tau, and 1 is the common choice.
    kernel : {"cosine", "cauchy"}
        See `info_nce`.
    negatives : {"all", "cross"}
    ids : pair of int64 Tensor, each (B,), optional
        Row of the data set that each first and each second view shows. Views of the anchor's row or the positive's row
        are excluded from the negatives.
    gathered, gathered_ids : pairs like (z0, z1) and `ids`, optional
        First and second views of a larger batch that contains this batch in its rows ``offset : offset + B``.
    offset : int
        See `gathered`.
    form : {"auto", "plain", "chunked"}
        "plain": `info_nce` on the full similarity matrix; can be differentiated any number of times. "chunked":
        computed tile by tile, in memory linear in the batch; can be differentiated once. "auto": the fastest, which
        for ``negatives="cross"`` under the Cauchy kernel with temperature 1 is one of its own, differentiable once.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.

    Raises
    ------
    InputError
        The projections are not two (B, d) tensors of floating-point numbers; `kernel`, `negatives` or `form` is none of
        the above; or the temperature is not above 0 or, with the cosine kernel in the chunked form, below 0.0016.
    """
    check_choice("kernel", kernel, Kernel)
    check_choice("negatives", negatives, Negatives)
    check_choice("form", form, Form)
    check_temperature("temperature", temperature)
    check_projections(z0, z1)
    others = gathered if gathered is not None else (z0, z1)
    other_ids = gathered_ids if gathered_ids is not None else ids
    symmetric = gathered is None and negatives == "all" and (ids is None or ids[0] is ids[1])
    pairs = len(z0) * len(others[0]) * (1 if negatives == "cross" else 4)
    small = form == "auto" and pairs < (CHUNKED_FROM if on_host(z0) else CHUNKED_FROM_GPU)
    in_logarithms = kernel == "cauchy" and temperature != 1  # sums of this kernel underflow
    plain = form == "plain" or small
    # On a GPU the search for excluded pairs would wait for the device.
    recipe = small and kernel == "cauchy" and not in_logarithms and negatives == "cross" and gathered is None
    dense = plain or in_logarithms
    given = z0.dtype
    precision = torch.promote_types(given, torch.float32) if dense else _precision(given, kernel, temperature)
    with torch.autocast(z0.device.type, enabled=False):
        views = [z.to(precision) for z in (z0, z1, *others)]
        if recipe and on_host(z0):
            losses = cauchy_cross(views[0], views[1], ids)
        elif dense:
            rows = None if plain else numerics.TILE_CPU
            losses = _dense(views, temperature, kernel, negatives, ids, other_ids, offset, rows)
        elif symmetric:
            losses = _symmetric(views[0], views[1], temperature, kernel, ids)
        else:
            losses = _chunked(views, temperature, kernel, negatives, ids, other_ids, offset)
    return losses.to(given)


def _dense(
    views: list[Tensor],
    temperature: float,
    kernel: Kernel,
    negatives: Negatives,
    ids: tuple[Tensor, Tensor] | None,
    other_ids: tuple[Tensor, Tensor] | None,
    offset: int,
    rows: int | None,
) -> Tensor:
    """`nt_xent` by `info_nce`, on the full similarity matrix or on so many of its `rows` at a time."""
    z0, z1, c0, c1 = views
    columns = torch.arange(len(z0), device=z0.device) + offset
    if negatives == "cross":
        anchors, candidates, positive, itself = z0, c1, columns, None
    else:
        anchors, candidates = torch.cat([z0, z1]), torch.cat([c0, c1])
        itself, positive = torch.cat([columns, columns + len(c0)]), torch.cat([columns + len(c0), columns])
    shown = None
    if ids is not None and other_ids is not None:
        cross = negatives == "cross"
        shown = (
            (ids[0], ids[1], other_ids[1]) if cross else (torch.cat(ids), torch.cat(ids[::-1]), torch.cat(other_ids))
        )

    def losses(start: int, part: Tensor, candidates: Tensor) -> Tensor:
        at = slice(start, start + len(part))
        excluded = torch.zeros(len(part), len(candidates), dtype=torch.bool, device=part.device)
        if shown is not None:
            anchor_ids, positive_ids, candidate_ids = shown
            excluded = (anchor_ids[at, None] == candidate_ids) | (positive_ids[at, None] == candidate_ids)
            excluded.scatter_(1, positive[at, None], False)
        if itself is not None:
            excluded.scatter_(1, itself[at, None], True)
        known = None if shown is None and itself is None else excluded
        return info_nce(part, candidates, positive[at], temperature=temperature, kernel=kernel, excluded=known)

    found = losses(0, anchors, candidates) if rows is None else by_rows(losses, [anchors], [candidates], chunk=rows)
    return found if negatives == "cross" else found.view(2, -1).mean(0)


def _symmetric(z0: Tensor, z1: Tensor, temperature: float, kernel: Kernel, ids: tuple[Tensor, Tensor] | None) -> Tensor:
    """`nt_xent` without a larger batch: the similarity matrix is symmetric, so half of it is computed."""
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
    negatives: Negatives,
    ids: tuple[Tensor, Tensor] | None,
    other_ids: tuple[Tensor, Tensor] | None,
    offset: int,
) -> Tensor:
    """`nt_xent` of the first two of `views` as anchors with the last two, of a larger batch, as candidates."""
    points = [_points(z, kernel) for z in views]
    anchors, candidates = points[:2], points[2:]
    losses = []
    for view in (0,) if negatives == "cross" else (0, 1):
        sums = torch.zeros((), dtype=views[0].dtype, device=views[0].device)
        for other in (1,) if negatives == "cross" else (0, 1):
            rows = (None,) * 3 if ids is None or other_ids is None else (ids[view], ids[1 - view], other_ids[other])
            similarity, left, right = _factors(anchors[view], candidates[other], kernel, temperature)
            # This diagonal holds the anchors themselves (if other == view) or their positives (if not).
            sums = sums + similarity_sums(left, right, similarity, Excluded((offset,), *rows))
        positive = candidates[1 - view][offset : offset + len(anchors[view])]
        losses.append(_from_sums(sums, _attraction(anchors[view], positive, kernel, temperature)))
    return torch.stack(losses).mean(0)


def _precision(given: torch.dtype, kernel: Kernel, temperature: float) -> torch.dtype:
    """The dtype in which exp(cos / tau) neither overflows nor underflows, so no maximum has to be subtracted."""
    if kernel == "cosine" and 1 / temperature > MAX_INVERSE_TEMPERATURE_FLOAT64:
        raise InputError(
            f"temperature is {temperature:g}, expected at least {1 / MAX_INVERSE_TEMPERATURE_FLOAT64:.5f}; raise it"
        )
    if given == torch.float64 or (kernel == "cosine" and 1 / temperature > MAX_INVERSE_TEMPERATURE_FLOAT32):
        return torch.float64
    return torch.float32


def _points(z: Tensor, kernel: Kernel) -> Tensor:
    return unit(z) if kernel == "cosine" else z


def _factors(a: Tensor, c: Tensor, kernel: Kernel, temperature: float) -> tuple[Similarity, Tensor, Tensor]:
    """The kernel of products, and rows whose products are the cosines over tau or (Cauchy) squared distances."""
    if kernel == "cosine":
        return EXPONENTIAL, a, c / temperature
    a_norm, c_norm = (z.square().sum(1, keepdim=True) for z in (a, c))
    left = torch.cat([a, a_norm, torch.ones_like(a_norm)], 1)
    return CAUCHY, left, torch.cat([-2 * c, torch.ones_like(c_norm), c_norm], 1)


def _attraction(a: Tensor, c: Tensor, kernel: Kernel, temperature: float) -> Tensor:
    """log k(a_i, c_i), shape (B,); distances by subtraction, which is exact for close views."""
    if kernel == "cosine":
        return (a * c).sum(1) / temperature
    return -torch.log1p((a - c).square().sum(1)) / temperature


def _from_sums(sums: Tensor, attraction: Tensor) -> Tensor:
    """InfoNCE from the sum over the negatives, (..., B), and log k of the positives, (B,): log(1 + sum / k)."""
    empty = sums == 0  # no negatives; a sum that is NaN stays NaN
    repulsion = torch.where(empty, float("-inf"), torch.where(empty, 1, sums).log())
    return torch.logaddexp(repulsion - attraction, torch.zeros_like(attraction))
