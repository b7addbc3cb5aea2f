"""VICReg loss: views attract, every feature keeps its variance, and different features are decorrelated."""

import torch
from torch import Tensor

from viewsmith.losses.numerics import Total, centered, check_projections, count, per_sample, single_process

#: Added to variances before the square root, and the standard deviation that each feature should at least have.
EPSILON, TARGET = 1e-4, 1.0


def regularization(covariance: Tensor, variance_weight: float, covariance_weight: float) -> Tensor:
    """Weighted variance and covariance terms (equations 1, 2 and 4) for covariances (V, d, d): a scalar."""
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    deviation = torch.relu(TARGET - torch.sqrt(variance + EPSILON)).mean()
    correlation = (covariance - torch.diag_embed(variance)).square().sum() / covariance.shape[-1]
    return variance_weight * deviation + covariance_weight * correlation


def vicreg(
    z0: Tensor,
    z1: Tensor,
    *,
    invariance_weight: float = 25.0,
    variance_weight: float = 25.0,
    covariance_weight: float = 1.0,
    total: Total = single_process,
) -> Tensor:
    """VICReg (Bardes, Ponce and LeCun 2022, equations 1 to 6), one value per sample.

    Value i is ``lambda mean_j (z_ij - z'_ij)^2`` plus the contribution of sample i (see
    `viewsmith.losses.numerics.per_sample`) to ``mu v(Z, Z') + nu [c(Z) + c(Z')]``. Here ``v`` is the mean
    of ``max(0, 1 - sqrt(C_jj + 1e-4))`` over features and views, ``c = sum_{j != k} C_jk^2 / d``, and C is the
    covariance matrix of the projections of one view, with the denominator B - 1.

    The terms are scaled as in the authors' program, because the published weights are for these scales. The paper sums
    the first term over features and the second over the two views.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views, not normalized.
    invariance_weight, variance_weight, covariance_weight : float
        lambda, mu and nu, at least 0.
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
    n = count(u, 1, total)
    with torch.no_grad():
        covariance = total(u.mT @ u) / (n - 1).clamp_min(1)  # equation 3
    # C is the mean over samples of scale * u u^T.
    scale = n / (n - 1).clamp_min(1)
    contribution = per_sample(
        lambda c: regularization(c, variance_weight, covariance_weight),
        [covariance],
        lambda slope: scale * ((u @ slope) * u).sum(dim=(0, 2)),
    )
    return invariance_weight * (z0 - z1).square().mean(dim=1) + contribution
