"""Mutual information of a sample and the embedding of its view (Koyama et al. 2021, Contrastive Representation Learning
with Trainable Augmentation Channel).

Symbols: x_i one of N samples, T one of M transformations, P(T|x) the augmentation channel, z = h(T(x)) the embedding,
on the unit sphere or zero, beta the concentration of P(Z|T(x)), proportional to exp(beta z.Z). Where transformations
are drawn, there are m of them, and `weights` stand in for P. Every objective is to be raised, and has one value a
sample; gradients go to embeddings and weights alike.

The paper's equations with their slips corrected: means stand inside the logarithms (equations 7 to 15 and 19), and the
log-ratio has one logarithm (equation 20).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from viewsmith.core.errors import InputError

#: Similarities that are held at a time.
BLOCK = 2**24
#: Below this length embeddings shrink to zero instead of lying on the sphere.
SMALL = 1e-4

Keys = tuple[Tensor, Tensor]


def on_sphere(v: Tensor) -> Tensor:
    """v / sqrt(||v||^2 + SMALL^2), (..., d): length one, but zero at zero, where its gradient stays bounded."""
    return v * torch.rsqrt(v.square().sum(dim=-1, keepdim=True) + SMALL**2)


def expected(z: Tensor, p: Tensor) -> Tensor:
    """E_T z of embeddings (N, M, d) under P(T|x), (N, M): (N, d)."""
    # A product of matrices: the terms of the sum are never held.
    return (p[:, None] @ z)[:, 0]


def log_marginal(
    z: Tensor, p: Tensor, beta: float, keys: Keys | None = None, *, order: Literal[1, 2] | None = None
) -> Tensor:
    """log E_{x', T''} exp(beta z.z''), shape (N, M): how alike each embedding is to those of all samples.

    Parameters
    ----------
    z : Tensor, shape (N, M, d)
    p : Tensor, shape (N, M)
        P(T|x), or weights of drawn transformations over their number.
    beta : float
    keys : (Tensor, Tensor), optional
        z and p of the samples to compare with; default: the same. With several processes those of all.
    order : {1, 2}, optional
        Take the exponential's series up to this power: two moments of the keys instead of N M times N' M' pairs. At
        beta = 0.5 the exponential is off by at most 0.024 with order 2; gradients follow the series.
    """
    others, shares = (z, p) if keys is None else keys
    others, shares = others.flatten(0, 1), (shares / len(shares)).flatten()
    if order is not None:
        return _series(z, others, shares, beta, order)
    queries, logs = z.flatten(0, 1), _log(shares)
    rows = max(1, BLOCK // len(others))
    if rows >= len(queries):
        return _log_mean(queries, others, logs, beta).view(z.shape[:2])
    parts = [checkpoint(_log_mean, part, others, logs, beta, use_reentrant=False) for part in queries.split(rows)]
    return torch.cat(parts).view(z.shape[:2])


def _log_mean(queries: Tensor, keys: Tensor, logs: Tensor, beta: float) -> Tensor:
    return torch.logsumexp(beta * queries @ keys.T + logs, dim=1)


def _log(p: Tensor) -> Tensor:
    """log p; a probability that has vanished counts for nothing and gets no gradient."""
    return torch.log(p.clamp_min(torch.finfo(p.dtype).tiny))


def _series(z: Tensor, keys: Tensor, shares: Tensor, beta: float, order: int) -> Tensor:
    mean = shares @ keys
    total = shares.sum() + beta * z @ mean
    if order == 2:
        second = keys.T @ (shares[:, None] * keys)
        total = total + beta**2 / 2 * ((z @ second) * z).sum(dim=-1)
    return torch.log(total)


def info_max(z: Tensor, p: Tensor, beta: float, keys: Keys | None = None) -> Tensor:
    """I(X; Z), equation 2: shape (N,). All M transformations of every sample; parameters as in `log_marginal`."""
    own = torch.logsumexp(beta * z @ z.mT + _log(p)[:, None], dim=2)
    return (p * (own - log_marginal(z, p, beta, keys))).sum(dim=1)


def info_max_bound(
    z: Tensor,
    p: Tensor,
    beta: float,
    keys: Keys | None = None,
    *,
    distinct: bool = False,
    order: Literal[1, 2] | None = None,
) -> Tensor:
    """The lower bound of equation 2 by Jensen's inequality (section 3), over all M transformations: shape (N,).

    E_{T, T'} z.z' is the squared norm of E_T z, so that the first term takes N M d operations instead of N M^2 d.

    Parameters
    ----------
    z, p, beta, keys, order
        As in `log_marginal`.
    distinct : bool
        Count only pairs T != T': (||sum P z||^2 - sum P^2 ||z||^2) / (1 - sum P^2). The plain form counts a
        transformation as a positive of itself and so rewards a channel that has only one; this one does not. Where P
        has only one left, this one is 0.
    """
    alike = expected(z, p).square().sum(dim=1)
    if distinct:
        twice = p.square()
        rest = 1 - twice.sum(dim=1)
        some = rest > torch.finfo(p.dtype).eps * p.shape[1]
        alike = alike - (twice * z.square().sum(dim=2)).sum(dim=1)
        alike = torch.where(some, alike / torch.where(some, rest, 1), 0)
    return beta * alike - (p * log_marginal(z, p, beta, keys, order=order)).sum(dim=1)


def sampled_info_max(z: Tensor, beta: float, weights: Tensor | None = None, keys: Keys | None = None) -> Tensor:
    """`info_max_bound` from m drawn transformations of each sample: shape (N,).

    Its first term takes pairs of different draws alone, j != j', and is unbiased; so is each mean inside a logarithm,
    but not the logarithm of it. With uniform P and m = 2 it is, up to the constant log 2N, minus the mean of InfoNCE
    over both views, each against all 2N embeddings, itself among them (equation 20 of the paper; NT-Xent leaves itself
    out: 2N - 1 terms).

    Parameters
    ----------
    z : Tensor, shape (N, m, d)
    beta : float
    weights : Tensor, shape (N, m), optional
        P over the probability with which transformations were drawn (`importance_weights`); ones where they were drawn
        from P. The same weights stand in the numerator and inside the logarithm.
    keys : (Tensor, Tensor), optional
        z and weights of all samples of all processes.
    """
    n, m, _ = z.shape
    if m < 2:
        raise InputError(f"{m} transformation of each sample was drawn, expected at least 2: pairs are made of them")
    shares = z.new_full((n, m), 1 / m) if weights is None else weights / m
    total = expected(z, shares).square().sum(dim=1)
    same = (shares.square() * z.square().sum(dim=2)).sum(dim=1)
    others = None if keys is None else (keys[0], keys[1] / m)
    return beta * (total - same) / (1 - 1 / m) - (shares * log_marginal(z, shares, beta, others)).sum(dim=1)


def importance_weights(log_p: Tensor, family: int, *, normalized: bool = False) -> Tensor:
    """Weights of transformations that were drawn uniformly, shape (N, m), for the channel's step (section 5.2).

    Parameters
    ----------
    log_p : Tensor, shape (N, m)
        log P(T|x) of those drawn.
    family : int
        M, the number of transformations.
    normalized : bool
        Let the weights of each sample have mean 1 (less variance, some bias), instead of M P, whose mean is 1 in
        expectation.
    """
    if normalized:
        return torch.softmax(log_p, dim=1) * log_p.shape[1]
    return family * torch.exp(log_p)


def entropy(log_p: Tensor) -> Tensor:
    """H(T|x) in nats, shape (N,), from log P(T|x), (N, M); exp of it is the effective number of transformations."""
    p = torch.exp(log_p)
    return -(p * torch.where(p > 0, log_p, 0)).sum(dim=1)
