"""Contributions of samples to a loss of batch means, against the definition with every s_b computed."""

import pytest
import torch

from viewsmith.losses.numerics import centered, count, per_sample

B, D = 7, 3
WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.0, 1.5, 0.1], dtype=torch.float64)


def draw(dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(B, D, generator=generator, dtype=torch.float64) + 0.4).to(dtype).requires_grad_()


def moments(z):
    """Every s_b: the samples, (B, D), and their products, (B, D, D)."""
    return z, z[:, :, None] * z[:, None]


def objective(mean, second):
    """A nonlinear function of both means."""
    return torch.logdet(second - mean[:, None] * mean + torch.eye(D, dtype=mean.dtype)) + mean.sin().prod()


def by_helper(z):
    s = moments(z)
    return per_sample(
        objective, [part.mean(0) for part in s], lambda first, second: s[0] @ first + (s[1] * second).sum(dim=(1, 2))
    )


def by_definition(z):
    s = moments(z)
    means = [part.mean(0).detach().requires_grad_() for part in s]
    value = objective(*means)
    slopes = torch.autograd.grad(value, means)
    values = []
    for b in range(B):
        products = [(g * (part[b] - m.detach())).sum() for g, part, m in zip(slopes, s, means, strict=True)]
        values.append(value.detach() + sum(products))
    return torch.stack(values)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_values_and_weighted_gradients_equal_the_definition(dtype):
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    z, exact = draw(dtype), draw()
    found, expected = by_helper(z), by_definition(exact)
    assert found.shape == (B,) and found.dtype == dtype and len(found.unique()) == B
    torch.testing.assert_close(found.double(), expected, **tolerance)
    (one,) = torch.autograd.grad((WEIGHTS.to(dtype) * found).sum(), z)
    (other,) = torch.autograd.grad((WEIGHTS * expected).sum(), exact)
    torch.testing.assert_close(one.double(), other, **tolerance)
    assert other[2].abs().max() == 0 and other[0].abs().max() > 1e-3  # a weight of 0 excludes a sample


def test_the_mean_equals_the_objective_in_value_and_gradient():
    z = draw()
    found, expected = by_helper(z).mean(), objective(*(part.mean(0) for part in moments(z)))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    (one,), (other,) = torch.autograd.grad(found, z), torch.autograd.grad(expected, z)
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert other.abs().max() > 1e-3


def test_values_without_gradients():
    z = draw()
    with torch.no_grad():
        found = by_helper(z)
    assert not found.requires_grad
    assert torch.equal(found, by_helper(z).detach())


def test_moments_around_the_detached_mean_give_the_covariance_and_its_gradient():
    z = draw()
    u = centered(z, 0)
    slope = torch.arange(9, dtype=torch.float64).view(3, 3)
    found = (slope * (u.T @ u) / B).sum()
    mean = z.mean(0)
    expected = (slope * (z.T @ z / B - mean[:, None] * mean)).sum()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    (one,), (other,) = torch.autograd.grad(found, z), torch.autograd.grad(expected, z)
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_total_adds_the_samples_of_other_processes():
    z = draw().detach()
    others = {(): torch.tensor(4.0), (1, D): z[3:].sum(0, keepdim=True)}

    def total(x):
        return x + others[tuple(x.shape)]

    assert float(count(z[:3], 0, total)) == B
    torch.testing.assert_close(centered(z[:3], 0, total), centered(z, 0)[:3])


def test_a_second_differentiation_raises():
    z = draw()
    with pytest.raises(RuntimeError, match="can be differentiated once, create_graph=True was given"):
        torch.autograd.grad(by_helper(z).sum() + z.square().sum(), z, create_graph=True)
