"""Logsumexp of the products of queries with many keys, whose derivatives are as wide as a query, not as the keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Logit of a pair that does not count: finite, so that a sample without any negative has loss and gradient 0, not NaN.
ABSENT = -1e9


def log_sum_of_products(queries: Tensor, keys: Tensor, excluded: Tensor | None = None) -> Tensor:
    """``log sum_k exp(q_i . k)``, shape (V, B), for V queries of each of B samples; twice differentiable.

    Its gradient is the mean key under the softmax, which the forward pass makes beside the value, in one buffer of
    products: three times less is read and written than by autograd through the product and `logsumexp`, and a second
    derivative takes two products more.

    Parameters
    ----------
    queries : Tensor, shape (V, B, d)
    keys : Tensor, shape (K, d), or (B, K, d) where samples have keys of their own
        No gradient reaches them.
    excluded : Tensor of bool, shape (B, K), optional
        Keys that do not count.

    Returns
    -------
    Tensor, shape (V, B)
    """
    found: Tensor = _LogSum.apply(queries, keys.detach(), excluded)
    return found


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """q . k, (V, B, K)."""
    return queries @ keys.T if keys.ndim == 2 else torch.einsum("vbd,bkd->vbk", queries, keys)


def _combined(shares: Tensor, keys: Tensor) -> Tensor:
    """Sum over keys of their shares (V, B, K), (V, B, d)."""
    return shares @ keys if keys.ndim == 2 else torch.einsum("vbk,bkd->vbd", shares, keys)


class _LogSum(torch.autograd.Function):
    """The value; its slope is `_MeanKey`."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, excluded: Tensor | None) -> Tensor:
        shares = _products(queries, keys)
        if excluded is not None:
            shares.masked_fill_(excluded, ABSENT)
        top = shares.amax(-1, keepdim=True)
        total = shares.sub_(top).exp_().sum(-1, keepdim=True)
        shares.div_(total)
        ctx.save_for_backward(queries, keys, shares, _combined(shares, keys))
        return (top + total.log()).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        queries, keys, shares, mean_key = ctx.saved_tensors
        if torch.is_grad_enabled():
            mean_key = _MeanKey.apply(queries, keys, shares, mean_key)
        return slopes[0][..., None] * mean_key, None, None


class _MeanKey(torch.autograd.Function):
    """The mean key, already made; its slope is the covariance of the keys under the softmax."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, shares: Tensor, mean_key: Tensor) -> Tensor:
        ctx.save_for_backward(keys, shares, mean_key)
        return mean_key.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Any) -> Any:
        keys, shares, mean_key = ctx.saved_tensors
        slope = slopes[0]
        spread = _combined(_products(slope, keys).mul_(shares), keys)
        return spread - mean_key * (mean_key * slope).sum(-1, keepdim=True), None, None, None
