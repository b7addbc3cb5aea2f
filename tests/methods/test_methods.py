"""Contrastive learning and PiNDA against their equations."""

import pytest
import torch

from drawn import draw
from viewsmith.core import Batch, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.losses import nt_xent
from viewsmith.methods import ContrastiveMethod, PiNDAMethod
from viewsmith.networks import MLP
from viewsmith.parts import Noise
from viewsmith.views import GaussianNoise, Identity, Neighbors, PairMaker, PiNoise

B, D = 6, 4
X = torch.randn(20, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
INDEX = torch.tensor([3, 0, 19, 7, 8, 11])


def batch(seed=0):
    return Batch(X[INDEX], INDEX, draw(seed))


def framework():
    torch.manual_seed(0)
    return SimCLR(MLP(D, [8, 5]), MLP(5, [3]), temperature=0.5).double()


def pinda(makers=(), trained=True, **options):
    simclr = framework()
    noise = PiNoise.for_vectors(D, hidden=(8,), strength=0.7, adversarial=options.pop("adversarial", False)).double()
    if trained:
        with torch.no_grad():
            noise.network[-1].weight.copy_(torch.randn(D, 8, generator=draw(3)))
    given = Noise(**{"two_sided": True, "penalty_weight": 0.3} | options)
    method = PiNDAMethod(simclr, PairMaker(makers), noise, options=given, epochs=4, optimizer=Optimizer())
    method.prepare(X, 0)
    return method


def project(method, x):
    return method.framework.head(method.framework.encoder(x))


def test_contrastive_equals_the_framework_on_the_views():
    method = ContrastiveMethod(framework(), PairMaker([GaussianNoise(0.5)]), epochs=3, optimizer=Optimizer(name="sgd"))
    losses, logs = method.encoder_step(batch())
    generator = draw()
    first = X[INDEX] + 0.5 * torch.randn(B, D, dtype=torch.float64, generator=generator)
    second = X[INDEX] + 0.5 * torch.randn(B, D, dtype=torch.float64, generator=generator)
    expected = nt_xent(project(method, first), project(method, second), temperature=0.5)
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-12)
    assert logs == {}


def test_contrastive_with_neighbors_passes_the_rows_of_the_views():
    method = ContrastiveMethod(framework(), PairMaker([Neighbors(3)]), epochs=3, optimizer=Optimizer())
    method.prepare(X, 0)
    losses, _ = method.encoder_step(batch())
    shown = method.views.makers[0].random_neighbors(X[INDEX], INDEX, draw())
    expected = nt_xent(project(method, X[INDEX]), project(method, X[shown]), temperature=0.5, ids=(INDEX, shown))
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "make", [pinda, lambda: ContrastiveMethod(framework(), PairMaker([Identity()]), epochs=4, optimizer=Optimizer())]
)
def test_one_joint_update(make):
    method = make()
    (phase,) = method.phases()
    (update,) = phase.updates
    assert phase.epochs == 4 and update.interval == 1
    assert all(one is other for one, other in zip(update.parameters(), method.parameters(), strict=True))
    h, z = method.represent(X), method.represent(X, "projection")
    assert torch.equal(h, method.framework.encoder(X)) and torch.equal(z, method.framework.head(h))
    assert method.view(X, index=torch.arange(20), generator=draw()).shape == X.shape


def slow_penalty(kind, eps, sigma, strength):
    """One value per sample from noise (views, B, D)."""
    if kind == "none":
        return torch.zeros(B, dtype=torch.float64)
    if kind == "inverse_norm":
        norms = [sum(v * v for v in row) ** 0.5 for view in eps for row in view]
        return (len(norms) / sum(norms)).expand(B)
    values = []
    for i in range(B):
        logs = [-torch.log(v / strength) for view in sigma for v in view[i]]
        values.append(sum(logs) / len(logs))
    return torch.stack(values)


@pytest.mark.parametrize("penalty", ["none", "inverse_norm", "log_barrier"])
@pytest.mark.parametrize("two_sided", [True, False])
def test_pinda_equals_its_equation(two_sided, penalty):
    method = pinda(two_sided=two_sided, penalty=penalty)
    losses, logs = method.joint_step(batch())

    x, views = X[INDEX], 2 if two_sided else 1
    sigma = method.noise.noise_parameters(x)[0].expand(views, B, D)
    eps = sigma * torch.randn(views * B, D, dtype=torch.float64, generator=draw()).view(views, B, D)
    first, second = x + eps[0], x + eps[1] if two_sided else x
    contrast = nt_xent(project(method, first), project(method, second), temperature=0.5, ids=(INDEX, INDEX))
    expected_penalty = slow_penalty(penalty, eps, sigma, 0.7)
    expected = contrast + 0.3 * expected_penalty

    torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(logs["contrast"], contrast.mean())
    torch.testing.assert_close(logs["penalty"], expected_penalty.mean())
    parameters = list(method.parameters())
    weights = torch.arange(1.0, B + 1, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad((weights * losses).sum(), parameters),
        torch.autograd.grad((weights * expected).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
        assert one.abs().max() > 0  # encoder, head and generator are trained


def test_pinda_adds_its_noise_to_the_views():
    method = pinda([Neighbors(3)], two_sided=False, penalty="none")
    losses, _ = method.joint_step(batch())
    generator = draw()
    shown = method.views.makers[0].random_neighbors(X[INDEX], INDEX, generator)
    first = method.noise(X[INDEX], generator=generator)
    expected = nt_xent(project(method, first), project(method, X[shown]), temperature=0.5, ids=(INDEX, shown))
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-12)


def test_two_sided_pinda_predicts_noise_for_each_view():
    method = pinda([GaussianNoise(0.5)], penalty="log_barrier", penalty_weight=1.0)
    losses, _logs = method.joint_step(batch())
    generator = draw()
    pair = method.views(X[INDEX], index=INDEX, generator=generator)
    both = torch.cat([pair.first, pair.second])
    sigma = method.noise.noise_parameters(both)[0]
    first, second = (both + sigma * torch.randn(2 * B, D, dtype=torch.float64, generator=generator)).chunk(2)
    contrast = nt_xent(project(method, first), project(method, second), temperature=0.5)
    barrier = slow_penalty("log_barrier", None, sigma.view(2, B, D), 0.7)
    torch.testing.assert_close(losses, contrast + barrier, rtol=1e-10, atol=1e-10)


def test_algorithm_2_chooses_noise_or_view_for_each_sample():
    method = pinda([Neighbors(3)], algorithm=2, two_sided=False, penalty="inverse_norm")
    losses, logs = method.joint_step(batch(1))
    generator = draw(1)
    shown = method.views.makers[0].random_neighbors(X[INDEX], INDEX, generator)
    sigma = method.noise.noise_parameters(X[INDEX])[0]
    eps = torch.stack([sigma, sigma]) * torch.randn(2 * B, D, dtype=torch.float64, generator=generator).view(2, B, D)
    noisy = torch.rand((2, B), generator=generator) < 0.5
    assert 0 < noisy[0].sum() < B and 0 < noisy[1].sum() < B and not torch.equal(*noisy)
    views, ids = [], []
    for view, plain, row in ((0, INDEX, X[INDEX]), (1, shown, X[shown])):
        views.append(torch.stack([X[INDEX][i] + eps[view, i] if noisy[view, i] else row[i] for i in range(B)]))
        ids.append(torch.stack([INDEX[i] if noisy[view, i] else plain[i] for i in range(B)]))
    contrast = nt_xent(*(project(method, view) for view in views), temperature=0.5, ids=tuple(ids))
    torch.testing.assert_close(losses, contrast + 0.3 * slow_penalty("inverse_norm", eps, None, 0.7))
    torch.testing.assert_close(logs["gamma"], torch.exp(-contrast).mean())
    assert not logs["gamma"].requires_grad


def generator_gradient(method, which):
    losses, logs = method.joint_step(batch())
    return torch.cat([g.flatten() for g in torch.autograd.grad(which(losses, logs), list(method.noise.parameters()))])


@pytest.mark.parametrize("penalty", ["log_barrier", "inverse_norm"])
def test_adversarial_noise_raises_the_contrast_under_the_same_penalty(penalty):
    normal, adversarial = pinda(penalty=penalty), pinda(penalty=penalty, adversarial=True)
    contrast = [generator_gradient(m, lambda losses, logs: logs["contrast"]) for m in (normal, adversarial)]
    barrier = [generator_gradient(m, lambda losses, logs: logs["penalty"]) for m in (normal, adversarial)]
    torch.testing.assert_close(contrast[0], -contrast[1], rtol=1e-12, atol=0)
    torch.testing.assert_close(barrier[0], barrier[1], rtol=1e-12, atol=0)
    assert contrast[0].abs().max() > 0 and barrier[0].abs().max() > 0


def test_diagnostics_of_the_noise():
    method = pinda()
    sigma = method.noise.noise_parameters(X)[0]
    profile = sigma.mean(0)
    spread = ((profile - profile.mean()) ** 2).mean().sqrt() / profile.mean()
    with torch.no_grad():
        numbers, initial = method.diagnose(X, draw()), pinda(trained=False).diagnose(X, draw())
    assert numbers["noise_level"] == pytest.approx(0.7)
    assert numbers["noise_spread"] == pytest.approx(spread.item())
    assert initial["noise_spread"] == pytest.approx(0, abs=1e-9)


def test_the_view_of_pinda_has_noise():
    method = pinda()
    assert torch.equal(method.view(X, generator=draw(2)), method.noise(X, generator=draw(2)))


NOISE = {"noise_level": 1.0, "noise_spread": 0.2}


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"noise_spread": 3.9}, ["the learned noise sits on few features: its spread over features is 3.9"]),
        ({"noise_level": 0.001}, ["the learned noise has collapsed from 0.7 to 0.001 standard deviations"]),
        ({"noise_level": 4.0}, ["the learned noise has grown to 4.0 standard deviations"]),
        ({"noise_level": 4.0, "noise_spread": 2.0}, ["the learned noise sits", "the learned noise has grown"]),
        ({}, []),
    ],
)
def test_warnings_of_uneven_collapsed_or_large_noise(last, expected):
    found = pinda().warnings([{"epoch": 1, **NOISE}, {"epoch": 2, **NOISE, **last}, {"epoch": 3, "loss": 1.0}])
    assert len(found) == len(expected) and not any("\n" in line for line in found)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


def test_noise_that_had_collapsed_before_the_first_diagnostics_is_named():
    gone = NOISE | {"noise_level": 1e-6}
    (line,) = pinda().warnings([{"epoch": 8, **gone}, {"epoch": 16, **gone}])
    assert line.startswith("the learned noise has collapsed from 0.7 to 1e-06 standard deviations")


def test_no_warnings_without_diagnostics_or_if_strong_or_weak_noise_was_set():
    assert pinda().warnings([]) == [] and pinda().warnings([{"epoch": 1, "loss": 1.0}]) == []
    for strength, level in ((2.0, 5.9), (0.01, 0.009)):
        method = pinda()
        method.noise.strength = strength
        assert method.warnings([{**NOISE, "noise_level": level}]) == []
