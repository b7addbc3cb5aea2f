"""The evaluation protocol for numbers as targets: regressions are fitted on train rows and scored on test rows.

The linear probe is a ridge regression whose penalty is chosen by leave-one-out errors. Those of all penalties follow
from one eigendecomposition: with the hat matrix H of the fit, the error of row i without itself is
``(y_i - f_i) / (1 - H_ii)`` (Allen 1974: PRESS). With more features than rows, the decomposition is that of ``X X^T``
in place of ``X^T X``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from viewsmith.core.errors import InputError, warn
from viewsmith.evaluation.linear import standardize
from viewsmith.evaluation.neighbors import Metric, neighbors

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


Rows = NDArray[np.float32]

Numbers = NDArray[np.float64]

FRACTIONS = {"r2_1pct": 0.01, "r2_10pct": 0.10}

#: Scores of which a lower value is better.
LOWER_IS_BETTER = frozenset({"mae"})


def protocols_of(k: int, draws: Sequence[int]) -> dict[str, str]:
    """Name and one-line description of each score for `k` neighbors and the seeds of draws."""
    ridge = "ridge regression, columns standardized on the train rows, penalty by leave-one-out errors"
    few = "as r2, fitted on {} of the labels: max(2, round({} of the rows)), mean over draws " + ", ".join(
        map(str, draws)
    )
    return {
        "r2": f"R^2 of {ridge}: 1 is perfect, 0 the mean of the test rows",
        "mae": "mean absolute error of the same ridge regression, in units of the target; lower is better",
        "knn_r2": f"R^2 of the mean of the {k} nearest train rows by cosine (map: Euclidean)",
        "r2_1pct": few.format("1 %", "1 %"),
        "r2_10pct": few.format("10 %", "10 %"),
    }


def number_scores(
    train: Rows,
    y: Numbers,
    test: Rows,
    y_test: Numbers,
    selected: Sequence[str],
    *,
    k: int,
    draws: Sequence[int],
    metric: Metric = "cosine",
    groups: ArrayLike | None = None,
) -> dict[str, float]:
    """Scores of one embedding, rows (n, d) and (m, d), by the names in `selected`.

    R^2 is NaN, with a warning, if all test rows have one number.
    """
    if len(y) < 2 or (y == y[0]).all():
        raise InputError(
            f"all {len(y)} train rows have the target {y[0]:g}, so there is nothing to predict: expected numbers that "
            "differ"
        )
    if (y_test == y_test[0]).all():
        warn(f"all {len(y_test)} test rows have the target {y_test[0]:g}: R^2 is nan")
    scores: dict[str, float] = {}
    if set(selected) - {"knn_r2"}:
        rows, test_rows = standardize(train, test)
    if {"r2", "mae"} & set(selected):
        predicted = fit_ridge(rows, y).predict(test_rows)
        scores |= {"r2": r_squared(y_test, predicted), "mae": float(np.abs(y_test - predicted).mean())}
    for name, fraction in FRACTIONS.items():
        if name in selected:
            chosen = (few_number_rows(len(y), fraction, draw, groups) for draw in draws)
            fitted = [fit_ridge(rows[part], y[part]).predict(test_rows) for part in chosen]
            scores[name] = float(np.mean([r_squared(y_test, each) for each in fitted]))
    if "knn_r2" in selected:
        scores["knn_r2"] = r_squared(y_test, y[neighbors(train, test, k, metric)].mean(axis=1))
    return {name: scores[name] for name in selected}


def r_squared(y: Numbers, predicted: Numbers) -> float:
    """``1 - sum (y - f)^2 / sum (y - mean y)^2``, at most 1; NaN if all of `y` are equal."""
    total = np.square(y - y.mean()).sum()
    return float(1 - np.square(y - predicted).sum() / total) if (y != y[0]).any() else float("nan")


def few_number_rows(n: int, fraction: float, draw: int, groups: ArrayLike | None = None) -> NDArray[np.int64]:
    """Rows of a fraction of n labels, ``max(2, round(fraction * n))`` random ones, increasing.

    With groups, (n,), they are taken from the groups in turn, so that every group has as many.
    """
    members = np.random.default_rng(draw).permutation(n)
    if groups is not None:
        members = in_turn(members, np.asarray(groups)[members])
    return np.sort(members[: max(2, round(fraction * n))])


def in_turn(members: NDArray[np.int64], groups: np.ndarray) -> NDArray[np.int64]:
    """Rows in an order in which the groups take turns; rows of a group keep their order."""
    turn = np.zeros(len(members), dtype=np.int64)
    for group in np.unique(groups):
        here = groups == group
        turn[here] = np.arange(here.sum())
    return members[np.argsort(turn, kind="stable")]
