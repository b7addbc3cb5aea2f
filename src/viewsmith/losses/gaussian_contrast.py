"""InfoNCE with the critic of Gaussian views, the objective that `LinearContrast` solves in closed form."""

import torch
import torch.nn.functional as F
from torch import Tensor


def critic_weights(signal: Tensor) -> Tensor:
    """Factor of each column with noise of variance 1, whose inner products are the critic's bilinear term, (k,).

    `signal`, (k,), is the variance s that the views of a sample share. The correlation of two views is
    ``rho = s / (1 + s)``, and ``rho / (1 - rho^2)`` of columns of variance ``1 + s`` is ``s / (1 + 2 s)``.
    """
    return (signal / (1 + 2 * signal)).sqrt()


def gaussian_critic(z: Tensor, other: Tensor, correlation: Tensor) -> Tensor:
    """Log density ratio log p(v, v') / p(v) p(v') of Gaussian views, (n, m).

    For uncorrelated columns u of variance 1 whose views have the correlation rho, the ratio of a bivariate normal
    density to the product of its margins is ``rho u u' / (1 - rho^2) - rho^2 (u^2 + u'^2) / (2 (1 - rho^2)) -
    log(1 - rho^2) / 2``, summed over columns. With ``z = sqrt(rho / (1 - rho^2)) u`` the first term is an inner
    product, and the second is ``rho (z^2 + z'^2) / 2``.

    Parameters
    ----------
    z, other : Tensor, shapes (n, k) and (m, k)
        Columns scaled by `critic_weights`.
    correlation : Tensor, shape (k,)
        rho of each column, in [0, 1).
    """
    own, others = ((x.square() * correlation).sum(1) / 2 for x in (z, other))
    return z @ other.T - own[:, None] - others - torch.log1p(-correlation.square()).sum() / 2


def gaussian_contrast(z0: Tensor, z1: Tensor, correlation: Tensor) -> Tensor:
    """InfoNCE (van den Oord et al. 2018, equation 4) of both directions with `gaussian_critic`, one value per sample.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, k)
        Two views of B samples; the other samples of the batch are the negatives.
    correlation : Tensor, shape (k,)
        Correlation of the views in each column, in [0, 1).

    Returns
    -------
    Tensor, shape (B,)
        Nats, at least 0.
    """
    scores = gaussian_critic(z0, z1, correlation)
    positives = torch.arange(len(z0), device=z0.device)
    both = [F.cross_entropy(each, positives, reduction="none") for each in (scores, scores.T)]
    return (both[0] + both[1]) / 2
