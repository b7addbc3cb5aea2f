"""Continuous targets in the evaluation protocol."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.neighbors import KNeighborsRegressor

from refusals import refusal
from viewsmith.evaluation import evaluate_embedding
from viewsmith.evaluation.linear import fit_ridge, standardize
from viewsmith.evaluation.protocol import NUMBER_PROTOCOLS, PROTOCOLS, few_number_rows


@pytest.fixture(scope="module")
def split(data_dir):
    """Concentration of a gas from 128 sensor values: 39 whole numbers, so the kind has to be said."""
    with np.load(data_dir / "gas_drift.npz") as data:
        parts = [data[name][:n] for name, n in (("X_train", 400), ("conc_train", 400), ("X_test", 150))]
        return (*parts, data["conc_test"][:150])


def test_scores_are_those_of_scikit_learn(split):
    train, y, test, y_test = split
    found = evaluate_embedding(*split, target="number")
    assert list(found) == list(NUMBER_PROTOCOLS) and not NUMBER_PROTOCOLS.keys() & PROTOCOLS.keys()
    rows, test_rows = standardize(train, test)
    predicted = fit_ridge(rows, y).predict(test_rows)
    assert found["r2"] == pytest.approx(r2_score(y_test, predicted)) and found["r2"] > 0.3
    assert found["mae"] == pytest.approx(mean_absolute_error(y_test, predicted))
    knn = KNeighborsRegressor(5, metric="cosine", algorithm="brute").fit(train.astype(np.float64), y)
    assert found["knn_r2"] == pytest.approx(r2_score(y_test, knn.predict(test.astype(np.float64))), abs=0.02)
    few = [few_number_rows(len(y), 0.1, draw) for draw in (0, 1, 2)]
    slow = [
        r2_score(y_test, fit_ridge(*(each[i] for each in (standardize(train, test)[0], y))).predict(test_rows))
        for i in few
    ]
    assert found["r2_10pct"] == pytest.approx(np.mean(slow)) and len(few[0]) == 40


def test_whole_numbers_are_classes_unless_it_is_said(split):
    assert list(evaluate_embedding(*split, protocols=["knn"])) == ["knn"]
    train, y, test, y_test = split
    assert list(evaluate_embedding(train, y + 0.5, test, y_test + 0.5, protocols=["knn_r2"])) == ["knn_r2"]


@pytest.mark.parametrize(("protocols", "target"), [(["linear"], "number"), (["r2"], "class")])
def test_protocols_of_the_other_kind(split, protocols, target):
    assert "is not for labels that are" in refusal(evaluate_embedding, *split, protocols=protocols, target=target)


def test_equal_test_targets_have_no_r2(split):
    train, y, test, _ = split
    with pytest.warns(UserWarning, match="all 150 test rows have the target 3"):
        found = evaluate_embedding(train, y, test, np.full(150, 3.0), target="number", protocols=["r2", "mae"])
    assert np.isnan(found["r2"]) and np.isfinite(found["mae"])


def test_few_rows_are_spread_over_groups():
    groups = np.repeat([0, 1], [90, 10])
    rows = few_number_rows(100, 0.1, 0, groups)
    assert np.bincount(groups[rows]).tolist() == [5, 5] and len(few_number_rows(100, 0.01, 0)) == 2
