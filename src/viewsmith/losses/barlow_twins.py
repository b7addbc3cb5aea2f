"""Barlow Twins' equation: the cross-correlation of the two views' features becomes the identity."""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.losses.numerics.batch_means import Total, alone, centered, count, per_sample

#: Added to variances under their root, as BatchNorm does.
EPSILON = 1e-5


def redundancy(products: Tensor, squares: Tensor, off_diagonal_weight: float) -> Tensor:
    """``sum_j (1 - C_jj)^2 + lambda sum_{j != k} C_jk^2`` (equation 1), a scalar.

    Parameters
    ----------
    products : Tensor, shape (d, d)
        Means over samples of the products of the centered features of one view with those of the other.
    squares : Tensor, shape (2, d)
        Means of their squares.
    off_diagonal_weight : float
        lambda.
    """
    scale = torch.rsqrt(squares + EPSILON)
    correlation = scale[0][:, None] * products * scale[1]  # equation 2
    diagonal = correlation.diagonal()
    off_diagonal = correlation - torch.diag_embed(diagonal)
    return (1 - diagonal).square().sum() + off_diagonal_weight * off_diagonal.square().sum()


def barlow_twins(z0: Tensor, z1: Tensor, *, off_diagonal_weight: float = 0.0051, total: Total = alone) -> Tensor:
    """Barlow Twins (Zbontar et al. 2021, equations 1 and 2), as each sample's contribution.

    What sample i contributes (`viewsmith.losses.numerics.batch_means.per_sample`) to
    ``sum_j (1 - C_jj)^2 + lambda sum_{j != k} C_jk^2``, with C the correlations over the batch of the features of the
    first views with those of the second. Standardization belongs to what is differentiated.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views, not standardized.
    off_diagonal_weight : float
        lambda; the value of the authors' program, .005 in the paper.
    total : callable
        Sums over processes, where samples are spread over several.

    Returns
    -------
    Tensor, shape (B,)
        Their mean over all processes is the published loss; single values may be negative.
    """
    u = centered(torch.stack([z0, z1]), 1, total)
    with torch.no_grad():
        n = count(u, 1, total)
        means = [total(u[0].T @ u[1]) / n, total(u.square().sum(dim=1)) / n]
    return per_sample(
        lambda products, squares: redundancy(products, squares, off_diagonal_weight),
        means,
        lambda across, within: ((u[0] @ across) * u[1]).sum(dim=1) + (u.square() * within[:, None]).sum(dim=(0, 2)),
    )
