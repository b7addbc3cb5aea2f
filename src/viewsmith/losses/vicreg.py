"""VICReg's equation: views attract, features keep their spread and do not repeat one another."""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.losses.numerics.batch_means import Total, alone, centered, count, per_sample

#: Added to variances under their root, and the standard deviation that every feature should have at least.
EPSILON, TARGET = 1e-4, 1.0


def regularization(covariance: Tensor, variance_weight: float, covariance_weight: float) -> Tensor:
    """The variance and the covariance term (equations 1, 2 and 4) of the views' covariances (V, d, d): a scalar.

    The first is a mean over views and features, the second a sum over views of squares over d.
    """
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    missing = torch.relu(TARGET - torch.sqrt(variance + EPSILON)).mean()
    repeated = (covariance - torch.diag_embed(variance)).square().sum() / covariance.shape[-1]
    return variance_weight * missing + covariance_weight * repeated


def vicreg(
    z0: Tensor,
    z1: Tensor,
    *,
    invariance_weight: float = 25.0,
    variance_weight: float = 25.0,
    covariance_weight: float = 1.0,
    total: Total = alone,
) -> Tensor:
    """VICReg (Bardes, Ponce and LeCun 2022, equations 1 to 6), as each sample's contribution.

    ``lambda mean_j (z_ij - z'_ij)^2``, and what sample i contributes
    (`viewsmith.losses.numerics.batch_means.per_sample`) to
    ``mu v(Z, Z') + nu [c(Z) + c(Z')]`` with ``v`` the mean of ``max(0, 1 - sqrt(C_jj + 1e-4))`` over features and views
    and ``c = sum_{j != k} C_jk^2 / d``; C is the covariance of a view's projections, over B - 1.

    The scales are those of the authors' program, to which the published weights belong: the paper sums the first term
    over features and the second over the two views.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views, not normalized.
    invariance_weight, variance_weight, covariance_weight : float
        lambda, mu and nu.
    total : callable
        Sums over processes, where samples are spread over several.

    Returns
    -------
    Tensor, shape (B,)
        Their mean over all processes is the published loss; single values may be negative.
    """
    u = centered(torch.stack([z0, z1]), 1, total)
    n = count(u, 1, total)
    with torch.no_grad():
        covariance = total(u.mT @ u) / (n - 1).clamp_min(1)  # equation 3
    # C is the mean over samples of what this multiplies.
    scale = n / (n - 1).clamp_min(1)
    contribution = per_sample(
        lambda c: regularization(c, variance_weight, covariance_weight),
        [covariance],
        lambda slope: scale * ((u @ slope) * u).sum(dim=(0, 2)),
    )
    return invariance_weight * (z0 - z1).square().mean(dim=1) + contribution
