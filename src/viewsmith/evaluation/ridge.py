"""Ridge regression whose penalty is chosen by leave-one-out errors: the linear probe for numbers.

The leave-one-out errors of all penalties follow from one eigendecomposition: with the hat matrix H of the fit, the
error of row i without itself is ``(y_i - f_i) / (1 - H_ii)`` (Allen 1974: PRESS). With more features than rows, the
decomposition is that of ``X X^T`` in place of ``X^T X``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from viewsmith.core.errors import InputError

#: Penalties that are tried, as multiples of the largest eigenvalue of ``X^T X``: from none that matters to the mean.
PENALTIES = tuple(10.0 ** (power / 2) for power in range(4, -15, -1))
_BLOCK = 4096


@dataclass(frozen=True)
class RidgeModel:
    """A fitted ridge regression.

    Attributes
    ----------
    coef : ndarray (d,)
    intercept : float
    penalty : float
        The chosen penalty of ``sum (y - f)^2 + penalty |coef|^2``.
    errors : ndarray
        Mean squared leave-one-out error of each penalty, in the order of `PENALTIES`.
    """

    coef: NDArray[np.float64]
    intercept: float
    penalty: float
    errors: NDArray[np.float64]

    def predict(self, x: ArrayLike) -> NDArray[np.float64]:
        """Predicted numbers, (n,), of rows (n, d)."""
        return (np.asarray(x) @ self.coef.astype(np.float32)).astype(np.float64) + self.intercept


def fit_ridge(x: ArrayLike, y: ArrayLike) -> RidgeModel:
    """Fit a ridge regression with a free intercept.

    Parameters
    ----------
    x : array (n, d)
        Standardized rows, n at least 2.
    y : array (n,)
        Finite numbers.

    Returns
    -------
    RidgeModel

    Raises
    ------
    InputError
        Fewer than two rows, or not one number for each.
    """
    # Copied, because torch warns if it shares the memory of a read-only array.
    rows, target = torch.from_numpy(np.array(x, np.float32, order="C")), torch.from_numpy(np.array(y, np.float64))
    if len(rows) < 2 or target.shape != (len(rows),):
        raise InputError(f"ridge was given {len(rows)} rows and {tuple(target.shape)} numbers, expected 2 rows or more")
    center, mean = rows.mean(dim=0, dtype=torch.float64).float(), target.mean()
    rows -= center
    solve = _by_rows if rows.shape[1] > len(rows) else _by_columns
    coef, penalty, errors = solve(rows, target - mean)
    return RidgeModel(coef.numpy(), float(mean - coef @ center.double()), penalty, errors.numpy())


def _penalties(eigenvalues: Tensor) -> Tensor:
    return torch.tensor(PENALTIES, dtype=torch.float64) * eigenvalues.max().clamp_min(1e-30)


def _by_columns(rows: Tensor, y: Tensor) -> tuple[Tensor, float, Tensor]:
    """Coefficients, penalty and leave-one-out errors from ``X^T X``, (d, d)."""
    n, d = rows.shape
    gram, moment = torch.zeros(d, d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    blocks = list(zip(rows.split(_BLOCK), y.split(_BLOCK), strict=True))
    for block, part in blocks:
        gram.addmm_(block.double().T, block.double())
        moment += block.double().T @ part
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp_min(0)
    penalties, turned = _penalties(values), vectors.T @ moment
    shrunk = 1 / (values[:, None] + penalties)  # (d, penalties)
    total = torch.zeros(len(penalties), dtype=torch.float64)
    for block, part in blocks:
        scores = block.double() @ vectors
        rest = part[:, None] - scores @ (turned[:, None] * shrunk)
        own = 1 - 1 / n - scores.square() @ shrunk
        total += (rest / own.clamp_min(1e-12)).square().sum(dim=0)
    best = int(total.argmin())
    return vectors @ (turned * shrunk[:, best]), float(penalties[best]), total / n


def _by_rows(rows: Tensor, y: Tensor) -> tuple[Tensor, float, Tensor]:
    """The same from ``X X^T``, (n, n), for more features than rows."""
    n = len(rows)
    gram = torch.zeros(n, n, dtype=torch.float64)
    for block in rows.split(_BLOCK, dim=1):
        gram.addmm_(block.double(), block.double().T)
    gram -= gram.mean(dim=0)  # centered again: columns in float32 are not exactly, which 1 - H_ii would show
    gram -= gram.mean(dim=1, keepdim=True)
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp_min(0)
    penalties, turned = _penalties(values), vectors.T @ y
    left = penalties / (values[:, None] + penalties)  # (n, penalties), the part of y that remains
    rest = vectors @ (turned[:, None] * left)
    own = vectors.square() @ left - 1 / n
    total = (rest / own.clamp_min(1e-12)).square().sum(dim=0)
    best = int(total.argmin())
    dual = vectors @ (turned / (values + penalties[best]))
    return (rows.T @ dual.float()).double(), float(penalties[best]), total / n
