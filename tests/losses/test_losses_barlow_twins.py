"""Barlow Twins loss against loops over samples and features, contributions from raw moments."""

import pytest
import torch
from loss_cases import TOLERANCE, assert_finite_for_constant_features, assert_mean_and_gradient, correlated_views

from viewsmith.losses.barlow_twins import barlow_twins

WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.0, 1.5], dtype=torch.float64)


def slow_barlow_twins(z0, z1, weight):
    """The loss of the batch. Features are standardized as in BatchNorm: variance over B, plus 1e-5."""
    n, d = z0.shape

    def standardized(z, j):
        mean = sum(z[i, j] for i in range(n)) / n
        variance = sum((z[i, j] - mean) ** 2 for i in range(n)) / n
        return [(z[i, j] - mean) / (variance + 1e-5) ** 0.5 for i in range(n)]

    first, second = ([standardized(z, j) for j in range(d)] for z in (z0, z1))
    loss = 0
    for j in range(d):
        for k in range(d):
            c = sum(a * b for a, b in zip(first[j], second[k], strict=True)) / n
            loss = loss + ((1 - c) ** 2 if j == k else weight * c**2)
    return loss


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("weight", [0.0051, 0.0, 1.0])
def test_the_mean_equals_the_published_loss_in_value_and_gradient(weight, dtype):
    z, exact = correlated_views(0.5, dtype), correlated_views(0.5)
    losses = barlow_twins(*z, off_diagonal_weight=weight)
    assert len(losses.unique()) == len(losses)
    assert_mean_and_gradient(losses, slow_barlow_twins(*exact, weight), z, exact)


def test_each_value_equals_the_contribution_from_raw_moments():
    """``L + <dL/dm, s_b - m>`` with m the means of z, z', z z'^T, z^2 and z'^2, not centered."""
    z = correlated_views(0.5)
    s = [z, z[0][:, :, None] * z[1][:, None], z.square()]
    dims = [1, 0, 1]
    means = [part.mean(dim).detach().requires_grad_() for part, dim in zip(s, dims, strict=True)]
    mean, products, squares = means
    variance = squares - mean.square() + 1e-5
    c = (products - mean[0][:, None] * mean[1]) / (variance[0][:, None] * variance[1]).sqrt()
    off = c.square().sum() - c.diagonal().square().sum()
    value = (1 - c.diagonal()).square().sum() + 0.3 * off
    slopes = torch.autograd.grad(value, means)
    expected = value.detach() + ((s[1] - products.detach()) * slopes[1]).sum((1, 2))
    for slope, part, center in ((slopes[0], s[0], mean), (slopes[2], s[2], squares)):
        expected = expected + ((part - center.detach()[:, None]) * slope[:, None]).sum((0, 2))
    losses = barlow_twins(z[0], z[1], off_diagonal_weight=0.3)
    torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-11)
    (one,) = torch.autograd.grad((WEIGHTS * losses).sum(), z)
    (other,) = torch.autograd.grad((WEIGHTS * expected).sum(), z)
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_one_sample_and_constant_features_have_finite_losses_and_gradients():
    assert_finite_for_constant_features(barlow_twins, 4.0)
