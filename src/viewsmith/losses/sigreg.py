"""SIGReg loss: along random directions, it pushes the projections of a batch toward a standard normal distribution."""

from typing import Any

import torch
from torch import Tensor

from viewsmith.losses.numerics import Total, count, per_sample, single_process

#: Cosines in memory at a time. On a CPU they fit into a core's cache; a GPU needs larger blocks to be fully used.
BLOCK, GPU_BLOCK = 2**17, 2**25


def random_directions(width: int, n_slices: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Random directions, uniform on the sphere.

    They are drawn in float32, so that they are equal, up to rounding, for every dtype.

    Parameters
    ----------
    width : int
        d, width of the projections.
    n_slices : int
        M, number of directions.
    like : Tensor
        Its dtype and device are used.
    generator : torch.Generator, optional
        On the device of `like`.

    Returns
    -------
    Tensor, shape (d, M)
        Columns have length 1.
    """
    drawn = torch.randn(width, n_slices, device=like.device, generator=generator)
    return torch.nn.functional.normalize(drawn, dim=0).to(like.dtype)


def knots(n_knots: int, limit: float, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points t from 0 to `limit`, the normal's characteristic function there, and weights (T,): trapezoidal rule on
    [-limit, limit] times exp(-t^2 / 2)."""
    t = torch.linspace(0, limit, n_knots, dtype=like.dtype, device=like.device)
    normal = torch.exp(-t.square() / 2)
    weights = torch.full_like(t, 2 * limit / (n_knots - 1))
    weights[0] /= 2
    weights[-1] /= 2
    return t, normal, weights * normal


def sigreg(
    z: Tensor, directions: Tensor, *, n_knots: int = 17, limit: float = 3.0, total: Total = single_process
) -> Tensor:
    """Sketched Isotropic Gaussian Regularization (LeJEPA: Balestriero and LeCun 2025, section 4 and algorithm 1).

    Value i is the contribution of sample i (see `viewsmith.losses.numerics.per_sample`) to the mean of Epps
    and Pulley's statistic ``N integral |phi(t) - exp(-t^2 / 2)|^2 exp(-t^2 / 2) dt`` over views and directions a. Here
    ``phi(t) = mean_n exp(i t a.z_n)`` is the characteristic function of the N samples along a. The statistic is about
    1.05 for a normal sample of any size, and grows with N for any other distribution.

    The knots are on [-3, 3], as in the authors' program; the paper's listing has [-5, 5]. The (V, B, M, T) cosines are
    computed in blocks, and again for the gradient, so that memory grows with V B M only.

    Parameters
    ----------
    z : Tensor, shape (V, B, d)
        Projections of V views of the batch.
    directions : Tensor, shape (d, M)
        Columns of length 1, see `random_directions`; the same on all processes.
    n_knots : int
        T, number of points of the integral from 0 to `limit`, at least 2.
    limit : float
        Upper end of the integral, above 0.
    total : callable
        Sums a tensor over all processes. Default: there is one process.

    Returns
    -------
    Tensor, shape (B,)
        The mean over the samples of all processes is the published statistic. Single values can be negative.
    """
    t, normal, weights = knots(n_knots, limit, z)
    x = z @ directions
    n = count(z, 1, total)

    def statistic(characteristic: Tensor) -> Tensor:
        real, imaginary = characteristic
        return n * (((real - normal).square() + imaginary.square()) @ weights).mean()

    characteristic = total(_sums(x.detach(), t)) / n
    return per_sample(statistic, [characteristic], lambda slope: _Products.apply(x, slope, t).sum(dim=0))


def _rows(x: Tensor, t: Tensor) -> int:
    """Number of samples in a block."""
    block = GPU_BLOCK if x.is_cuda else BLOCK
    return max(1, block // (x.shape[0] * x.shape[2] * len(t)))


def _sums(x: Tensor, t: Tensor) -> Tensor:
    """Sums over samples of cos(t x) and sin(t x), (2, V, M, T) from (V, B, M)."""
    sums = x.new_zeros(2, x.shape[0], x.shape[2], len(t))
    for part in x.split(_rows(x, t), dim=1):
        angles = part[..., None] * t
        sums[0] += torch.cos(angles).sum(dim=1)
        sums[1] += torch.sin(angles).sum(dim=1)
    return sums


class _Products(torch.autograd.Function):
    """Sums over directions and knots of ``g cos(t x) + h sin(t x)``, (V, B), and their derivative in the same pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor, t: Tensor) -> Tensor:
        values, derivatives = [], []
        on_cosine, on_sine = slope[:, :, None]
        for part in x.split(_rows(x, t), dim=1):
            angles = part[..., None] * t
            cosine, sine = torch.cos(angles), torch.sin(angles)
            values.append((cosine * on_cosine + sine * on_sine).sum(dim=(2, 3)))
            derivatives.append((cosine * on_sine - sine * on_cosine) @ t)
        ctx.save_for_backward(torch.cat(derivatives, dim=1))
        return torch.cat(values, dim=1)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        (derivative,) = ctx.saved_tensors
        return slopes[0][..., None] * derivative, None, None
