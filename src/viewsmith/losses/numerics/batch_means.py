"""One value per sample for losses that depend on batch means, such as a covariance or a characteristic function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

#: Function that sums a tensor over all processes, without gradient.
Total = Callable[[Tensor], Tensor]


def single_process(x: Tensor) -> Tensor:
    """The `Total` of one process that holds the whole batch: `x` itself."""
    return x


def count(x: Tensor, dim: int, total: Total = single_process) -> Tensor:
    """Number of samples of the whole batch, a scalar of the dtype of `x`, whose samples lie along `dim`."""
    return total(x.new_full((), float(x.shape[dim])))


def centered(z: Tensor, dim: int, total: Total = single_process) -> Tensor:
    """`z` minus its mean over the samples of the whole batch, taken as a constant.

    The second moments of the result are the covariance, with the exact gradient: at the mean, the derivative of the
    second moments with respect to the center is zero.
    """
    with torch.no_grad():
        mean = total(z.sum(dim, keepdim=True)) / count(z, dim, total)
    return z - mean


def per_sample(objective: Callable[..., Tensor], means: Sequence[Tensor], products: Callable[..., Tensor]) -> Tensor:
    """Contribution of each sample to a loss L(m) of batch means ``m = mean_b s_b``.

    Sample b gets ``L + <dL/dm, s_b - m>``, where L, m and dL/dm are constants. The mean of these values is L, the
    gradient of their mean is exactly that of L, and a weight on a sample scales the part of the gradient that comes
    from this sample. Single values can be negative.

    With several processes, the means must be those of the whole batch. Over all processes, the mean of the values is
    then L, and the mean of their gradients is the gradient of L. No gradient has to be sent between processes.

    Parameters
    ----------
    objective : callable
        Differentiable function from the means to the scalar L.
    means : sequence of Tensor
        m; they get no gradient.
    products : callable
        Function from dL/dm (tensors with the shapes of `means`) to ``<dL/dm, s_b>`` of every sample of this process,
        (B,), differentiable. It does not have to compute the s_b: for example, the product of a matrix G with
        ``s_b = u u^T`` is ``u^T G u``.

    Returns
    -------
    Tensor, shape (B,)
        The values can be differentiated once. A second differentiation raises RuntimeError, because the derivative of
        dL/dm would be missing.
    """
    with torch.enable_grad():
        leaves = [mean.detach().requires_grad_() for mean in means]
        value = objective(*leaves)
        slopes = torch.autograd.grad(value, leaves)
    at_mean = sum((slope * mean.detach()).sum() for slope, mean in zip(slopes, means, strict=True))
    found: Tensor = _Once.apply(value.detach() - at_mean + products(*slopes))
    return found


class _Once(torch.autograd.Function):
    """The identity; its gradient cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("the loss can be differentiated once, create_graph=True was given; leave it out")
        return slopes[0]
