"""Rows that are off the scale of the fit are a warning; those of other groups and classes are not."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine

from viewsmith import Contrastive
from viewsmith.estimator.plan import FAR, NEAR, reach, some_of, warn_off_scale

OFF = "off the scale of the fit"


def said(call, *given):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call(*given)
    return [str(warning.message) for warning in caught if OFF in str(warning.message)]


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def model(wine):
    return Contrastive(epochs=1, verbose=False).fit(wine[0])


@pytest.mark.parametrize("factor", [1e6, 100, 1e-3, 1e-6])
def test_data_in_other_units_are_a_warning(model, wine, factor):
    (message,) = said(model.transform, wine[0] * factor)
    assert "units and preprocessing" in message and len(message.splitlines()) == 1


def test_data_of_the_fit_a_class_or_a_row_are_none(model, wine):
    X, y = wine
    for rows in (X, *(X[y == label] for label in range(3)), X[:1], X[::50], np.repeat(X[:1], 20, 0)):
        assert not said(model.transform, rows)


def test_one_row_in_other_units_is_a_warning(model, wine):
    assert len(said(model.transform, wine[0][:1] * 1e6)) == 1


def test_classes_held_out_of_digits(wine):
    X, y = load_digits(return_X_y=True)
    for label in range(10):
        fitted = Contrastive(epochs=1, verbose=False, scaling="standard").fit(X[y != label][:300])
        assert not said(fitted.transform, X[y == label])


@pytest.mark.parametrize("scaling", ["standard", "global", "none"])
def test_every_scaling(wine, scaling):
    fitted = Contrastive(epochs=1, verbose=False, scaling=scaling).fit(wine[0])
    assert not said(fitted.transform, wine[0][::2])
    assert len(said(fitted.transform, wine[0] * 1e6)) == 1


def test_nearly_black_images_are_a_warning():
    x = (load_digits().images[:80] * 15).astype(np.uint8)
    fitted = Contrastive(epochs=1, verbose=False).fit(x)
    assert not said(fitted.transform, x[:40])
    assert len(said(fitted.transform, (x > 100).astype(np.uint8))) == 1


def test_reach_is_what_it_says():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])
    found = reach(x)
    assert found["size"] == pytest.approx(5 / 2**0.5) and found["largest"] == pytest.approx(10 / 2**0.5)
    assert found["spread"] == pytest.approx(np.sqrt(np.var(x.numpy(), axis=0).mean()))


def test_the_limits():
    fitted = {"size": 1.0, "largest": 2.0, "spread": 1.0}
    for size, expected in ((0.9 * FAR, 0), (1.1 * FAR, 1)):
        assert len(said(warn_off_scale, torch.full((20, 5), size), fitted)) == expected
    assert not said(warn_off_scale, torch.full((20, 5), 1.1 * FAR), fitted | {"largest": 2 * FAR})
    noise = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for spread, expected in ((1.2 * NEAR, 0), (0.8 * NEAR, 1)):
        assert len(said(warn_off_scale, spread * noise / noise.std(0), fitted)) == expected
    assert not said(warn_off_scale, 1e-9 * noise[:9], fitted)  # too few to say


def test_rows_that_are_looked_at_are_spread():
    assert len(some_of(np.arange(3000))) == 1000 and some_of(np.arange(3000))[-1] == 2999


def test_of_large_rows_fewer_are_looked_at():
    large = np.broadcast_to(np.float32(0), (3000, 512, 512, 4))
    assert len(some_of(large)) == 16
