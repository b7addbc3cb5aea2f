"""Linear probes: L2-regularized classifiers with fast solvers, PiNDA's softmax layer, and ridge.

The objectives are those of scikit-learn's `LogisticRegression` and `LinearSVC`, whose stopping rules are much looser on
wide data. With more features than rows the solution is in the span of the rows (representer theorem), so a QR
decomposition reduces the unknowns to the number of rows. Two solvers:

- L-BFGS-B on full-batch gradients with the unknowns ``u = w L``, where ``L L^T = penalty + X^T diag(c) X`` is nearly
  the Hessian: at the start with one typical curvature c of the loss, later with that of each row and class. Half the
  squared gradient in `u` estimates the distance from the minimum: a stopping rule that does not depend on the scale.
- Of the squared hinge, whose Hessian changes only with the set of rows within the margin, Newton's method for each
  class: with the Hessian of the columns (Keerthi and DeCoste 2005) or, if there are more of them than rows, with the
  Gram matrix of the rows within the margin, of more and more rows (Chapelle 2007).

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
_SOLVED = 1024  # columns, or a quarter of the rows, up to which Newton's method pays
_LARGE, _CACHED = 1 << 24, 1 << 20  # entries of rows from which on these are read in blocks, and of a block
_FACTORS = 1 << 22  # entries of the factors of all classes, up to which they are in a cache


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

    free_intercept, (n, d) = loss == "logistic", rows.shape
    newton = loss == "squared_hinge" and (d <= _SOLVED or n <= min(d, 4 * _SOLVED))
    shift = rows.mean(dim=0) if free_intercept else torch.zeros(rows.shape[1])
    rows -= shift
    basis: Tensor | None = None
    if d > n and not newton:
        basis, triangle = torch.linalg.qr(rows.T)
        rows = triangle.T
    rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
    penalty = torch.ones(rows.shape[1])
    penalty[-1] = 0.0 if free_intercept else 1.0

    targets = _targets(codes, n_classes, loss)
    if newton:
        wide = rows.double() if d >= n else None
        gram = (rows.T @ rows) * (2 * C) + torch.eye(d + 1) if wide is None else wide @ wide.T
        weights = torch.stack([_newton(rows, target, gram, C, tol) for target in targets])
    else:
        weights = _minimize(rows, targets, penalty, loss, C, tol, max_iter)
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


def _factor(matrix: Tensor) -> Tensor:
    """The Cholesky factor of a Hessian or Gram matrix with as much on its diagonal as rounding takes from it."""
    more = torch.finfo(matrix.dtype).eps * matrix.norm()
    while (found := torch.linalg.cholesky_ex(matrix + torch.diag(more.expand(len(matrix)))))[1] and more.isfinite():
        more = 10 * more
    return found[0]


def _minimize(
    rows: Tensor, targets: Tensor, penalty: Tensor, loss: Loss, C: float, tol: float, max_iter: int
) -> Tensor:
    """Optimal weights, (m, r), for `rows`, (n, r), where column j has the penalty ``penalty[j] / 2``.

    Weights and targets are class-major, because for few classes (m, r) @ (r, n) and (m, n) @ (n, r) are several times
    faster than their transposes. Products are computed in float32 and losses in float64, because in float32 the line
    search would stop early on nearly separable data.
    """
    size = (len(targets), rows.shape[1])
    weights, gap, curvature = torch.zeros(size), np.inf, torch.full((1, len(rows)), _CURVATURE[loss])
    # Of many rows a block stays in the cache, so that each is read once for scores and gradient.
    block = max(64, _CACHED // size[1]) if rows.numel() > _LARGE else len(rows)
    blocks = list(zip(rows.split(block), targets.split(block, dim=1), strict=True))
    options = {"maxfun": 3 * max_iter, "maxcor": 10, "gtol": 0.0, "ftol": 0.0}

    def objective(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal weights, gap
        weights = (torch.from_numpy(u).float().view(len(inverse), -1, size[1]) @ inverse).view(size)
        value, gradient = 0.0, penalty * weights
        for part, wanted in blocks:
            own, slope = _loss_and_slope((weights @ part.T).double(), wanted, loss)
            value, gradient = value + own, gradient + C * (slope.float() @ part)
        total = C * value + 0.5 * (penalty * weights.double().square()).sum().item()
        gradient = (gradient.view(len(inverse), -1, size[1]) @ inverse.mT).double()
        gap = 0.5 * gradient.square().sum().item() / total
        return total, gradient.numpy().ravel()

    def stop_when_close(intermediate_result: Any) -> None:
        if gap <= tol:
            raise StopIteration

    again = loss == "logistic" and size[1] > 128 and size[0] * size[1] ** 2 <= _FACTORS
    for steps in (20, max_iter) if again else (max_iter,):
        hessians = torch.diag(penalty).repeat(len(curvature), 1, 1)
        for hessian, each in zip(hessians, curvature, strict=True):
            for part, c in zip(rows.split(_GRAM_ROWS), each.split(_GRAM_ROWS), strict=True):
                some = c > 1e-3 * each.max()  # without the rows that have nearly none
                hessian.addmm_((part[some] * c[some, None]).T, part[some], alpha=C)
        factor = torch.stack([_factor(hessian) for hessian in hessians])
        inverse = torch.linalg.solve_triangular(factor, torch.eye(size[1]), upper=False)
        start = (weights.view(len(factor), -1, size[1]) @ factor).double().numpy().ravel()
        options["maxiter"] = min(steps, max_iter)
        # scipy's vector operations are not faster with several threads, and idle threads would slow down torch.
        with _libraries().limit(limits=1, user_api="blas"):
            found = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop_when_close, options=options)
        objective(found.x)
        if gap <= tol:
            break
        p = weights @ rows.T
        p = p.sigmoid() if len(p) == 1 else p.softmax(dim=0)
        curvature = p * (1 - p)
    _warn_if_far(gap, tol, found.nit)
    return weights


def _warn_if_far(gap: float, tol: float, steps: int) -> None:
    if gap > 100 * tol:
        warn(
            f"the linear probe stopped after {steps} steps at an estimated relative distance of {gap:.1e} "
            f"from its optimum (tolerance {tol:.0e}); standardize the columns or raise max_iter"
        )


def _newton(rows: Tensor, target: Tensor, gram: Tensor, C: float, tol: float) -> Tensor:
    """Optimal weights of the squared hinge of a class, (d,), with a penalty of 1/2 of each column.

    `gram` is the Hessian with all rows within the margin, (d, d). With more columns than rows, it is the Gram matrix of
    the rows, (n, n), in float64, because it has the square of their condition; the unknowns are coefficients of the
    rows in the weights, and rows within the margin are first found for fewer rows.
    """
    n, wide = len(rows), gram.dtype == torch.float64
    target, order = target.to(gram.dtype), torch.randperm(n, generator=torch.Generator().manual_seed(0))

    def objective(drawn: Tensor, unknown: Tensor, scores: Tensor) -> float:
        loss = ((1 - target * scores).clamp_(min=0) * drawn).double().square().sum()
        return float(C * loss + 0.5 * (unknown @ (scores if wide else unknown)))

    unknown, scores, gap, steps = gram.new_zeros(len(gram)), gram.new_zeros(n), 0.0, 0
    for size in [n >> power for power in range(4, 0, -1) if wide and n >> power > 50] + [n]:
        drawn = torch.zeros(n, dtype=torch.bool).index_fill_(0, order[:size], True)
        value, before, hessian = objective(drawn, unknown, scores), torch.ones_like(drawn), gram.clone()
        for steps in range(100):  # noqa: B007
            within = (target * scores < 1) & drawn
            if wide:
                own, step = within.nonzero()[:, 0], unknown.clone()
                inner = gram[own][:, own]
                inner.diagonal().add_(1 / (2 * C))
                step[own] -= torch.cholesky_solve(target[own, None], _factor(inner))[:, 0]
                change = gram @ step
            else:
                for sign, part in ((1, rows[within & ~before]), (-1, rows[before & ~within])):
                    hessian.addmm_(part.T, part, alpha=sign * 2 * C)
                gradient = unknown + 2 * C * (((scores - target) * within) @ rows)
                step = torch.cholesky_solve(gradient[:, None], _factor(hessian))[:, 0]
                change = rows @ step
            decrease = 0.5 * step @ (change if wide else step) + C * change[within].square().sum()
            before, gap = within, float(decrease) / value
            if gap <= (tol if size == n else 1e-3):
                break
            for length in (0.5**halved for halved in range(10)):
                reached = objective(drawn, unknown - length * step, scores - length * change)
                if reached < value:
                    unknown, scores, value = unknown - length * step, scores - length * change, reached
                    break
            else:  # as close as rounding allows
                break
    _warn_if_far(gap, tol, steps)
    return unknown.float() @ rows if wide else unknown


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
