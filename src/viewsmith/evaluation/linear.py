"""Linear probes: L2-regularized classifiers with a fast solver for wide data, PiNDA's softmax layer, and ridge.

The objectives are those of scikit-learn's `LogisticRegression` and `LinearSVC`, whose stopping rules are much looser on
wide data. The solver is L-BFGS-B on full-batch gradients, after two exact changes of variables:

- With more features than rows the solution is in the span of the rows (representer theorem), so a QR decomposition
  reduces the unknowns to the number of rows.
- The unknowns are ``u = L^T w`` with ``L L^T = penalty + curvature X^T X``, an approximation of the Hessian. It makes
  the solver fast for correlated features. Half the squared gradient in `u` estimates the distance of the objective from
  its minimum, which gives a stopping rule that does not depend on the scale.

The penalty of the ridge regression is chosen by leave-one-out errors. Those of all penalties follow from one
eigendecomposition: with the hat matrix H of the fit, the error of row i without itself is ``(y_i - f_i) / (1 - H_ii)``
(Allen 1974: PRESS). With more features than rows, the decomposition is that of ``X X^T`` in place of ``X^T X``.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn

from viewsmith.core.errors import InputError, warn


def train_softmax(
    x: Tensor,
    y: Tensor,
    n_classes: int,
    *,
    epochs: int = 50,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> nn.Linear:
    """A linear layer by softmax cross-entropy (epochs, batch size, rate: PiNDA, appendix B.3) and Adam, our choice."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(x.shape[1], n_classes)
    bound = x.shape[1] ** -0.5
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    optimizer = torch.optim.Adam(layer.parameters(), learning_rate)
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=generator).split(batch_size):
            optimizer.zero_grad()
            F.cross_entropy(layer(x[index]), y[index]).backward()
            optimizer.step()
    return layer.requires_grad_(False)


Loss = Literal["logistic", "squared_hinge"]

# Typical second derivative of each loss with respect to the score. Any positive value gives the same solution; these
# values needed the fewest evaluations on single-cell, text, sensor and pixel data (grids 0.005-0.2 and 0.03-1).
_CURVATURE: dict[Loss, float] = {"logistic": 0.02, "squared_hinge": 0.2}

_GRAM_ROWS = 4096  # rows or columns of a Gram matrix that are in float64 at once


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of the process, whose search takes as long as a probe of few rows."""
    return ThreadpoolController()


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear classifier; for two classes with a single row, which is positive for class 1."""

    coef: NDArray[np.float64]  # (m, d)
    intercept: NDArray[np.float64]  # (m,)

    def predict(self, x: ArrayLike) -> NDArray[np.int64]:
        """Predicted class codes, (n,), of rows (n, d)."""
        scores = np.asarray(x) @ self.coef.T.astype(np.float32) + self.intercept
        if len(self.coef) == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        return scores.argmax(axis=1)


def standardize(train: ArrayLike, test: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Center and scale the columns of two arrays by the mean and standard deviation of `train`."""
    train, test = np.asarray(train), np.asarray(test)
    mean = train.mean(axis=0, dtype=np.float64)

    def centered(x: NDArray[Any]) -> NDArray[np.float32]:
        # Subtracted in float64 without a float64 copy of wide data.
        return np.subtract(x, mean, out=np.empty(x.shape, np.float32), casting="same_kind")

    rows, test_rows = centered(train), centered(test)
    scale = np.sqrt(np.square(rows).mean(axis=0, dtype=np.float64)).astype(np.float32)
    # Constant columns are found by their values: their standard deviation is often not exactly zero.
    scale[train.max(axis=0) == train.min(axis=0)] = 1
    rows /= scale
    test_rows /= scale
    return rows, test_rows


def fit_linear(
    x: ArrayLike,
    y_codes: ArrayLike,
    n_classes: int,
    *,
    loss: Loss,
    C: float = 1.0,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> LinearModel:
    """Fit a linear classifier with ``C * (sum of losses) + 0.5 ||W||^2``."""
    # Copied, because torch warns if it shares the memory of a read-only array.
    rows = torch.from_numpy(np.array(x, dtype=np.float32, order="C"))
    codes = torch.from_numpy(np.array(y_codes, dtype=np.int64))
    if n_classes < 2:
        raise InputError(f"a linear classifier was given {n_classes} class, expected at least 2")
    if len(torch.unique(codes)) != n_classes or codes.min() < 0 or codes.max() >= n_classes:
        raise InputError(f"class codes must take every value from 0 to {n_classes - 1}; give codes without gaps")

    free_intercept = loss == "logistic"
    shift = rows.mean(dim=0) if free_intercept else torch.zeros(rows.shape[1])
    rows -= shift
    basis: Tensor | None = None
    if rows.shape[1] > len(rows):
        basis, triangle = torch.linalg.qr(rows.T)
        rows = triangle.T
    rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
    penalty = torch.ones(rows.shape[1])
    penalty[-1] = 0.0 if free_intercept else 1.0

    weights = _minimize(rows, _targets(codes, n_classes, loss), penalty, loss, C, tol, max_iter)
    coef, intercept = weights[:, :-1], weights[:, -1]
    if basis is not None:
        coef = coef @ basis.T
    coef, intercept = coef.double(), intercept.double()
    return LinearModel(coef.numpy(), (intercept - coef @ shift.double()).numpy())


def _targets(codes: Tensor, n_classes: int, loss: Loss) -> Tensor:
    """Class-major targets (m, n), float64: 0 and 1 for the logistic loss, -1 and 1 for the hinge."""
    classes = torch.arange(1 if n_classes == 2 else 0, n_classes)
    targets = (codes == classes[:, None]).double()
    return targets if loss == "logistic" else 2 * targets - 1


def _loss_and_slope(scores: Tensor, targets: Tensor, loss: Loss) -> tuple[float, Tensor]:
    """Sum of the losses and its derivative with respect to the scores, (m, n)."""
    if loss == "squared_hinge":
        shortfall = (1 - targets * scores).clamp_(min=0)
        return shortfall.square().sum().item(), -2 * targets * shortfall
    if len(scores) == 1:
        value = torch.nn.functional.softplus(scores) - targets * scores
        return value.sum().item(), torch.sigmoid(scores) - targets
    log_p = torch.log_softmax(scores, dim=0)
    return -(log_p * targets).sum().item(), log_p.exp() - targets


def _minimize(
    rows: Tensor, targets: Tensor, penalty: Tensor, loss: Loss, C: float, tol: float, max_iter: int
) -> Tensor:
    """Optimal weights, (m, r), for `rows`, (n, r), where column j has the penalty ``penalty[j] / 2``.

    Weights and targets are class-major, because for few classes (m, r) @ (r, n) and (m, n) @ (n, r) are several times
    faster than their transposes. Products are computed in float32 and losses in float64, because in float32 the line
    search would stop early on nearly separable data.
    """
    hessian = torch.diag(penalty.double())
    for block in map(Tensor.double, rows.split(_GRAM_ROWS)):
        hessian.addmm_(block.T, block, alpha=C * _CURVATURE[loss])
    factor = torch.linalg.cholesky(hessian).float()
    size = (len(targets), rows.shape[1])
    gap = np.inf

    def to_weights(u: NDArray[np.float64]) -> Tensor:
        unknowns = torch.from_numpy(u.reshape(size)).float()
        return torch.linalg.solve_triangular(factor, unknowns, upper=False, left=False)

    def objective(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal gap
        weights = to_weights(u)
        value, slope = _loss_and_slope((weights @ rows.T).double(), targets, loss)
        total = C * value + 0.5 * (penalty * weights.double().square()).sum().item()
        gradient = C * (slope.float() @ rows) + penalty * weights
        gradient = torch.linalg.solve_triangular(factor.T, gradient, upper=True, left=False).double()
        gap = 0.5 * gradient.square().sum().item() / total
        return total, gradient.numpy().ravel()

    def stop_when_close(intermediate_result: Any) -> None:
        if gap <= tol:
            raise StopIteration

    start = np.zeros(size[0] * size[1])
    options = {"maxiter": max_iter, "maxfun": 3 * max_iter, "maxcor": 30, "gtol": 0.0, "ftol": 0.0}
    # scipy's vector operations are not faster with several threads, and idle threads would slow down torch.
    with _libraries().limit(limits=1, user_api="blas"):
        result = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop_when_close, options=options)
    if gap > 10 * tol:
        warn(
            f"the linear probe stopped after {result.nit} steps at an estimated relative distance of {gap:.1e} "
            f"from its optimum (tolerance {tol:.0e}); standardize the columns or raise max_iter"
        )
    return to_weights(result.x)


#: Penalties that are tried, as multiples of the largest eigenvalue of ``X^T X``: from none that matters to the mean.
PENALTIES = tuple(10.0 ** (power / 2) for power in range(4, -15, -1))


@dataclass(frozen=True)
class RidgeModel:
    """A fitted ridge regression, which minimizes ``sum (y - f)^2 + penalty |coef|^2``."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float
    penalty: float
    errors: NDArray[np.float64]  # mean squared leave-one-out error of each of `PENALTIES`

    def predict(self, x: ArrayLike) -> NDArray[np.float64]:
        """Predicted numbers, (n,), of rows (n, d)."""
        return (np.asarray(x) @ self.coef.astype(np.float32)).astype(np.float64) + self.intercept


def fit_ridge(x: ArrayLike, y: ArrayLike) -> RidgeModel:
    """Fit a ridge regression with a free intercept."""
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
    blocks = list(zip(rows.split(_GRAM_ROWS), y.split(_GRAM_ROWS), strict=True))
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
    for block in rows.split(_GRAM_ROWS, dim=1):
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
