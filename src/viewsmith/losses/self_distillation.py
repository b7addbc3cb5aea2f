"""Losses without negatives: SwAV's balanced assignments and swapped prediction, DINO, the negative cosine of BYOL."""

from collections.abc import Callable

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import unit
from viewsmith.losses.numerics import check_projections


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


def self_distillation(
    student: Tensor,
    teacher: Tensor,
    center: Tensor,
    *,
    student_temperature: float = 0.1,
    teacher_temperature: float = 0.04,
) -> Tensor:
    """Cross entropy of teacher and student over pairs of different views (DINO: Caron et al. 2021, equations 1 to 3).

    ``l_i = mean over t in {0, 1}, s != t of -sum_k P_tik log p_sik`` with
    ``P = softmax((teacher - center) / tau_t)`` and ``p = softmax(student / tau_s)``.

    Parameters
    ----------
    student : Tensor, shape (S, B, K)
        Scores of S views, at least 2, the two full views first.
    teacher : Tensor, shape (2, B, K)
        Scores of the two full views. The caller detaches them.
    center : Tensor, shape (K,)
        Running mean of the teacher's scores; subtracting it prevents all samples from getting the same prototype.
    student_temperature, teacher_temperature : float
        tau_s and tau_t, above 0; tau_t below tau_s makes the targets sharper than the predictions.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.
    """
    targets = torch.softmax((teacher - center) / teacher_temperature, dim=-1)
    return swapped_prediction(student, targets, student_temperature)


def negative_cosine(p: Tensor, z: Tensor) -> Tensor:
    """``-cos(p_i, z_i)`` per row (SimSiam: Chen and He 2021, equation 1); BYOL's distance is 2 plus twice this.

    Parameters
    ----------
    p, z : Tensor, shape (B, d)
        Predictions and targets, not normalized by the caller. The caller detaches the targets.

    Returns
    -------
    Tensor, shape (B,)
        -1 to 1; 0 if one of the rows is zero.

    Raises
    ------
    InputError
        The rows are not two (B, d) tensors of floating-point numbers.
    """
    check_projections(p, z, "p and z")
    return -(unit(p) * unit(z)).sum(dim=-1)
