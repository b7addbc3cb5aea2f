"""One value per sample for objectives of a batch's means, such as a covariance or a characteristic function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

#: Sums over all processes that hold a part of the batch, without gradient.
Total = Callable[[Tensor], Tensor]


def alone(x: Tensor) -> Tensor:
    """The `Total` of one process that holds the whole batch: `x` itself."""
    return x


def count(x: Tensor, dim: int, total: Total = alone) -> Tensor:
    """Number of samples of the whole batch, a scalar of the dtype of `x`, whose samples lie along `dim`."""
    return total(torch.tensor(float(x.shape[dim]), dtype=x.dtype, device=x.device))


def centered(z: Tensor, dim: int, total: Total = alone) -> Tensor:
    """`z` minus its mean over the samples of the whole batch, taken as a constant.

    Second moments of it are the covariance, with the exact gradient: a covariance does not change, to first order,
    with the center it is taken about, so that the gradient through the mean is zero.
    """
    with torch.no_grad():
        mean = total(z.sum(dim, keepdim=True)) / count(z, dim, total)
    return z - mean


def per_sample(objective: Callable[..., Tensor], means: Sequence[Tensor], products: Callable[..., Tensor]) -> Tensor:
    """What each sample contributes to an objective L(m) of means ``m = mean_b s_b`` over the samples of a batch.

    Sample b gets ``L + <dL/dm, s_b - m>``, where L, m and dL/dm are constants. The mean of these values is L, the
    gradient of their mean is exactly that of L, and a weight on a sample scales what this sample adds to the gradient.
    Single values may be negative.

    With several processes the means are those of the whole batch. Over all processes, the mean of the values is L and
    the mean of their gradients is its gradient: no gradient has to travel between them.

    Parameters
    ----------
    objective : callable
        From the means to L, a scalar, differentiable.
    means : sequence of Tensor
        m; no gradient reaches them.
    products : callable
        From dL/dm, tensors like `means`, to ``<dL/dm, s_b>`` of every sample of this process, (B,), with the graph of
        s_b. The s_b themselves need not be made: the product of a matrix G with ``u u^T`` is ``u^T G u``.

    Returns
    -------
    Tensor, shape (B,)
        They can be differentiated once: a second derivative would lack that of dL/dm, and raises.
    """
    with torch.enable_grad():
        leaves = [mean.detach().requires_grad_() for mean in means]
        value = objective(*leaves)
        slopes = torch.autograd.grad(value, leaves)
    at_mean = sum((slope * mean.detach()).sum() for slope, mean in zip(slopes, means, strict=True))
    found: Tensor = _Once.apply(value.detach() - at_mean + products(*slopes))
    return found


class _Once(torch.autograd.Function):
    """The identity, whose gradient cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("an objective of batch means can be differentiated once: no create_graph")
        return slopes[0]
