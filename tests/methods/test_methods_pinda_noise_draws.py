"""Draws of pi-noise: value and gradient, normalized draws, and penalized noise."""

import pytest
import torch
from pi_noise_toys import D, X, dna, draw, generator_of, maker_of, real_of, rms
from torch import nn

from viewsmith.methods.pinda.views import inverse_norm, log_barrier


@pytest.mark.parametrize("draws", [1, 2])
def test_noise_and_its_gradient_equal_a_slow_loop(draws):
    maker = generator_of(learn_mean=True)
    eps, _, _ = maker.noise(X, draw(), draws=draws)
    unit = torch.randn(draws * 7, D, dtype=torch.float64, generator=draw())
    raw = maker.network(X)
    rows = []
    for k in range(draws * 7):
        i = k % 7
        soft = nn.functional.softplus(raw[i, :D]) + 1e-6
        rows.append(raw[i, D:] + soft / (sum(v * v for v in soft) / D) ** 0.5 * unit[k])
    slow = torch.stack(rows)
    torch.testing.assert_close(eps, slow, rtol=1e-10, atol=1e-10)
    weights = torch.randn(eps.shape, dtype=torch.float64, generator=draw(7))
    for one, other in zip(
        *(torch.autograd.grad((weights * e).sum(), maker.parameters()) for e in (eps, slow)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        assert one.abs().max() > 0


@pytest.mark.parametrize("learn_mean", [False, True])
def test_every_draw_is_normalized_at_a_drawn_level(learn_mean):
    maker = generator_of(level="drawn", strength=0.5, learn_mean=learn_mean)
    eps, sigma, _ = maker.noise(X, draw(), draws=2)
    torch.testing.assert_close(rms(eps), torch.full((14,), 0.5, dtype=torch.float64), rtol=1e-10, atol=0)
    plain, same, _ = generator_of(strength=0.5, learn_mean=learn_mean).noise(X, draw(), draws=2)
    assert torch.equal(sigma, same)
    torch.testing.assert_close(eps, plain * (0.5 / rms(plain))[:, None])
    padded = maker_of("dna", level="drawn", strength=0.5).noise(dna(), draw())[0]
    real = real_of(dna())
    assert [float(padded[i][real[i]].square().mean().sqrt()) for i in (0, 1)] == pytest.approx([0.5, 0.5])
    assert padded[2].abs().max() == 0


@pytest.mark.parametrize("level", ["fixed", "drawn", "free"])
def test_penalized_noise_has_a_gradient_without_reversal(level):
    plain, reversed_ = (generator_of(level=level, learn_mean=True, adversarial=a) for a in (False, True))
    gradients = []
    for maker in (plain, reversed_):
        eps, sigma, penalized = maker.noise(X, draw())
        assert torch.equal(eps, penalized)
        for value in (inverse_norm(penalized), log_barrier(sigma).sum()):
            gradients.append(torch.autograd.grad(value, maker.parameters(), retain_graph=True, allow_unused=True))
    for one, other in zip(sum(gradients[:2], ()), sum(gradients[2:], ()), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
