"""The pi-noise generator and its penalties."""

import math

import pytest
import torch

from viewsmith.views import PiNoise
from viewsmith.views.pi_noise import inverse_norm, log_barrier

D = 5
X = torch.randn(7, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


def generator_of(trained=True, **options):
    """A generator in float64; `trained`: with weights far from the start."""
    torch.manual_seed(0)
    maker = PiNoise(D, hidden=(8,), **options).double()
    if trained:
        with torch.no_grad():
            for parameter in maker.parameters():
                parameter.copy_(2 * torch.randn(parameter.shape, generator=draw(1)))
    return maker


def rms(sigma):
    return sigma.square().mean(1).sqrt()


@pytest.mark.parametrize("level", ["fixed", "free"])
@pytest.mark.parametrize("strength", [1e-3, 0.5, 1.0, 3.0, 1000.0])
def test_training_starts_from_random_noise_of_the_strength(strength, level):
    sigma, mean = PiNoise(D, strength=strength, level=level, learn_mean=True).parameters_of_noise(X.float())
    torch.testing.assert_close(sigma, torch.full((7, D), strength), rtol=1e-5, atol=2e-6)
    assert (mean == 0).all()


@pytest.mark.parametrize("random_share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_a_fixed_level_holds_whatever_the_weights(strength, random_share):
    sigma, mean = generator_of(strength=strength, random_share=random_share).parameters_of_noise(X)
    assert mean is None
    torch.testing.assert_close(rms(sigma), torch.full((7,), strength, dtype=torch.float64), rtol=1e-12, atol=0)
    # The random share is the least that every feature gets of the noise power.
    assert (sigma.square() >= random_share * strength**2 - 1e-12).all()
    assert (sigma.std(1) > 0.1 * strength).all() == (random_share < 1)


def test_a_free_level_follows_the_weights():
    sigma, _ = generator_of(level="free", strength=0.5).parameters_of_noise(X)
    assert (sigma > 0).all() and rms(sigma).max() > 2 * rms(sigma).min()


@pytest.mark.parametrize("distribution", ["gaussian", "uniform"])
@pytest.mark.parametrize("learn_mean", [False, True])
def test_noise_has_the_predicted_mean_and_deviation(distribution, learn_mean):
    maker = generator_of(distribution=distribution, learn_mean=learn_mean)
    x = X[:1].expand(40000, -1)
    sigma, mean = maker.parameters_of_noise(X[:1])
    noise = maker(x, generator=draw()) - x
    expected = torch.zeros(D, dtype=torch.float64) if mean is None else mean[0]
    assert ((noise.mean(0) - expected).abs() < 4 * sigma[0] / 200).all()
    torch.testing.assert_close(noise.std(0), sigma[0], rtol=0.02, atol=0)
    if distribution == "uniform":
        assert ((noise - expected).abs() <= 3**0.5 * sigma[0] + 1e-12).all()


def test_noise_returns_the_sigma_it_was_drawn_with():
    maker = generator_of()
    eps, sigma = maker.noise(X, draw())
    assert torch.equal(sigma, maker.parameters_of_noise(X)[0])
    assert torch.equal(eps, sigma * torch.randn(X.shape, dtype=torch.float64, generator=draw()))
    assert torch.equal(maker(X, generator=draw()), X + eps)


def test_several_draws_share_one_sigma():
    maker = generator_of(learn_mean=True)
    eps, sigma = maker.noise(X, draw(), draws=3)
    expected, mean = maker.parameters_of_noise(X)
    assert eps.shape == (21, D) and torch.equal(sigma, expected)
    standard = (eps.view(3, 7, D) - mean) / sigma
    torch.testing.assert_close(standard.view(21, D), torch.randn(21, D, dtype=torch.float64, generator=draw()))


def test_noise_is_float32_at_least_under_autocast():
    maker = PiNoise(D, hidden=(8,))
    with torch.autocast("cpu", torch.bfloat16):
        eps, sigma = maker.noise(X.float(), draw())
    assert eps.dtype == sigma.dtype == torch.float32


# --- gradients


def downstream(maker, learn_from="noise"):
    """Gradients of a loss on the views with respect to generator and encoder."""
    encoder = torch.linspace(-1, 1, D, dtype=torch.float64).requires_grad_()
    loss = torch.tanh(maker(X, generator=draw()) @ encoder).square().sum()
    *noise, last = torch.autograd.grad(loss, [*maker.parameters(), encoder])
    return noise, last


@pytest.mark.parametrize("level", ["fixed", "free"])
def test_the_loss_reaches_every_weight_of_the_generator(level):
    noise, _ = downstream(generator_of(level=level, learn_mean=True))
    assert all(gradient.abs().max() > 0 for gradient in noise)


@pytest.mark.parametrize("level", ["fixed", "free"])
def test_the_generator_learns_from_the_first_step(level):
    # Its last weights start at zero: the last layer moves first, and the layers before it from the second step on.
    noise, _ = downstream(generator_of(trained=False, level=level))
    assert noise[-1].abs().max() > 0 and noise[-2].abs().max() > 0


@pytest.mark.parametrize("level", ["fixed", "free"])
def test_adversarial_turns_the_generators_gradient_and_no_other(level):
    friend, foe = (generator_of(level=level, adversarial=adversarial) for adversarial in (False, True))
    assert torch.equal(friend(X, generator=draw()), foe(X, generator=draw()))
    (friendly, encoder), (hostile, same) = downstream(friend), downstream(foe)
    assert torch.equal(encoder, same)
    assert all(torch.equal(one, -other) for one, other in zip(friendly, hostile, strict=True))
    assert any(gradient.abs().max() > 0 for gradient in friendly)


def test_adversarial_leaves_the_mean_alone():
    friend, foe = (generator_of(learn_mean=True, adversarial=adversarial) for adversarial in (False, True))
    one, other = downstream(friend)[0][-1], downstream(foe)[0][-1]
    torch.testing.assert_close(one[:D], -other[:D], rtol=1e-12, atol=0)
    torch.testing.assert_close(one[D:], other[D:], rtol=1e-12, atol=0)


# --- penalties


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_penalties_are_the_loops(dtype, tolerance):
    eps = X.to(dtype).requires_grad_()
    norms = [sum(v * v for v in row) ** 0.5 for row in eps]
    slow = 1 / (sum(norms) / len(norms))
    assert_same(inverse_norm(eps), slow, eps, tolerance)

    sigma = (X.to(dtype).abs() + 0.1).requires_grad_()
    slow = torch.stack([-sum(torch.log(v) for v in row) / D for row in sigma])
    assert log_barrier(sigma).shape == (7,)
    assert_same(log_barrier(sigma), slow, sigma, tolerance)


def assert_same(fast, slow, x, tolerance):
    torch.testing.assert_close(fast, slow, rtol=tolerance, atol=tolerance)
    weights = torch.arange(1, fast.numel() + 1, dtype=fast.dtype).view(fast.shape)
    one, other = (torch.autograd.grad((weights * loss).sum(), x)[0] for loss in (fast, slow))
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_penalties_by_hand():
    assert float(inverse_norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))) == pytest.approx(0.4)
    assert log_barrier(torch.tensor([[1.0, math.e**2], [0.5, 0.5]])).tolist() == pytest.approx([-1, math.log(2)])


def test_inverse_norm_stays_finite_without_noise():
    eps = torch.zeros(3, D, requires_grad=True)
    penalty = inverse_norm(eps)
    assert penalty.item() == pytest.approx(1e3)
    assert torch.autograd.grad(penalty, eps)[0].isfinite().all()


def test_log_barrier_is_least_for_even_noise_at_a_fixed_level():
    for sharpness in (0.1, 1.0, 3.0):
        sigma = torch.exp(sharpness * X)
        sigma = sigma / rms(sigma)[:, None]
        assert (log_barrier(sigma) > 0).all()  # the value of sigma = 1 everywhere
