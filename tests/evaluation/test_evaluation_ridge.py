"""Ridge regression: the chosen penalty and its leave-one-out errors against slow fits, and scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from viewsmith.core.errors import InputError
from viewsmith.evaluation.linear import PENALTIES, fit_ridge


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32) * rng.uniform(0.2, 3, d).astype(np.float32) + 1
    return x, x[:, 0] - 0.5 * x[:, -1] + rng.normal(size=n) + 7


def left_out_errors(x, y, penalty):
    found = []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        model = Ridge(penalty, solver="svd").fit(x[others].astype(np.float64), y[others])
        found.append(y[i] - model.predict(x[i : i + 1].astype(np.float64))[0])
    return np.mean(np.square(found))


@pytest.mark.parametrize(("n", "d"), [(40, 6), (12, 30), (5000, 3)], ids=["long", "wide", "blocks"])
def test_coefficients_are_those_of_scikit_learn(n, d):
    x, y = rows(n, d)
    ours = fit_ridge(x, y)
    theirs = Ridge(ours.penalty, solver="svd").fit(x.astype(np.float64), y)
    assert ours.coef == pytest.approx(theirs.coef_, abs=1e-5)
    assert ours.predict(x[:5]) == pytest.approx(theirs.predict(x[:5].astype(np.float64)), abs=1e-4)


@pytest.mark.parametrize(("n", "d"), [(25, 6), (12, 30)], ids=["long", "wide"])
def test_leave_one_out_errors_are_those_of_n_fits(n, d):
    x, y = rows(n, d)
    centered = (x - x.mean(axis=0)).astype(np.float64)
    largest = np.linalg.eigvalsh(centered.T @ centered).max()
    ours, slow = fit_ridge(x, y), [left_out_errors(x, y, factor * largest) for factor in PENALTIES]
    assert ours.errors == pytest.approx(slow, rel=1e-3)
    assert ours.penalty == pytest.approx(PENALTIES[int(np.argmin(slow))] * largest, rel=1e-5)


def test_noise_is_shrunk_to_the_mean_and_columns_may_be_constant():
    rng = np.random.default_rng(0)
    y = rng.normal(size=60) + 3
    model = fit_ridge(rng.normal(size=(60, 50)), y)
    assert model.predict(rng.normal(size=(9, 50))) == pytest.approx(np.full(9, y.mean()), abs=0.5)
    assert fit_ridge(np.ones((60, 4)), y).predict(np.ones((2, 4))) == pytest.approx(np.full(2, y.mean()))


@pytest.mark.parametrize(("x", "y"), [(np.ones((1, 2)), [1.0]), (np.ones((3, 2)), [1.0, 2.0])])
def test_too_few_rows_or_numbers(x, y):
    with pytest.raises(InputError, match="expected 2 rows or more"):
        fit_ridge(x, y)
