"""The evaluation protocol for continuous targets: regressions are fitted on train rows and scored on test rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewsmith.core.errors import InputError
from viewsmith.core.messages import warn
from viewsmith.evaluation.linear import standardize
from viewsmith.evaluation.neighbors import Metric, neighbors
from viewsmith.evaluation.ridge import fit_ridge

Rows = NDArray[np.float32]
Numbers = NDArray[np.float64]

_FRACTIONS = {"r2_1pct": 0.01, "r2_10pct": 0.10}
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

    Raises
    ------
    InputError
        Fewer than two train rows, or all of them have one number.
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
    for name, fraction in _FRACTIONS.items():
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
