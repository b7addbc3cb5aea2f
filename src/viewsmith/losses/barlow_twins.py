"""Barlow Twins loss: the cross-correlation matrix of the features of two views is trained to be the identity."""

import torch
from torch import Tensor

from viewsmith.losses.numerics import Total, centered, check_projections, count, per_sample, single_process

#: Added to variances before the square root, as in BatchNorm.
EPSILON = 1e-5


def redundancy(products: Tensor, squares: Tensor, off_diagonal_weight: float) -> Tensor:
    """``sum_j (1 - C_jj)^2 + lambda sum_{j != k} C_jk^2`` (equation 1), a scalar."""
    scale = torch.rsqrt(squares + EPSILON)
    correlation = scale[0][:, None] * products * scale[1]  # equation 2
    diagonal = correlation.diagonal()
    off_diagonal = correlation - torch.diag_embed(diagonal)
    return (1 - diagonal).square().sum() + off_diagonal_weight * off_diagonal.square().sum()


def barlow_twins(
    z0: Tensor, z1: Tensor, *, off_diagonal_weight: float = 0.0051, total: Total = single_process
) -> Tensor:
    """Barlow Twins (Zbontar et al. 2021, equations 1 and 2), one value per sample.

    Value i is the contribution of sample i (see `viewsmith.losses.numerics.per_sample`) to ``sum_j (1 - C_jj)^2 +
    lambda sum_{j != k} C_jk^2``. C_jk is the correlation over the batch of feature j of the first views with feature k
    of the second views. The gradient includes the standardization of the features.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views, not standardized.
    off_diagonal_weight : float
        lambda, at least 0. The default is the value of the authors' program; the paper has 0.005.
    total : callable
        Sums a tensor over all processes. Default: there is one process.

    Returns
    -------
    Tensor, shape (B,)
        The mean over the samples of all processes is the published loss. Single values can be negative.

    Raises
    ------
    InputError
        The projections are not two (B, d) tensors of floating-point numbers.
    """
    check_projections(z0, z1)
    u = centered(torch.stack([z0, z1]), 1, total)
    with torch.no_grad():
        n = count(u, 1, total)
        means = [total(u[0].T @ u[1]) / n, total(u.square().sum(dim=1)) / n]
    return per_sample(
        lambda products, squares: redundancy(products, squares, off_diagonal_weight),
        means,
        lambda across, within: ((u[0] @ across) * u[1]).sum(dim=1) + (u.square() * within[:, None]).sum(dim=(0, 2)),
    )
