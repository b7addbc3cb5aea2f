"""scikit-learn's estimator checks, and use with pipelines, clone and pandas output."""

import random

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from cases import SEED, slow
from refusals import refusal
from registered import made
from viewsmith import Contrastive
from viewsmith.methods.loading import estimators

TINY = {"epochs": 2, "hidden": (8,), "n_components": 4, "projector_dims": (4,), "random_state": 0}


# Options that keep additional networks of a method small.
SMALL = {"pinda": {"generator_hidden": (4,)}, "crl-tac": {"masks": 4}, "diffaug": {"map_hidden": (4,)}}


CHECKED = {
    name: made(cls, **TINY | {"epochs": 1, "hidden": (4,)} | SMALL.get(name, {})) for name, cls in estimators().items()
}


# All of them; one, check_array_api_input, skips itself unless SCIPY_ARRAY_API=1 was set before SciPy was imported (it
# passes then).
@parametrize_with_checks([CHECKED["contrastive"]])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def of_other_methods():
    """Each check with one of the other methods, which share the code that is checked: another one every day."""
    draw = random.Random(SEED)
    others = [model for name, model in CHECKED.items() if name != "contrastive"]
    for checks in zip(*map(estimator_checks_generator, others), strict=True):
        estimator, check = draw.choice(checks)
        yield pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), of_other_methods())
def test_scikit_learns_checks_of_other_methods(estimator, check):
    check(estimator)


def frame(wine):
    return pd.DataFrame(wine.astype(np.float64), columns=[f"wine {i}" for i in range(13)])


every_estimator = pytest.mark.parametrize("cls", estimators().values(), ids=estimators())
# Reading, steps and output are the same for all methods.
contrastive_first = pytest.mark.parametrize(
    "cls", [c if n == "contrastive" else slow(c, id=n) for n, c in estimators().items()]
)


@contrastive_first
def test_clone_has_the_arguments_and_is_not_fitted(cls, wine):
    model = made(cls, **TINY, n_neighbors=3, scaling="global").fit(wine)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "fitted_")
    assert np.array_equal(copy.fit(wine).transform(wine), model.transform(wine))


@every_estimator
def test_arguments_are_stored_untouched(cls):
    widths = [8, 4]
    model = cls(hidden=widths, epochs="3")
    assert model.hidden is widths and model.epochs == "3"
    with pytest.raises(TypeError):
        cls("simclr")  # keyword-only
    assert vars(cls()) == cls().get_params(deep=False)


@contrastive_first
def test_a_pipeline_equals_its_steps(cls, wine):
    model = make_pipeline(StandardScaler(), made(cls, **TINY, scaling="none"))
    h = model.fit_transform(wine)
    scaled = StandardScaler().fit_transform(wine)
    assert np.array_equal(h, made(cls, **TINY, scaling="none").fit_transform(scaled))
    assert model.get_feature_names_out().tolist() == [f"{cls.__name__.lower()}{i}" for i in range(4)]


@contrastive_first
def test_set_output_gives_pandas(cls, wine):
    table = frame(wine).set_index(np.arange(178) + 1000)
    h = made(cls, **TINY).set_output(transform="pandas").fit(table).transform(table)
    assert isinstance(h, pd.DataFrame)
    assert h.columns.tolist() == [f"{cls.__name__.lower()}{i}" for i in range(4)]
    assert h.index.equals(table.index)
    np.testing.assert_array_equal(h.to_numpy(), made(cls, **TINY).fit(wine).transform(wine))


def test_a_column_of_sequences_is_embedded_beside_columns_of_numbers(wine):
    letters = np.random.default_rng(0).choice(list("ACGT"), (len(wine), 30))
    X = frame(wine).assign(sequence=["".join(row) for row in letters])
    for given in ("sequence", ["sequence"]):
        of_letters = Contrastive(**TINY).set_params(n_components="auto")
        both = make_column_transformer((of_letters, given), (Contrastive(**TINY), list(X.columns[:-1])))
        found = both.set_output(transform="pandas").fit_transform(X)
        model = clone(of_letters).fit(list(X["sequence"]))
        np.testing.assert_array_equal(found.to_numpy()[:, :-4], model.transform(X[["sequence"]]))
    assert Contrastive(modality="dna", **TINY).fit(X[["sequence"]]).modality_.name == "dna"


def test_names_of_features_are_stored_and_checked(wine):
    table = frame(wine)
    model = Contrastive(**TINY).fit(table)
    assert model.feature_names_in_.tolist() == table.columns.tolist() and model.n_features_in_ == 13
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(table.rename(columns={"wine 3": "other"}))
    table.iloc[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"1 missing value \(NaN\) in 1 column: wine 2"):
        model.transform(table)


@pytest.mark.parametrize(("given", "expected"), [(32, "a tuple such as (32,)"), ("x", "a tuple")])
def test_widths_that_are_no_tuple_are_named(given, expected):
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert refusal(Contrastive(hidden=given).fit, x).endswith(f"hidden is {given!r}, expected {expected}")
