"""The pi-noise generator and its penalties."""

import pytest
import torch
from pi_noise_toys import NETWORKS, D, X, dna, draw, generator_of, maker_of, real_of, rms, samples
from torch import nn

from viewsmith.methods.pinda.views import inverse_norm, log_barrier
from viewsmith.views import PiNoise


@pytest.mark.parametrize("level", ["fixed", "free"])
@pytest.mark.parametrize("strength", [1e-3, 0.5, 1000.0])
def test_initial_noise_has_the_given_strength(strength, level):
    sigma, mean = PiNoise.for_vectors(D, strength=strength, level=level, learn_mean=True).noise_parameters(X.float())
    torch.testing.assert_close(sigma, torch.full((7, D), strength), rtol=1e-5, atol=2e-6)
    assert (mean == 0).all()


def test_a_free_level_depends_on_the_weights():
    sigma, _ = generator_of(level="free", strength=0.5).noise_parameters(X)
    assert (sigma > 0).all() and rms(sigma).max() > 2 * rms(sigma).min()


@pytest.mark.parametrize("distribution", ["gaussian", "uniform"])
@pytest.mark.parametrize("learn_mean", [False, True])
def test_noise_has_the_predicted_mean_and_deviation(distribution, learn_mean):
    maker = generator_of(distribution=distribution, learn_mean=learn_mean)
    x = X[:1].expand(40000, -1)
    sigma, mean = maker.noise_parameters(X[:1])
    noise = maker(x, generator=draw()) - x
    expected = torch.zeros(D, dtype=torch.float64) if mean is None else mean[0]
    assert ((noise.mean(0) - expected).abs() < 4 * sigma[0] / 200).all()
    torch.testing.assert_close(noise.std(0), sigma[0], rtol=0.02, atol=0)
    if distribution == "uniform":
        assert ((noise - expected).abs() <= 3**0.5 * sigma[0] + 1e-12).all()


def test_noise_returns_the_sigma_it_was_drawn_with():
    maker = generator_of()
    eps, sigma, _ = maker.noise(X, draw())
    assert torch.equal(sigma, maker.noise_parameters(X)[0])
    assert torch.equal(eps, sigma * torch.randn(X.shape, dtype=torch.float64, generator=draw()))
    assert torch.equal(maker(X, generator=draw()), X + eps)


def test_several_draws_share_one_sigma():
    maker = generator_of(learn_mean=True)
    eps, sigma, _ = maker.noise(X, draw(), draws=3)
    expected, mean = maker.noise_parameters(X)
    assert eps.shape == (21, D) and torch.equal(sigma, expected)
    standard = (eps.view(3, 7, D) - mean) / sigma
    torch.testing.assert_close(standard.view(21, D), torch.randn(21, D, dtype=torch.float64, generator=draw()))


def test_noise_is_float32_at_least_under_autocast():
    maker = PiNoise.for_vectors(D, hidden=(8,))
    with torch.autocast("cpu", torch.bfloat16):
        eps, sigma, _ = maker.noise(X.float(), draw())
    assert eps.dtype == sigma.dtype == torch.float32


# --- gradients


def downstream(maker):
    """Gradients of a loss on the views with respect to generator and encoder."""
    encoder = torch.linspace(-1, 1, D, dtype=torch.float64).requires_grad_()
    loss = torch.tanh(maker(X, generator=draw()) @ encoder).square().sum()
    *noise, last = torch.autograd.grad(loss, [*maker.parameters(), encoder])
    return noise, last


@pytest.mark.parametrize("level", ["fixed", "free"])
def test_the_generator_learns_from_the_first_step(level):
    # The last weights are initialized with 0: the last layer learns in the first step, the others from the second on.
    noise, _ = downstream(generator_of(trained=False, level=level))
    assert noise[-1].abs().max() > 0 and noise[-2].abs().max() > 0


@pytest.mark.parametrize("level", ["fixed", "free"])
def test_adversarial_reverses_only_the_gradient_of_the_generator(level):
    plain, reversed_ = (generator_of(level=level, adversarial=adversarial) for adversarial in (False, True))
    assert torch.equal(plain(X, generator=draw()), reversed_(X, generator=draw()))
    (noise, encoder), (opposite, same) = downstream(plain), downstream(reversed_)
    assert torch.equal(encoder, same)
    assert all(torch.equal(one, -other) for one, other in zip(noise, opposite, strict=True))
    assert any(gradient.abs().max() > 0 for gradient in noise)


def test_adversarial_does_not_reverse_the_gradient_of_the_mean():
    plain, reversed_ = (generator_of(learn_mean=True, adversarial=adversarial) for adversarial in (False, True))
    one, other = downstream(plain)[0][-1], downstream(reversed_)[0][-1]
    torch.testing.assert_close(one[:D], -other[:D], rtol=1e-12, atol=0)
    torch.testing.assert_close(one[D:], other[D:], rtol=1e-12, atol=0)


# --- penalties


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_penalties_equal_slow_loops(dtype, tolerance):
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


def test_inverse_norm_stays_finite_without_noise():
    eps = torch.zeros(3, D, requires_grad=True)
    penalty = inverse_norm(eps)
    assert penalty.item() == pytest.approx(1e3)
    assert torch.autograd.grad(penalty, eps)[0].isfinite().all()


def test_the_log_barrier_is_smallest_for_equal_noise_at_a_fixed_level():
    for sharpness in (0.1, 1.0, 3.0):
        sigma = torch.exp(sharpness * X)
        sigma = sigma / rms(sigma)[:, None]
        assert (log_barrier(sigma) > 0).all()  # 0 is the value for sigma = 1 everywhere


# --- images and DNA


every_network = pytest.mark.parametrize("name", NETWORKS)


def slow_sigma(maker, x):
    """sigma of a fixed level, sample by sample."""
    raw = maker.network(x)
    raw = raw[:, : raw.shape[1] // 2] if maker.learn_mean else raw
    real, rows = real_of(x), []
    for i in range(len(x)):
        sigma = (nn.functional.softplus(raw[i]) + 1e-6).expand(x[i].shape)
        total, count = 0.0, 0
        for value, counts in zip(sigma.flatten(), real[i].flatten(), strict=True):
            if counts:
                total, count = total + value**2, count + 1
        level = total / count if count else torch.tensor(1.0)
        power = maker.random_fraction + (1 - maker.random_fraction) * sigma**2 / level
        rows.append(maker.strength * power**0.5 * real[i])
    return torch.stack(rows)


@every_network
def test_initial_noise_of_every_network_has_the_given_strength(name):
    x = samples(name, torch.float32)
    maker = maker_of(name, trained=False, dtype=torch.float32, strength=0.4, learn_mean=True)
    sigma, mean = maker.noise_parameters(x)
    torch.testing.assert_close(sigma, 0.4 * real_of(x), rtol=1e-5, atol=2e-6)
    assert sigma.shape == mean.shape == x.shape and (mean == 0).all()


@every_network
def test_a_fixed_level_equals_a_slow_loop(name):
    x, tolerance = samples(name), 1e-9
    maker = maker_of(name, strength=0.5, random_fraction=0.2, learn_mean=name == "unet")
    fast, slow = maker.noise_parameters(x)[0], slow_sigma(maker, x)
    torch.testing.assert_close(fast, slow, rtol=tolerance, atol=tolerance)
    weights = torch.randn(x.shape, generator=draw(9), dtype=torch.float64)
    last = list(maker.network.last.parameters())
    for one, other in zip(
        torch.autograd.grad((weights * fast).sum(), last),
        torch.autograd.grad((weights * slow).sum(), last),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=10 * tolerance)
        assert one.abs().max() > 0


@every_network
def test_the_gradient_reaches_every_weight_of_every_network(name):
    maker, x = maker_of(name), samples(name)
    if name == "resnet18":  # its blocks are initialized as the identity
        with torch.no_grad():
            for module in maker.modules():
                if isinstance(module, nn.GroupNorm):
                    module.weight.fill_(1.0)
    maker(x, generator=draw()).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in maker.parameters())
    if name == "shared":
        assert all(p.grad is None for p in maker.network.stem.__self__.parameters())


@pytest.mark.parametrize("level", ["fixed", "free"])
@pytest.mark.parametrize("name", ["dna", "dna, one map"])
def test_padding_gets_no_noise(name, level):
    x, maker = dna(), maker_of(name, learn_mean=True, level=level)
    eps, sigma, _ = maker.noise(x, draw(), draws=2)
    real = real_of(x)
    assert torch.equal(maker.real(x).expand_as(x), real)
    assert torch.equal(sigma != 0, real) and torch.equal(eps != 0, real.repeat(2, 1, 1))
    # The padding can be found in the view, too.
    assert torch.equal(maker.real(maker(x, generator=draw())).expand_as(x), real)
    loss = maker(x, generator=draw()).square().sum() + log_barrier(sigma, maker.real(x)).sum()
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, list(maker.parameters())))


def test_noise_does_not_depend_on_padding():
    x, maker = dna()[:2], maker_of("dna", strength=0.5)
    sigma = maker.noise_parameters(x)[0]
    further = maker.noise_parameters(nn.functional.pad(x, (0, 6)))[0]
    torch.testing.assert_close(further, nn.functional.pad(sigma, (0, 6)), rtol=1e-10, atol=0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_penalties_of_maps_equal_slow_loops(dtype, tolerance):
    x = dna(dtype)
    real = maker_of("dna").real(x)
    sigma = (torch.rand(x.shape, generator=draw(2), dtype=torch.float64).to(dtype) + 0.1) * real
    sigma.requires_grad_()
    rows = []
    for i in range(3):
        logs = [torch.log(v) for v, counts in zip(sigma[i].flatten(), real_of(x)[i].flatten(), strict=True) if counts]
        rows.append(-sum(logs) / len(logs) if logs else 0 * sigma[i].sum())
    assert_same(log_barrier(sigma, real), torch.stack(rows), sigma, tolerance)
    norms = [sum(v * v for v in row.flatten()) ** 0.5 for row in sigma[:2]]
    assert_same(inverse_norm(sigma[:2]), 2 / (norms[0] + norms[1]), sigma, tolerance)


def test_a_network_without_a_last_layer_is_refused():
    for network in (nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.ReLU(), nn.Sequential(nn.Linear(3, 3, bias=False))):
        with pytest.raises(ValueError, match="expected a linear or convolutional layer with a bias"):
            PiNoise(network)


def test_weight_names_of_the_generator_of_vectors():
    maker = PiNoise.for_vectors(D, hidden=(8,), learn_mean=True, strength=0.3)
    shapes = {name: tuple(value.shape) for name, value in maker.state_dict().items()}
    assert shapes == {
        "network.0.weight": (8, D),
        "network.0.bias": (8,),
        "network.2.weight": (2 * D, 8),
        "network.2.bias": (2 * D,),
    }


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
