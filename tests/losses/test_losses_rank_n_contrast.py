"""Rank-N-Contrast against a loop over anchors and pairs."""

import pytest
import torch
from loss_cases import assert_value_and_gradient

from viewsmith.core.errors import InputError
from viewsmith.losses import rank_n_contrast

TOLERANCE = {torch.float64: {"rtol": 1e-9, "atol": 1e-11}, torch.float32: {"rtol": 2e-5, "atol": 1e-5}}
TAU = 0.7


def slow_rank_n_contrast(z0, z1, targets):
    z, y = [*z0, *z1], [float(value) for value in [*targets, *targets]]
    found = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        terms = []
        for j in others:
            farther = [k for k in others if abs(y[i] - y[k]) >= abs(y[i] - y[j])]
            total = sum(torch.exp(-(((z[i] - z[k]) ** 2).sum() ** 0.5) / TAU) for k in farther)
            terms.append(-torch.log(torch.exp(-(((z[i] - z[j]) ** 2).sum() ** 0.5) / TAU) / total))
        found.append(sum(terms) / len(terms))
    half = len(z0)
    return torch.stack([(found[i] + found[half + i]) / 2 for i in range(half)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("targets", [[0.1, 3.0, -2.0, 0.5, 7.0], [1.0, 1.0, 2.0, 2.0, 3.0], [4.0] * 5])
def test_it_equals_the_loop(targets, dtype):
    generator = torch.Generator().manual_seed(0)
    z0, z1 = (torch.randn(5, 3, generator=generator, dtype=dtype).requires_grad_() for _ in range(2))
    y = torch.tensor(targets, dtype=dtype)
    fast, slow = rank_n_contrast(z0, z1, y, temperature=TAU), slow_rank_n_contrast(z0, z1, y)
    assert_value_and_gradient(fast, slow, (z0, z1), **TOLERANCE[dtype])


def test_the_order_of_targets_lowers_the_loss_and_their_scale_does_not_matter():
    y = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sorted_by_target, mixed = y[:, None] * 5, y.flip(0)[:, None] * 5
    assert rank_n_contrast(sorted_by_target, sorted_by_target, y).mean() < rank_n_contrast(mixed, mixed, y).mean()
    torch.testing.assert_close(rank_n_contrast(mixed, mixed, 100 * y + 3), rank_n_contrast(mixed, mixed, y))


def test_equal_views_have_finite_gradients():
    z = torch.ones(4, 2, requires_grad=True)
    rank_n_contrast(z, z, torch.arange(4.0)).sum().backward()
    assert z.grad.isfinite().all()


def test_refused():
    z = torch.zeros(3, 2)
    with pytest.raises(InputError, match="expected one for each sample"):
        rank_n_contrast(z, z, torch.zeros(6))
    with pytest.raises(InputError, match="temperature"):
        rank_n_contrast(z, z, torch.zeros(3), temperature=0)
