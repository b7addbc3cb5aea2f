"""Mutual information of a sample and the projection of its view (Koyama et al. 2021, Contrastive Representation
Learning with Trainable Augmentation Channel).

Symbols: x_i one of N samples, T one of M transformations, P(T|x) the augmentation channel, z = h(T(x)) the projection
of a view, which has length 1 or is zero, beta the concentration of P(Z|T(x)), proportional to exp(beta z.Z). If
transformations are sampled, m is their number per sample and `weights` replace P. Every objective is to be maximized
and has one value per sample; gradients reach both projections and weights.

The equations include two corrections of the paper: means are inside the logarithms (equations 7 to 15 and 19), and the
log-ratio has one logarithm (equation 20).
"""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from viewsmith.core.distributed import gather, is_distributed
from viewsmith.core.errors import InputError

#: Largest number of similarities in memory at a time.
MAX_SIMILARITIES = 2**24

#: The same where no gradient needs them later: few enough for the cache of a CPU core, which halves the time.
CACHED_SIMILARITIES = 2**20

#: Vectors much longer than this are normalized to length 1; shorter ones are scaled toward zero.
MIN_NORM = 1e-4
Keys = tuple[Tensor, Tensor]


def gather_keys(z: Tensor, p: Tensor) -> Keys | None:
    """Projections and weights of all processes, with gradient; None if there is one process."""
    return (gather(z), gather(p)) if is_distributed() else None


def on_sphere(v: Tensor) -> Tensor:
    """``v / sqrt(||v||^2 + MIN_NORM^2)``, (..., d): length 1, except near zero, where the gradient stays bounded."""
    return v * torch.rsqrt(v.square().sum(dim=-1, keepdim=True) + MIN_NORM**2)


def expectation(z: Tensor, p: Tensor) -> Tensor:
    """Expectation E_T z of projections, (N, M, d), under P(T|x), (N, M); shape (N, d)."""
    # A matrix product does not store the terms of the sum. Autocast would compute it in bfloat16.
    with torch.autocast(z.device.type, enabled=False):
        return (p[:, None] @ z)[:, 0]


def log_marginal(
    z: Tensor, p: Tensor, beta: float, keys: Keys | None = None, *, order: Literal[1, 2] | None = None
) -> Tensor:
    """``log E_{x', T''} exp(beta z.z'')``: log of the mean similarity of each projection to those of all samples."""
    others, weights = (z, p) if keys is None else keys
    others, weights = others.flatten(0, 1), (weights / len(weights)).flatten()
    with torch.autocast(z.device.type, enabled=False):
        if order is not None:
            return _series(z, others, weights, beta, order)
        queries, logs = z.flatten(0, 1), _log(weights)
        rows = max(1, MAX_SIMILARITIES // len(others))
        if rows >= len(queries):
            return _log_mean(queries, others, logs, beta).view(z.shape[:2])
        parts = [checkpoint(_log_mean, part, others, logs, beta, use_reentrant=False) for part in queries.split(rows)]
        return torch.cat(parts).view(z.shape[:2])


def _log_mean(queries: Tensor, keys: Tensor, logs: Tensor, beta: float) -> Tensor:
    return torch.logsumexp(beta * queries @ keys.T + logs, dim=1)


def _log(p: Tensor) -> Tensor:
    """log p with a lower bound: a probability that underflowed to 0 has no effect and gets no gradient."""
    return torch.log(p.clamp_min(torch.finfo(p.dtype).tiny))


def _series(z: Tensor, keys: Tensor, weights: Tensor, beta: float, order: int) -> Tensor:
    mean = weights @ keys
    total = weights.sum() + beta * z @ mean
    if order == 2:
        second = keys.T @ (weights[:, None] * keys)
        total = total + beta**2 / 2 * ((z @ second) * z).sum(dim=-1)
    return torch.log(total)


def info_max(
    z: Tensor, p: Tensor, beta: float, keys: Keys | None = None, *, order: Literal[1, 2] | None = None
) -> Tensor:
    """The mutual information I(X; Z) from all M transformations of every sample (equation 2).

    Parameters
    ----------
    z, p, beta, keys, order
        As in `log_marginal`. For sampled transformations, p is their weights divided by their number; the logarithms of
        both estimated means are then biased.

    Returns
    -------
    Tensor, shape (N,)
        In nats; the mean over samples is I(X; Z).
    """
    with torch.autocast(z.device.type, enabled=False):
        log_conditional = torch.logsumexp(beta * z @ z.mT + _log(p)[:, None], dim=2)
    return (p * (log_conditional - log_marginal(z, p, beta, keys, order=order))).sum(dim=1)


def info_max_bound(
    z: Tensor,
    p: Tensor,
    beta: float,
    keys: Keys | None = None,
    *,
    distinct: bool = False,
    order: Literal[1, 2] | None = None,
) -> Tensor:
    """The lower bound of equation 2 by Jensen's inequality (section 3), from all M transformations of every sample.

    E_{T, T'} z.z' is the squared norm of E_T z, so the first term takes N M d operations instead of N M^2 d.

    Parameters
    ----------
    z, p, beta, keys, order
        As in `log_marginal`.
    distinct : bool
        Use only pairs T != T' in the first term: ``(||sum P z||^2 - sum P^2 ||z||^2) / (1 - sum P^2)``, which is 0
        if P selects a single transformation. The plain form counts each transformation as a positive of itself, and
        so rewards a channel that selects a single one.

    Returns
    -------
    Tensor, shape (N,)
    """
    agreement = expectation(z, p).square().sum(dim=1)
    if distinct:
        same = p.square()
        different = 1 - same.sum(dim=1)
        several = different > torch.finfo(p.dtype).eps * p.shape[1]
        agreement = agreement - (same * z.square().sum(dim=2)).sum(dim=1)
        agreement = torch.where(several, agreement / torch.where(several, different, 1), 0)
    return beta * agreement - (p * log_marginal(z, p, beta, keys, order=order)).sum(dim=1)


def near_info_max_bound(
    z: Tensor, p: Tensor, near: Tensor, beta: float, keys: Keys | None = None, *, order: Literal[1, 2] | None = None
) -> Tensor:
    """The bound whose positives are the transformations near each one: its first term is linear in P, that of
    `info_max_bound` almost flat at uniform P."""
    with torch.autocast(z.device.type, enabled=False):
        weights = near.to(z)
        positives = (weights / weights.sum(dim=1, keepdim=True)) @ z
        agreement = (z * positives).sum(dim=2)
    return (p * (beta * agreement - log_marginal(z, p, beta, keys, order=order))).sum(dim=1)


def recurrence(z: Tensor, p: Tensor, stored: Tensor, own: Tensor) -> Tensor:
    """How much more a view is like its nearest view chosen in other samples than like those of all samples.

    sum_T P(T|x) [max_j z_T . s_j - mean_j z_T . s_j], with stored projections s_j. Not part of the paper: a view can be
    informative about its sample because it shows something that no other sample has, such as things that touch by
    chance. Objects of a kind are in many samples, and what is in all samples has the same value in both terms.

    Parameters
    ----------
    z : Tensor, shape (N, M, d)
    p : Tensor, shape (N, M)
        P(T|x), or the weights of sampled transformations divided by their number.
    stored : Tensor, shape (K, d)
        Projections of views that were chosen in earlier steps.
    own : Tensor of bool, shape (N, K)
        Which of them are of the sample itself, so that they cannot be its nearest.

    Returns
    -------
    Tensor, shape (N,)
        -2 to 2; 0 for samples without stored projections of others.
    """
    with torch.autocast(z.device.type, enabled=False):
        rows = max(1, CACHED_SIMILARITIES // (z.shape[1] * len(stored)))
        pairs = zip(z.split(rows), own[:, None].split(rows), strict=True)
        nearest = torch.cat([(part @ stored.T).masked_fill_(same, -math.inf).amax(dim=2) for part, same in pairs])
        excess = nearest - z @ stored.mean(dim=0)
        return (p * torch.where(own.all(dim=1, keepdim=True), 0, excess)).sum(dim=1)


def sampled_info_max(z: Tensor, beta: float, weights: Tensor | None = None, keys: Keys | None = None) -> Tensor:
    """Estimate of `info_max_bound` from m sampled transformations of each sample.

    The first term uses pairs of different draws only, j != j', and is unbiased. Each mean inside a logarithm is
    unbiased, its logarithm is not. With uniform P and m = 2 the estimate equals, up to the constant log 2N, minus the
    mean of InfoNCE over both views, where each view is compared with all 2N projections including itself (equation 20;
    NT-Xent excludes the view itself and has 2N - 1 terms).

    Parameters
    ----------
    z : Tensor, shape (N, m, d)
        m at least 2.
    beta : float
        Concentration, above 0.
    weights : Tensor, shape (N, m), optional
        P divided by the probability with which the transformations were sampled (`importance_weights`). Default: ones,
        for transformations sampled from P. They apply both to the first term and inside the logarithm.
    keys : (Tensor, Tensor), optional
        z and weights of the samples of all processes.

    Returns
    -------
    Tensor, shape (N,)

    Raises
    ------
    InputError
        m is below 2.
    """
    n, m, _ = z.shape
    if m < 2:
        raise InputError(f"z has {m} transformation per sample, expected at least 2: the loss compares pairs of them")
    p = z.new_full((n, m), 1 / m) if weights is None else weights / m
    total = expectation(z, p).square().sum(dim=1)
    same = (p.square() * z.square().sum(dim=2)).sum(dim=1)
    others = None if keys is None else (keys[0], keys[1] / m)
    return beta * (total - same) / (1 - 1 / m) - (p * log_marginal(z, p, beta, others)).sum(dim=1)


def importance_weights(log_p: Tensor, size: int, *, normalized: bool = False) -> Tensor:
    """Importance weights of transformations sampled uniformly, for the channel's update (section 5.2).

    Parameters
    ----------
    log_p : Tensor, shape (N, m)
        log P(T|x) of the sampled transformations.
    size : int
        M, the number of transformations.
    normalized : bool
        Normalize the weights of each sample to mean 1 (less variance, some bias). Default: M P, whose mean is 1 in
        expectation.

    Returns
    -------
    Tensor, shape (N, m)
        Above 0.
    """
    if normalized:
        return torch.softmax(log_p, dim=1) * log_p.shape[1]
    return size * torch.exp(log_p)


def entropy(log_p: Tensor) -> Tensor:
    """Entropy H(T|x) in nats, (N,), from log P(T|x), (N, M); its exp is the effective number of transformations."""
    p = torch.exp(log_p)
    return -(p * torch.where(p > 0, log_p, 0)).sum(dim=1)
