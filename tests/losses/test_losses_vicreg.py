"""VICReg loss against loops over samples and features, contributions from raw moments."""

import pytest
from loss_cases import TOLERANCE, assert_finite_for_constant_features, assert_mean_and_gradient, correlated_views

from viewsmith.losses.vicreg import vicreg

SETTINGS = [(25.0, 25.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]


def slow_vicreg(z0, z1, invariance, variance, covariance):
    """The loss of the batch, scaled as in the authors' program."""
    n, d = z0.shape
    attraction = sum((z0[i, j] - z1[i, j]) ** 2 for i in range(n) for j in range(d)) / (n * d)
    hinge, repeated = 0, 0
    for z in (z0, z1):
        means = [sum(z[i, j] for i in range(n)) / n for j in range(d)]
        for j in range(d):
            for k in range(d):
                c = sum((z[i, j] - means[j]) * (z[i, k] - means[k]) for i in range(n)) / (n - 1)
                if j != k:
                    repeated = repeated + c**2 / d
                elif c < 1 - 1e-4:
                    hinge = hinge + (1 - (c + 1e-4) ** 0.5) / d / 2
    return invariance * attraction + variance * hinge + covariance * repeated


def fast(z, weights):
    invariance, variance, covariance = weights
    return vicreg(z[0], z[1], invariance_weight=invariance, variance_weight=variance, covariance_weight=covariance)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("weights", SETTINGS)
def test_the_mean_equals_the_published_loss_in_value_and_gradient(weights, dtype):
    # The variance of some features is below the target, that of others above.
    z, exact = correlated_views(0.3, dtype), correlated_views(0.3)
    assert_mean_and_gradient(fast(z, weights), slow_vicreg(*exact, *weights), z, exact)


def test_one_sample_and_constant_features_have_finite_losses_and_gradients():
    assert_finite_for_constant_features(vicreg, 25 * 0.99)
