"""Fixed features of the samples of a fitted model, with which evaluations compare."""

import numpy as np
import pytest
import torch

from viewsmith import Contrastive
from viewsmith.core.registry import find
from viewsmith.networks.features import FeatureContext


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def model(images):
    return Contrastive(epochs=1, batch_size=20, random_state=0).fit(images[:30])


def test_features_are_fitted_to_the_first_samples_alone(model, images):
    assert model.default_features == "patches"
    train, test = model.fixed_features(images[:30], images[30:])
    made = find("features", "patches", "images").build(FeatureContext((12, 10, 3), 3, "patches"))
    assert train.shape == (30, made.n_features) and test.shape == (10, made.n_features)
    assert train.dtype == test.dtype == np.float32 and np.isfinite(train).all() and train.std(axis=0).max() > 0
    again, other = model.fixed_features(images[:30], images[30:33])
    np.testing.assert_array_equal(again, train)
    np.testing.assert_allclose(other, test[:3], rtol=1e-5, atol=1e-5)
    assert not np.allclose(model.fixed_features(images[10:], images[30:])[1], test)


def test_features_leave_the_random_numbers_of_the_user_alone(model, images):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    model.fixed_features(images[:30])
    assert torch.rand(1) == expected
