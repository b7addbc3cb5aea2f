"""SIGReg against loops over directions, knots and samples, an exact integral, and on known distributions."""

import importlib
import math

import pytest
import torch
from loss_cases import TOLERANCE, assert_mean_and_gradient

from viewsmith.losses.sigreg import knots, random_directions, sigreg

module = importlib.import_module("viewsmith.losses.sigreg")

V, B, D, M = 3, 6, 4, 5
WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.0, 1.5], dtype=torch.float64)


def draw(dtype=torch.float64, seed=0):
    z = 0.7 * torch.randn(V, B, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.4
    return z.to(dtype).requires_grad_()


def directions(dtype=torch.float64, width=D, n_slices=M, seed=1):
    like = torch.zeros((), dtype=dtype)
    return random_directions(width, n_slices, like, torch.Generator().manual_seed(seed))


def slow_terms(z, a, n_knots, limit):
    """Yield each point on [-limit, limit] with its weight, cosines and sines of the samples, per view and direction."""
    step = limit / (n_knots - 1)
    for view in z:
        for m in range(a.shape[1]):
            for k in range(-(n_knots - 1), n_knots):
                t = k * step
                weight = step / 2 if abs(k) == n_knots - 1 else step
                x = [(view[i] * a[:, m]).sum() * t for i in range(len(view))]
                yield t, weight, [torch.cos(y) for y in x], [torch.sin(y) for y in x]


def slow_sigreg(z, a, n_knots, limit):
    """The statistic of the batch, with both halves of the integral."""
    n, value = z.shape[1], 0
    for t, weight, cosines, sines in slow_terms(z, a, n_knots, limit):
        normal = math.exp(-(t**2) / 2)
        error = (sum(cosines) / n - normal) ** 2 + (sum(sines) / n) ** 2
        value = value + n * weight * normal * error
    return value / (len(z) * a.shape[1])


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(("n_knots", "limit"), [(2, 1.0), (5, 3.0), (17, 3.0)])
def test_the_mean_equals_the_published_statistic_in_value_and_gradient(n_knots, limit, dtype):
    z, exact = draw(dtype), draw()
    losses = sigreg(z, directions(dtype), n_knots=n_knots, limit=limit)
    assert len(losses.unique()) == B
    assert_mean_and_gradient(losses, slow_sigreg(exact, directions(), n_knots, limit), z, exact)


def test_blocks_change_neither_value_nor_gradient(monkeypatch):
    z, a = draw(), directions()
    whole = sigreg(z, a)
    (expected,) = torch.autograd.grad((WEIGHTS * whole).sum(), z)
    seen = []
    real = torch.cos
    monkeypatch.setattr(torch, "cos", lambda x: seen.append(x.shape[1]) or real(x))
    for block, rows in ((2 * V * M * 17, [2, 2, 2]), (1, [1] * B), (4 * V * M * 17, [4, 2])):
        monkeypatch.setattr(module, "BLOCK", block)
        seen.clear()
        parts = sigreg(z, a)
        assert seen == 2 * rows
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-13)
        (found,) = torch.autograd.grad((WEIGHTS * parts).sum(), z)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_the_knots_approximate_the_integral():
    """For a sample at 0, the integral of (1 - exp(-t^2/2))^2 exp(-t^2/2) is a sum of three Gaussian integrals."""
    z = torch.zeros(1, 1, D, dtype=torch.float64)
    exact = math.sqrt(2 * math.pi) * (1 - 2 / math.sqrt(2) + 1 / math.sqrt(3))
    assert float(sigreg(z, directions(), n_knots=400, limit=12.0)) == pytest.approx(exact, rel=1e-6)
    assert float(sigreg(z, directions())) == pytest.approx(exact, rel=0.02)
    t, normal, weights = knots(17, 3.0, z)
    assert t[0] == 0 and t[-1] == 3 and len(t) == 17
    torch.testing.assert_close(normal, torch.exp(-t.square() / 2))
    # The weights without the window add up to the length of [-3, 3].
    assert float((weights / normal).sum()) == pytest.approx(6)


def test_the_statistic_is_about_one_for_normal_samples_and_grows_with_the_size_of_others():
    a = directions(width=8, n_slices=64)
    generator = torch.Generator().manual_seed(0)
    for n in (100, 400):
        z = torch.randn(30, n, 8, generator=generator, dtype=torch.float64)
        assert float(sigreg(z, a).mean()) == pytest.approx(1.05, abs=0.15)
        z = z[:2]
        narrow, flat = 0.5 * z, torch.cat([z[..., :4], z[..., :4]], dim=-1)
        assert float(sigreg(narrow, a).mean()) > 0.05 * n
        assert float(sigreg(z + 1, a).mean()) > 0.05 * n
        assert float(sigreg(flat, a).mean()) > 0.01 * n


def test_directions_have_length_one_and_are_equal_in_every_dtype():
    a = directions(width=6, n_slices=50)
    torch.testing.assert_close(a.norm(dim=0), torch.ones(50, dtype=torch.float64), rtol=1e-6, atol=0)
    assert torch.equal(directions(torch.float32, 6, 50), a.float())
    assert not torch.equal(directions(width=6, n_slices=50, seed=2), a)
    # The directions are uniform.
    many = directions(width=3, n_slices=20000)
    torch.testing.assert_close(many @ many.T / 20000, torch.eye(3, dtype=torch.float64) / 3, rtol=0, atol=0.01)
