"""Measures of a representation that need no labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from viewsmith.core.errors import InputError
from viewsmith.evaluation.baselines import pca
from viewsmith.evaluation.neighbors import neighbors
from viewsmith.evaluation.protocol import checked_rows
from viewsmith.losses import diagnostics

#: Name and one-line description of each of `measures`.
MEASURES: dict[str, str] = {
    "effective_rank": "number of directions that the covariance uses; more is said to be better",
    "rankme": "RankMe: effective number of singular values; more is said to be better",
    "alpha": "alpha-ReQ: decay of the spectrum; about 1 is said to be best",
    "uniformity": "evenness on the sphere; lower is said to be better",
    "neighbor_r2": "R^2 of the features of a row, predicted from its neighbors; more is said to be better",
    "lidar": "LiDAR: effective number of directions that tell samples apart, not their views; more is said better",
    "alignment": "distance of a row and its view, 0 to 4; lower is said to be better",
    "told_apart": "how well rows and views are told apart by a linear classifier; lower is said to be better",
}

MEASURED_ROWS, VIEWED_ROWS, VIEWS = 400, 100, 8  # rows, and those of LiDAR with the views of each

#: docs/results/label_free.md: sets, and the mean regret there of always taking contrastive, and of chance.
STUDY = {"sets": 15, "always": 0.012, "chance": 0.037}


def measures(
    h: np.ndarray,
    h_test: np.ndarray,
    raw: Sequence[np.ndarray],
    *,
    model: Any = None,
    x: Any = None,
    x_test: Any = None,
) -> dict[str, float]:
    """All of `MEASURES` of a representation; NaN for those of views without the `model` that makes them."""
    of_rows = label_free(h_test)
    found = dict.fromkeys(MEASURES, float("nan")) | {
        "effective_rank": of_rows["effective_rank"],
        "rankme": rankme(h_test),
        "alpha": alpha_req(h_test),
        "uniformity": of_rows["uniformity"],
        "neighbor_r2": neighbor_r2(h, h_test, *raw),
    }
    if model is None or len(h_test) < 8:  # too few to be told apart
        return found
    views = model.views(x_test[:VIEWED_ROWS], VIEWS, random_state=0, pool=x)
    one = model.views(x_test, 1, random_state=0, pool=x)[:, 0]
    flat, flat_view = (torch.as_tensor(model.scaled(part).reshape(len(x_test), -1)) for part in (x_test, one))
    return found | {
        "lidar": lidar(np.stack([model.transform(views[:, j]) for j in range(VIEWS)], axis=1)),
        "alignment": label_free(h_test, model.represented_views(x_test, pool=x))["alignment"],
        "told_apart": float(diagnostics.told_apart(flat, flat_view)),
    }


def label_free(h: ArrayLike, h_view: ArrayLike | None = None) -> dict[str, float]:
    """Collapse and uniformity of a representation, and the alignment of views.

    Parameters
    ----------
    h, h_view : array-like (n, d)
        Representations of rows, and of a view of each.

    Raises
    ------
    InputError
        Less than two rows, other shapes, or values that are not finite.
    """
    rows = torch.tensor(checked_rows(h, "h"))
    if len(rows) < 2:
        raise InputError(f"label-free diagnostics were given {len(rows)} rows, expected at least 2")
    values = {
        "feature_std": diagnostics.feature_std(rows),
        "effective_rank": diagnostics.effective_rank(rows),
        "uniformity": diagnostics.uniformity(rows),
    }
    if h_view is not None:
        views = torch.tensor(checked_rows(h_view, "h_view"))
        if views.shape != rows.shape:
            raise InputError(f"h has shape {tuple(rows.shape)}, and h_view {tuple(views.shape)}, expected equal ones")
        values["alignment"] = diagnostics.alignment(rows, views)
    return {name: float(value) for name, value in values.items()}


def neighbor_r2(
    h_fit: ArrayLike, h_val: ArrayLike, x_fit: ArrayLike, x_val: ArrayLike, *, k: int = 10, components: int = 20
) -> float:
    """R^2 of predicting the features of a row from its neighbors in the representation, to select settings.

    The first principal coordinates of a validation row are predicted by their mean over its `k` nearest fit rows, by
    cosine in the representation. The score is R^2 over all coordinates, weighted by their variance. On single-cell,
    text and DNA data it selects similar settings as scores with labels do; on images it does not.

    Parameters
    ----------
    h_fit, h_val : arrays (n, d) and (m, d)
        Representations of the fit and validation rows.
    x_fit, x_val : arrays (n, p) and (m, p)
        The rows, scaled as for the model; the principal axes are fitted on `x_fit`.
    k : int
        Number of neighbors, at most n.
    components : int
        Number of principal coordinates, at most the number that n rows of width p have.

    Returns
    -------
    float
        At most 1; 0 means no better than the mean of the validation rows.

    Raises
    ------
    InputError
        The numbers of representations and rows differ, or all validation rows are equal.
    """
    if len(np.asarray(h_fit)) != len(np.asarray(x_fit)) or len(np.asarray(h_val)) != len(np.asarray(x_val)):
        raise InputError("representations and rows differ in number; give one representation for each row")
    fit, val = (part.astype(np.float64) for part in pca(x_fit, x_val, components))
    total = np.square(val - val.mean(axis=0)).sum()
    if total == 0:
        raise InputError(f"all {len(val)} validation rows are equal; R^2 needs rows that differ")
    predicted = fit[neighbors(h_fit, h_val, k)].mean(axis=1)
    return float(1 - np.square(val - predicted).sum() / total)


#: A trained encoder is below the untrained one if the variance that neighbors do not predict grew by the factor and by
#: the first part of all variance, or by the second part. The default of contrastive has at most 1.52 and 0.09 on eight
#: sets of vectors. DiffAug's preset paper2d, which is worse than no training, has at least 2.8 or 0.23 on four of five.
WORSE_FACTOR, WORSE_PARTS = 2.0, (0.04, 0.15)


def below_untrained(trained: float, untrained: float) -> bool:
    """Whether the `neighbor_r2` of a trained encoder is clearly below that of the untrained one."""
    grown = untrained - trained
    by_factor = 1 - trained > WORSE_FACTOR * (1 - untrained) and grown > WORSE_PARTS[0]
    return by_factor or grown > WORSE_PARTS[1]


EPSILON = 1e-7  # of RankMe and LiDAR, added to the normalized singular values or eigenvalues


def rankme(h: ArrayLike) -> float:
    r"""RankMe (Garrido et al. 2023, equation 2): exp of the entropy of the normalized singular values of `h`.

    .. math:: \exp(-\sum_k p_k \log p_k), \quad p_k = \sigma_k / \lVert \sigma \rVert_1 + \epsilon
    """
    values = np.linalg.svd(np.asarray(h, dtype=np.float64), compute_uv=False)
    return _effective_number(values)


def lidar(h_views: ArrayLike, *, delta: float = 1e-4) -> float:
    r"""LiDAR (Thilak et al. 2024, section 4): effective rank of the linear discriminant analysis of samples.

    Each sample is a class, and its q views are the members:

    .. math:: \Sigma_b = \frac1n \sum_i (\mu_i - \mu)(\mu_i - \mu)^T, \quad
        \Sigma_w = \frac{1}{nq} \sum_{i,j} (h_{ij} - \mu_i)(h_{ij} - \mu_i)^T + \delta I

    and the measure is that of RankMe on the eigenvalues of :math:`\Sigma_w^{-1/2} \Sigma_b \Sigma_w^{-1/2}`.
    """
    h = np.asarray(h_views, dtype=np.float64)
    n, q, d = h.shape
    centers = h.mean(axis=1)
    between = centers - centers.mean(axis=0)
    within = (h - centers[:, None]).reshape(n * q, d)
    covariance = within.T @ within / (n * q) + delta * np.eye(d)
    values, axes = np.linalg.eigh(covariance)
    whitened = between @ (axes / np.sqrt(values)) / np.sqrt(n)
    return _effective_number(np.square(np.linalg.svd(whitened, compute_uv=False)))


def alpha_req(h: ArrayLike) -> float:
    r"""alpha-ReQ (Agrawal et al. 2022): alpha of :math:`\lambda_j \propto j^{-\alpha}`, by least squares of log
    eigenvalues of the covariance above rounding."""
    rows = np.asarray(h, dtype=np.float64)
    values = np.square(np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)) / len(rows)
    values = values[values > 1e-10 * max(values[0], np.finfo(float).tiny)] if len(values) else values
    if len(values) < 3:
        return float("nan")
    ranks = np.log(np.arange(1, len(values) + 1))
    return float(-np.polyfit(ranks, np.log(values), 1)[0])


def _effective_number(values: np.ndarray) -> float:
    """exp of the entropy of values that are normalized to a sum of 1; 0 if all are zero."""
    total = values.sum()
    if total <= 0:
        return 0.0
    p = values / total + EPSILON
    return float(np.exp(-(p * np.log(p)).sum()))
