"""Negative cosine similarity of prediction and target: a loss without negatives."""

from __future__ import annotations

from torch import Tensor

from viewsmith.losses.nt_xent import unit


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
