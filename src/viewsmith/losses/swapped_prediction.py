"""SwAV's loss: balanced assignments to prototypes, and the prediction of one view's assignment from another view."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def log_prototype_mass(log_mass: Tensor) -> Tensor:
    """Logarithm of the total mass of each prototype, (..., K) from log masses (..., B, K)."""
    return log_mass.logsumexp(dim=-2)


def sinkhorn(
    scores: Tensor,
    epsilon: float = 0.05,
    iterations: int = 3,
    *,
    total: Callable[[Tensor], Tensor] = log_prototype_mass,
) -> Tensor:
    """Assign samples to prototypes of equal total mass (SwAV: Caron et al. 2020, equations 3 to 5).

    The Sinkhorn-Knopp scaling of ``exp(scores / epsilon)``, in logarithms: it alternately gives every prototype the
    same mass and every sample a mass of 1. After the last iteration each sample has mass 1 exactly, each prototype
    about B / K.

    Parameters
    ----------
    scores : Tensor, shape (..., B, K)
        Cosines of samples and prototypes. Leading dimensions are independent assignment problems.
    epsilon : float
        Smoothness of the assignments, above 0; small values approach one prototype per sample.
    iterations : int
        At least 1.
    total : callable
        Log of the masses summed over the samples, (..., B, K) to (..., K). With several processes it must sum over
        the samples of all of them. Default: `log_prototype_mass`.

    Returns
    -------
    Tensor, shape (..., B, K)
        Rows sum to 1.
    """
    log_q = scores / epsilon
    for _ in range(iterations):
        log_q = log_q - total(log_q).unsqueeze(-2)
        log_q = log_q.log_softmax(dim=-1)
    return log_q.exp()


def swapped_prediction(scores: Tensor, targets: Tensor, temperature: float = 0.1) -> Tensor:
    """Cross entropy of the two full views' targets and the other views' predictions (SwAV, equations 1, 2 and 6).

    ``l_i = mean over t in {0, 1}, s != t of -sum_k q_tik log p_sik`` with ``p = softmax(scores / tau)``.

    Parameters
    ----------
    scores : Tensor, shape (S, B, K)
        Scores of S views, at least 2; the first two are the full views.
    targets : Tensor, shape (2, B, K)
        q, the targets of the two full views; rows sum to 1. The caller detaches them.
    temperature : float
        tau, above 0.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.
    """
    log_p = torch.log_softmax(scores / temperature, dim=-1)
    swapped = (targets.flip(0) * log_p[:2]).sum(dim=(0, 2))
    crops = (targets.sum(dim=0) * log_p[2:].sum(dim=0)).sum(dim=1)
    return -(swapped + crops) / (2 * (len(scores) - 1))
