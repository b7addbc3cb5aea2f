"""Losses without negatives: DINO's self-distillation, and the negative cosine of prediction and target."""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import unit
from viewsmith.losses.swapped_prediction import swapped_prediction


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
    """
    return -(unit(p) * unit(z)).sum(dim=-1)
