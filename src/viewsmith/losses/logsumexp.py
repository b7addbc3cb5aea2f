"""Logsumexp of the products of queries with many keys, with a gradient that needs less memory than autograd's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Logit of an excluded pair. Finite, so that a sample without negatives has loss and gradient 0 instead of NaN.
EXCLUDED_LOGIT = -1e9


def logsumexp_of_products(queries: Tensor, keys: Tensor, excluded: Tensor | None = None) -> Tensor:
    """``log sum_k exp(q_i . k)`` for V queries of each of B samples; twice differentiable.

    The gradient is the mean of the keys under the softmax. The forward pass computes it together with the value, in
    one buffer of products: this reads and writes three times less memory than autograd through the product and
    `logsumexp`. A second derivative takes two more products.

    Parameters
    ----------
    queries : Tensor, shape (V, B, d)
    keys : Tensor, shape (K, d), or (B, K, d) if each sample has its own keys
        They get no gradient.
    excluded : Tensor of bool, shape (B, K), optional
        Keys left out of the sum.

    Returns
    -------
    Tensor, shape (V, B)
    """
    found: Tensor = _LogSum.apply(queries, keys.detach(), excluded)
    return found


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """q . k, (V, B, K)."""
    return queries @ keys.T if keys.ndim == 2 else torch.einsum("vbd,bkd->vbk", queries, keys)


def _weighted_sum(weights: Tensor, keys: Tensor) -> Tensor:
    """Sum of the keys with weights (V, B, K), shape (V, B, d)."""
    return weights @ keys if keys.ndim == 2 else torch.einsum("vbk,bkd->vbd", weights, keys)


class _LogSum(torch.autograd.Function):
    """The value; its derivative by the queries is `_MeanKey`."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, excluded: Tensor | None) -> Tensor:
        softmax = _products(queries, keys)  # in place: logits, then exponentials, then probabilities
        if excluded is not None:
            softmax.masked_fill_(excluded, EXCLUDED_LOGIT)
        top = softmax.amax(-1, keepdim=True)
        total = softmax.sub_(top).exp_().sum(-1, keepdim=True)
        softmax.div_(total)
        ctx.save_for_backward(queries, keys, softmax, _weighted_sum(softmax, keys))
        return (top + total.log()).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        queries, keys, softmax, mean_key = ctx.saved_tensors
        if torch.is_grad_enabled():
            mean_key = _MeanKey.apply(queries, keys, softmax, mean_key)
        return gradients[0][..., None] * mean_key, None, None


class _MeanKey(torch.autograd.Function):
    """The mean key, already computed; its derivative by the queries is the covariance of the keys under the softmax."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, softmax: Tensor, mean_key: Tensor) -> Tensor:
        ctx.save_for_backward(keys, softmax, mean_key)
        return mean_key.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        keys, softmax, mean_key = ctx.saved_tensors
        gradient = gradients[0]
        second_moment = _weighted_sum(_products(gradient, keys).mul_(softmax), keys)
        return second_moment - mean_key * (mean_key * gradient).sum(-1, keepdim=True), None, None, None
