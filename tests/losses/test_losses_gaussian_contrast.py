"""InfoNCE of Gaussian views against normal densities and loops, in value and gradient."""

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from viewsmith.losses.gaussian_contrast import critic_weights, gaussian_contrast, gaussian_critic

B, K = 7, 3
SIGNAL = torch.tensor([9.0, 1.0, 0.2], dtype=torch.float64)
RHO = SIGNAL / (1 + SIGNAL)
TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-11}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}


def columns(dtype=torch.float64):
    """Two views of B samples in columns of noise 1."""
    shared, *noise = torch.randn(3, B, K, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return [(shared * SIGNAL.sqrt() + each).to(dtype).requires_grad_() for each in noise]


def density_ratio(y, other):
    """log p(y, y') / p(y) p(y') from the densities of torch."""
    total = 0.0
    for j in range(K):
        covariance = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64) + SIGNAL[j]
        joint = MultivariateNormal(torch.zeros(2, dtype=torch.float64), covariance)
        margin = Normal(torch.zeros((), dtype=torch.float64), (1 + SIGNAL[j]).sqrt())
        total = (
            total + joint.log_prob(torch.stack([y[j], other[j]])) - margin.log_prob(y[j]) - margin.log_prob(other[j])
        )
    return total


def slow_loss(y, other):
    losses = []
    for i in range(B):
        rows = [torch.stack([density_ratio(y[i], other[j]) for j in range(B)])]
        rows.append(torch.stack([density_ratio(y[j], other[i]) for j in range(B)]))
        losses.append(sum(torch.logsumexp(row, 0) - row[i] for row in rows) / 2)
    return torch.stack(losses)


def test_the_critic_is_the_log_ratio_of_normal_densities():
    y, other = columns()
    found = gaussian_critic(y * critic_weights(SIGNAL), other * critic_weights(SIGNAL), RHO)
    expected = torch.stack([torch.stack([density_ratio(a, b) for b in other]) for a in y])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_the_loss_equals_a_loop_in_value_and_gradient(dtype):
    y, exact = columns(dtype), columns()
    weights = critic_weights(SIGNAL).to(dtype)
    losses, expected = gaussian_contrast(y[0] * weights, y[1] * weights, RHO.to(dtype)), slow_loss(*exact)
    assert losses.shape == (B,) and losses.dtype == dtype
    torch.testing.assert_close(losses.double(), expected, **TOLERANCE[dtype])
    ours, slow = torch.autograd.grad(losses.sum(), y), torch.autograd.grad(expected.sum(), exact)
    for one, other in zip(ours, slow, strict=True):
        torch.testing.assert_close(one.double(), other, **TOLERANCE[dtype])
        assert other.abs().max() > 1e-3
