"""What can be said about a representation without labels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from viewsmith.core.errors import InputError
from viewsmith.evaluation.neighbors import cosine_neighbors
from viewsmith.losses import diagnostics


def label_free(h: ArrayLike, h_view: ArrayLike | None = None) -> dict[str, float]:
    """Spread and collapse of a representation, and how well views agree.

    Parameters
    ----------
    h : array (n, d)
        Representations of n rows, at least 2. Memory is n * n floats.
    h_view : array (n, d), optional
        Representations of one view of each row.

    Returns
    -------
    dict
        ``feature_std`` (0 collapsed, about 1 spread), ``effective_rank`` (at most min(n, d)), ``uniformity`` (0
        collapsed, lower is more even) and, with views, ``alignment`` (0 to 4); see `viewsmith.losses.diagnostics`.

    Raises
    ------
    InputError
        Fewer than two rows.
    """
    rows = torch.tensor(np.asarray(h), dtype=torch.float32)
    if len(rows) < 2:
        raise InputError(f"label-free numbers need at least 2 rows, got {len(rows)}")
    values = {
        "feature_std": diagnostics.feature_std(rows),
        "effective_rank": diagnostics.effective_rank(rows),
        "uniformity": diagnostics.uniformity(rows),
    }
    if h_view is not None:
        values["alignment"] = diagnostics.alignment(rows, torch.tensor(np.asarray(h_view), dtype=torch.float32))
    return {name: float(value) for name, value in values.items()}


def neighbor_r2(
    h_fit: ArrayLike, h_val: ArrayLike, x_fit: ArrayLike, x_val: ArrayLike, *, k: int = 10, components: int = 20
) -> float:
    """How well the neighbors in a representation tell what a row looks like: a score for choosing settings.

    The first principal coordinates of a validation row are predicted by the mean of those of its `k` nearest fit rows
    by cosine in the representation; the score is R^2 over all coordinates, weighted by their variance. It follows the
    choice by labels on single-cell, text and DNA data and is no guide on pixels.

    Parameters
    ----------
    h_fit, h_val : arrays (n, d) and (m, d)
        Representations of the fit and validation rows.
    x_fit, x_val : arrays (n, p) and (m, p)
        The rows themselves, as scaled for the model; the principal axes are those of `x_fit`.
    k : int
        Neighbors, cut to n.
    components : int
        Principal coordinates, cut to what n rows of width p have.

    Returns
    -------
    float
        At most 1; 0 for predicting the mean of the validation rows.

    Raises
    ------
    InputError
        Lengths that do not fit, or validation rows that are all equal.
    """
    from viewsmith.evaluation.baselines import pca

    if len(np.asarray(h_fit)) != len(np.asarray(x_fit)) or len(np.asarray(h_val)) != len(np.asarray(x_val)):
        raise InputError("representations and rows differ in number; give one representation for each row")
    fit, val = (part.astype(np.float64) for part in pca(x_fit, x_val, components))
    total = np.square(val - val.mean(axis=0)).sum()
    if total == 0:
        raise InputError(f"all {len(val)} validation rows are equal; R^2 needs rows that differ")
    predicted = fit[cosine_neighbors(h_fit, h_val, k)].mean(axis=1)
    return float(1 - np.square(val - predicted).sum() / total)
