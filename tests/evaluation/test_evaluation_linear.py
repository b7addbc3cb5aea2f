"""Linear classifiers and ridge regression against scikit-learn's, solved to the optimum."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.evaluation import linear
from viewsmith.evaluation.linear import PENALTIES, LinearModel, fit_linear, fit_ridge, standardize


def objective(model: LinearModel, x: np.ndarray, y: np.ndarray, loss: str, C: float) -> float:
    """The objective by its definition."""
    x, classes = x.astype(np.float64), np.arange(max(2, len(model.coef)))
    scores = x @ model.coef.T + model.intercept
    penalty = 0.5 * np.square(model.coef).sum()
    if loss == "squared_hinge":
        sign = np.where(y[:, None] == (classes if len(classes) > 2 else [1]), 1, -1)
        return C * np.square(np.maximum(0, 1 - sign * scores)).sum() + penalty + 0.5 * np.square(model.intercept).sum()
    if len(model.coef) == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    return C * (np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), y]).sum() + penalty


def sklearn_optimum(x: np.ndarray, y: np.ndarray, loss: str, C: float, dual: bool = False) -> LinearModel:
    if loss == "logistic":
        peer = LogisticRegression(C=C, tol=1e-9, max_iter=20000)
    else:
        peer = LinearSVC(C=C, dual=dual, tol=1e-7, max_iter=20000, random_state=0)
    peer.fit(x.astype(np.float64), y)
    return LinearModel(peer.coef_, peer.intercept_)


def wide() -> tuple[np.ndarray, np.ndarray]:
    """Four noisy classes with 400 features; 240 rows are for training."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1200)
    return rng.normal(size=(4, 400))[y] * 0.4 + rng.normal(size=(1200, 400)), y


SETS = {
    "digits": lambda: load_digits(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "wide": wide,
    "wide, two classes": lambda: (wide()[0], (wide()[1] > 1).astype(int)),
}


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("name", SETS)
def test_solver_reaches_the_optimum_of_scikit_learn(name, loss):
    x, y = SETS[name]()
    fraction = 0.8 if name.startswith("wide") else 0.3
    x, x_test, y, _ = train_test_split(x.astype(np.float32), y, test_size=fraction, random_state=0, stratify=y)
    x, x_test = standardize(x, x_test)
    ours = fit_linear(x, y, len(np.unique(y)), loss=loss)
    theirs = sklearn_optimum(x, y, loss, 1.0, dual=x.shape[1] > len(x))  # a hundred times faster on wide rows

    assert ours.coef.shape == theirs.coef.shape
    assert ours.intercept.shape == theirs.intercept.shape
    best = objective(theirs, x, y, loss, 1.0)
    assert objective(ours, x, y, loss, 1.0) == pytest.approx(best, rel=1e-3)
    assert np.mean(ours.predict(x_test) == theirs.predict(x_test)) >= 0.995


@pytest.mark.parametrize("name", ["digits", "wide", "wide, two classes"])
def test_both_solvers_of_the_svm_agree(name, monkeypatch):
    x, y = SETS[name]()
    x, x_test, y, _ = train_test_split(x.astype(np.float32), y, test_size=0.5, random_state=0, stratify=y)
    x, x_test = standardize(x, x_test)
    newton = fit_linear(x, y, len(np.unique(y)), loss="squared_hinge")
    monkeypatch.setattr(linear, "_SOLVED", 0)
    gradients = fit_linear(x, y, len(np.unique(y)), loss="squared_hinge")
    assert not np.array_equal(newton.coef, gradients.coef)
    assert objective(newton, x, y, "squared_hinge", 1.0) <= objective(gradients, x, y, "squared_hinge", 1.0) * (
        1 + 1e-6
    )
    assert np.mean(newton.predict(x_test) == gradients.predict(x_test)) >= 0.995


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("C", [0.01, 10.0])
@pytest.mark.parametrize("n_features", [13, 500])
def test_uncentered_rows_and_other_strengths(loss, C, n_features):
    # Not standardized, so that a free and a regularized intercept differ; wide rows go through their span.
    x, y = load_wine(return_X_y=True)
    x = x / x.std(axis=0)
    if n_features > x.shape[1]:
        x = x @ np.random.default_rng(0).normal(size=(x.shape[1], n_features)) / 10
    x = x.astype(np.float32)
    # The default tol is for standardized columns; here it can stop 1e-3 above the optimum, where rounding decides.
    ours = objective(fit_linear(x, y, 3, loss=loss, C=C, tol=1e-7), x, y, loss, C)
    assert ours == pytest.approx(objective(sklearn_optimum(x, y, loss, C), x, y, loss, C), rel=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_repeated_rows_and_columns(loss):
    # The rows span fewer dimensions than there are rows or columns.
    x, y = load_wine(return_X_y=True)
    x = standardize(x[::6], x[::6])[0]
    y = y[::6]
    model = fit_linear(np.tile(x, (2, 5)), np.tile(y, 2), 3, loss=loss)
    # Five copies of a column share its weight, which costs a fifth of the penalty; two copies of a row count twice.
    single = fit_linear(x * np.sqrt(5, dtype=np.float32), y, 3, loss=loss, C=2.0)
    np.testing.assert_allclose(model.coef[:, :13], single.coef / np.sqrt(5), atol=5e-3)
    np.testing.assert_allclose(model.coef[:, :13], model.coef[:, -13:], atol=1e-5)


def test_nearly_equal_columns_whose_hessian_is_singular_in_float32():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 1))
    y = (z[:, 0] + 0.3 * rng.normal(size=2000) > 0).astype(int)
    x = (z @ rng.normal(size=(1, 700)) + 1e-4 * rng.normal(size=(2000, 700))).astype(np.float32)
    x = standardize(x, x)[0]
    model = fit_linear(x, y, 2, loss="squared_hinge", C=1000.0)
    assert np.mean(model.predict(x) == y) > 0.85


def test_standardize_agrees_with_scikit_learn(digits, wine):
    for x in (digits, wine, wine * 1e-4 + 1000):
        train, test = x[::2], x[1::2]
        scaler = StandardScaler().fit(train.astype(np.float64))
        ours = standardize(train, test)
        assert [part.dtype for part in ours] == [np.float32, np.float32]
        np.testing.assert_allclose(ours[0], scaler.transform(train.astype(np.float64)), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours[1], scaler.transform(test.astype(np.float64)), rtol=1e-4, atol=1e-4)


def test_standardize_leaves_the_scale_of_constant_columns():
    train = np.full((7, 1), 0.1, dtype=np.float32)
    test = np.array([[0.1], [2.1]], dtype=np.float32)
    np.testing.assert_allclose(standardize(train, test)[0], 0, atol=1e-7)
    np.testing.assert_allclose(standardize(train, test)[1], [[0], [2]], atol=1e-6)


def test_reaching_max_iter_gives_a_warning(wine):
    y = load_wine().target
    with pytest.warns(UserWarning, match=r"stopped after 2 steps .* raise max_iter"):
        fit_linear(standardize(wine, wine)[0], y, 3, loss="logistic", max_iter=2)
    with warnings.catch_warnings(action="error"):
        fit_linear(standardize(wine, wine)[0], y, 3, loss="logistic")


def test_input_is_not_changed(wine):
    before = wine.copy()
    wine.flags.writeable = False
    try:
        fit_linear(wine, load_wine().target, 3, loss="squared_hinge")
    finally:
        wine.flags.writeable = True
    assert np.array_equal(before, wine)


@pytest.mark.parametrize(
    ("codes", "n_classes", "message"),
    [
        ([0, 0, 0], 1, "1 class, expected at least 2"),
        ([0, 0, 2], 3, "every value from 0 to 2"),
        ([0, 1, 2], 2, "every value from 0 to 1"),
        ([0, -1, 1], 3, "every value from 0 to 2"),
    ],
)
def test_codes_are_checked(codes, n_classes, message):
    with pytest.raises(InputError, match=message):
        fit_linear(np.eye(3), codes, n_classes, loss="logistic")


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
    assert "expected 2 rows or more" in refusal(fit_ridge, x, y)
