"""VICReg loss against loops over samples and features, contributions from raw moments."""

import pytest
import torch

from viewsmith.losses.vicreg import vicreg

B, D = 6, 4
TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-11}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}
SETTINGS = [(25.0, 25.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]


def draw(dtype=torch.float64, seed=0):
    """Two correlated views; the variance of some features is below the target, that of others above."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(B, D, generator=generator, dtype=torch.float64)
    noise = 0.3 * torch.randn(2, B, D, generator=generator, dtype=torch.float64)
    z = (base + noise) * torch.tensor([0.3, 0.6, 2.0, 0.9], dtype=torch.float64) + 1.5
    return z.to(dtype).requires_grad_()


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
    z, exact = draw(dtype), draw()
    losses, expected = fast(z, weights), slow_vicreg(*exact, *weights)
    assert losses.shape == (B,) and losses.dtype == dtype
    torch.testing.assert_close(losses.mean().double(), expected, **TOLERANCE[dtype])
    (one,), (other,) = torch.autograd.grad(losses.mean(), z), torch.autograd.grad(expected, exact)
    torch.testing.assert_close(one.double(), other, **TOLERANCE[dtype])
    assert other.abs().max() > 1e-3


def test_one_sample_and_constant_features_have_finite_losses_and_gradients():
    for shape in ((2, 1, D), (2, B, D)):
        z = torch.ones(shape, requires_grad=True)
        losses = vicreg(z[0], z[1])
        losses.sum().backward()
        assert losses.isfinite().all() and z.grad.isfinite().all()
        torch.testing.assert_close(losses, torch.full_like(losses, 25 * 0.99))
