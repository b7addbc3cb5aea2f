"""The closed-form contrast against slow loops, gradient training, and what its views can do to it."""

import math

import pytest
import torch
from linear_contrast_cases import D, Linear, draw, fitted, method, samples, work

from viewsmith.losses.gaussian_contrast import critic_weights, gaussian_contrast
from viewsmith.methods.linear_contrast import training
from viewsmith.methods.linear_contrast.training import FOLDS, Moments, Sums, choose, held_out, solve
from viewsmith.networks import projected
from viewsmith.networks.projected import ProjectedFeatures
from viewsmith.views import GaussianNoise

pytestmark = pytest.mark.full_size

M = 3


def views_of(n, seed=0, dtype=torch.float64, signal=(9.0, 3.0, 1.0, 0.0, 0.0)):
    """Features of M views of n samples, (n, M, D): shared columns of these variances and noise, mixed."""
    generator = draw(seed)
    mixing = torch.eye(D, dtype=torch.float64) + 0.5 * torch.randn(D, D, generator=draw(99), dtype=torch.float64)
    shared = torch.randn(n, 1, D, generator=generator, dtype=torch.float64) * torch.tensor(signal).double().sqrt()
    noise = torch.randn(n, M, D, generator=generator, dtype=torch.float64)
    return ((shared + noise) @ mixing + 2.0).to(dtype)


def summed(views, blocks=1):
    moments = Moments.empty(D)
    for block in views.chunk(blocks):
        moments.add(block)
    return moments


def slow_covariances(views):
    """S_b and S_w by loops."""
    n = len(views)
    within, total = torch.zeros(D, D, dtype=torch.float64), torch.zeros(D, D, dtype=torch.float64)
    center = sum(views[i, a] for i in range(n) for a in range(M)) / (n * M)
    for i in range(n):
        mean = sum(views[i, a] for a in range(M)) / M
        for a in range(M):
            within += torch.outer(views[i, a] - mean, views[i, a] - mean) / (n * (M - 1))
            total += torch.outer(views[i, a] - center, views[i, a] - center) / (n * M)
    return total - within, within


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_moments_equal_loops_whatever_the_blocks(dtype, tolerance):
    expected = slow_covariances(views_of(9))
    for blocks in (1, 4):
        for found, slow in zip(summed(views_of(9, dtype=dtype), blocks).covariances(), expected, strict=True):
            torch.testing.assert_close(found, slow, rtol=tolerance, atol=tolerance)
    both = summed(views_of(9)[:4]) + summed(views_of(9)[4:])
    torch.testing.assert_close(both.covariances(), expected, rtol=1e-10, atol=1e-10)


def test_scatter_that_is_tiny_beside_the_samples_is_exact():
    views = views_of(9).mean(1, keepdim=True) + 1e-4 * views_of(9, seed=1)
    moments = Moments.empty(D)
    far = views.float() + 100
    moments.add(far)
    torch.testing.assert_close(moments.covariances()[1], slow_covariances(far.double())[1], rtol=0.01, atol=0)


def test_columns_have_noise_of_one_and_their_signal():
    between, within = summed(views_of(400)).covariances()
    found = solve(between, within, 0.1, 3)
    ridged = within + 0.1 * within.trace() / D * torch.eye(D)
    a = found.directions
    torch.testing.assert_close(a.T @ ridged @ a, torch.eye(3).double(), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(a.T @ between @ a, torch.diag(found.signal), rtol=1e-8, atol=1e-8)
    assert (found.signal.diff() < 0).all()
    torch.testing.assert_close(found.correlation, found.signal / (1 + found.signal))


def test_the_leading_columns_are_those_of_the_full_decomposition(monkeypatch):
    shared, noise = torch.randn(2, 300, 40, generator=draw(3), dtype=torch.float64)
    strength = 4.0 * 0.7 ** torch.arange(40, dtype=torch.float64)
    between, within = (shared * strength).T @ (shared * strength) / 300, noise.T @ noise / 300
    full = solve(between, within, 0.1, 4)
    monkeypatch.setattr(projected, "FULL", 10)
    monkeypatch.setattr(projected, "EXTRA", 8)
    few = solve(between, within, 0.1, 4)
    torch.testing.assert_close(few.signal, full.signal, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(few.directions, full.directions, rtol=1e-3, atol=1e-3)


def test_gradient_training_of_the_same_objective_ends_at_the_closed_form():
    """A free linear map and free correlations, trained on InfoNCE with the Gaussian critic."""
    k, n = 2, 4096
    x = views_of(n, signal=(9.0, 3.0, 0.0, 0.0, 0.0))[:, :2]
    x = x - x.mean((0, 1))
    solution = solve(*summed(x).covariances(), 1e-9, k)

    def loss(directions, signal, rows):
        z = x[rows] @ (directions * critic_weights(signal))
        return gaussian_contrast(z[:, 0], z[:, 1], signal / (1 + signal)).mean()

    torch.manual_seed(0)
    free = torch.nn.Parameter(0.1 * torch.randn(D, k, dtype=torch.float64))
    log_signal = torch.nn.Parameter(torch.zeros(k, dtype=torch.float64))
    optimizer = torch.optim.Adam([free, log_signal], lr=0.1)
    generator = draw(1)
    for step in range(250):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 + math.cos(math.pi * step / 250)) / 2
        optimizer.zero_grad()
        loss(free, log_signal.exp(), torch.randint(n, (256,), generator=generator)).backward()
        optimizer.step()
    rows = torch.arange(1024)
    with torch.no_grad():
        trained, closed = loss(free, log_signal.exp(), rows), loss(solution.directions, solution.signal, rows)
        spans = torch.linalg.qr(free)[0], torch.linalg.qr(solution.directions)[0]
    assert abs(trained - closed) < 0.03
    angles = torch.linalg.svdvals(spans[0].T @ spans[1])
    assert angles.min() > 0.99
    worse = solve(*summed(x).covariances(), 1e-9, D)
    with torch.no_grad():
        others = loss(worse.directions[:, 3:], worse.signal[3:].clamp_min(1e-3), rows)
    assert others > closed + 1


def test_held_out_information_is_the_mean_log_ratio_of_pairs():
    fitted, new = views_of(2000), views_of(300, seed=1)
    solution = solve(*summed(fitted).covariances(), 0.1, D)
    found = held_out(solution, summed(new)).information
    y = (new - new.mean((0, 1))) @ solution.directions / (1 + solution.signal).sqrt()
    rho, total = solution.correlation, torch.zeros(D, dtype=torch.float64)
    pairs = [(a, b) for a in range(M) for b in range(M) if a != b]
    for a, b in pairs:
        u, other = y[:, a], y[:, b]
        ratio = rho * u * other - rho**2 * (u**2 + other**2) / 2
        total += (ratio / (1 - rho**2) - torch.log(1 - rho**2) / 2).mean(0) / len(pairs)
    torch.testing.assert_close(found, total, rtol=0.02, atol=0.02)
    assert found[0] > 0.5 and found[4] < 0.05


def test_held_out_correlation_is_that_of_pairs_of_views():
    solution, new = solve(*summed(views_of(2000)).covariances(), 0.1, D), views_of(3000, seed=1)
    y = (new - new.mean((0, 1))) @ solution.directions
    expected = [torch.corrcoef(torch.stack([y[:, 0, j], y[:, 1, j]]))[0, 1] for j in range(D)]
    torch.testing.assert_close(held_out(solution, summed(new)).correlation, torch.stack(expected), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("many", [1, 1000])
def test_noise_is_not_chosen(monkeypatch, many):
    """Of the columns only the shared ones carry over; with many samples one part is held out, else each in turn."""
    monkeypatch.setattr(training, "FEWEST", 1)
    monkeypatch.setattr(training, "MANY", many)
    parts = [views_of(60, seed=seed, signal=(20.0, 5.0, 0.0, 0.0, 0.0)) for seed in range(FOLDS)]
    found = choose(Sums(tuple(summed(part) for part in parts)), (0.03, 0.3), D)
    assert found.n_components == 2
    assert found.information.keys() == {0.03, 0.3}
    assert choose(Sums(tuple(summed(part) for part in parts)), (0.03,), D, 4).n_components == 4


@pytest.mark.parametrize(("nats", "chosen"), [((7.9, 8.0, 7.0, 6.9), 0.1), ((8.0, 6.0, 6.9, 5.0), 0.01)])
def test_the_largest_ridge_with_nearly_all_information_is_chosen(monkeypatch, nats, chosen):
    by_ridge = dict(zip(training.RIDGES, nats, strict=True))
    monkeypatch.setattr(training, "solve", lambda between, within, ridge, k: ridge)

    def found(ridge, moments):
        return training.HeldOut(torch.ones(1), torch.tensor([by_ridge[ridge]]))

    monkeypatch.setattr(training, "held_out", found)
    parts = tuple(summed(views_of(30, seed=seed)) for seed in range(FOLDS))
    assert choose(Sums(parts), training.RIDGES, 1).ridge == chosen


@pytest.mark.parametrize(("n", "parts"), [(40, 5), (50, 2), (200, 1)])
def test_of_more_samples_fewer_parts_are_held_out(monkeypatch, n, parts):
    monkeypatch.setattr(training, "SEVERAL", 250)
    monkeypatch.setattr(training, "MANY", 1000)
    solved = []
    monkeypatch.setattr(training, "solve", lambda *given: solved.append(given) or solve(*given))
    choose(Sums(tuple(summed(views_of(n, seed=seed)) for seed in range(FOLDS))), (0.1,), 2)
    assert len(solved) == parts


def test_the_method_whitens_what_the_views_change():
    x = samples()
    made = fitted(x, GaussianNoise(0.5), n_components=3, ridge=1e-6)
    z = made.represent(x)
    assert z.shape == (300, 3)
    rho = made.framework.encoder.correlation[:3]
    # Noise of .5 on standardized columns of the samples' deviations 5, 2 and 1: signal over noise 100, 16 and 4.
    torch.testing.assert_close(rho, torch.tensor([100 / 101, 16 / 17, 4 / 5]), rtol=0.05, atol=0.02)
    assert made.facts["columns"] == 3 and made.facts["samples_of_views"] == 300
    assert made.represent(x[:1]).allclose(z[:1], atol=1e-5)


def test_the_same_seed_gives_the_same_map_and_another_does_not():
    x = samples()
    one, same = (fitted(x, GaussianNoise(0.5)).framework.encoder.weights for _ in range(2))
    assert torch.equal(one, same)
    other = method((GaussianNoise(0.5),))
    other.initialize(x, 0)
    other.prepare(x, 0)
    other.solve_for(1)
    assert not torch.equal(one, other.framework.encoder.weights)


def test_fewer_samples_are_used_if_there_are_more():
    assert fitted(samples(), GaussianNoise(0.5), max_samples=100).facts["samples_of_views"] == 100


def test_the_first_form_is_a_principal_component_analysis():
    x, encoder = samples(), ProjectedFeatures(Linear(), 2)
    encoder.fit(x, draw())
    y = (x - x.mean(0)) / x.std(0, correction=0)
    _, _, axes = torch.linalg.svd(y, full_matrices=False)
    cosines = (encoder.weights.T @ axes[:2].T).abs()
    assert cosines.max(1).values.min() > 0.999
    assert encoder.n_components == 2


def test_what_hardly_varies_in_samples_but_in_views_is_no_unit_of_noise():
    def views(rows):
        return rows + torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]) * torch.randn(rows.shape, generator=draw(1))

    x, encoder = samples() * torch.tensor([1.0, 1.0, 1.0, 1.0, 1e-4]), ProjectedFeatures(Linear(), 2)
    encoder.fit(x, draw(), views)
    assert encoder.standardized(views(x)).std(0)[4].item() == pytest.approx(10, rel=0.1)
    deviation = encoder.features(x).std(0, correction=0)
    assert torch.equal(encoder.scale[:4], deviation[:4])  # of others it is the unit


def test_the_loss_of_the_framework_is_the_objective():
    made = fitted(samples(), GaussianNoise(0.5), n_components=2)
    pair = made.views(samples()[:20], generator=draw(2))
    encoder = made.framework.encoder
    columns = encoder.columns(pair.first), encoder.columns(pair.second)
    expected = gaussian_contrast(*columns, encoder.correlation[:2])
    torch.testing.assert_close(made.framework(pair), expected)
    assert expected.mean() < math.log(20)


def test_sums_are_the_same_in_parts_and_from_their_tensors():
    made = fitted(samples(), GaussianNoise(0.5))
    sums = made.moments(samples(), 3)
    same = Sums.of(sums.tensors())
    assert all(torch.equal(value, same.tensors()[name]) for name, value in sums.tensors().items())
    assert int(sums.all_but(None).samples) == 300 and int(sums.folds[4].samples) >= 48
    assert int(sums.all_but(4).samples + sums.folds[4].samples) == 300
    double = sums + sums
    assert torch.equal(double.folds[0].second, 2 * sums.folds[0].second)
    made.use(double)
    one = made.represent(samples()[:5])
    made.use(sums)
    torch.testing.assert_close(one.abs(), made.represent(samples()[:5]).abs(), rtol=1e-4, atol=1e-4)


def test_a_time_limit_uses_fewer_samples_and_says_so(recwarn):
    made = fitted(samples(), GaussianNoise(0.5), minutes=1e-9, batch_size=16)
    assert made.facts["samples_of_views"] == training.FOLDS * 16  # each part is held out once


def test_the_time_for_the_features_counts(monkeypatch):
    """The time limit begins when the method is made, not with the first view."""
    waited = [0.0]
    clock = training.time.monotonic
    monkeypatch.setattr(training.time, "monotonic", lambda: clock() + waited[0])
    fit_features = training.LinearContrastMethod.initialize
    monkeypatch.setattr(
        training.LinearContrastMethod,
        "initialize",
        lambda self, *given: (fit_features(self, *given), waited.__setitem__(0, 3600.0))[0],
    )
    with pytest.warns(UserWarning, match="the time was up"):
        fitted(samples(), GaussianNoise(0.5), minutes=5, batch_size=16)


class Mirrored(GaussianNoise):
    """Noise, and a symmetry that reverses the columns."""

    def symmetric_copies(self, x):
        return [x, x.flip(1)]


def test_the_representation_is_the_mean_over_symmetric_copies():
    x = samples()
    made = fitted(x, Mirrored(0.5), n_components=2)
    encoder = made.framework.encoder
    torch.testing.assert_close(made.represent(x), (encoder(x) + encoder(x.flip(1))) / 2)


class Halves(GaussianNoise):
    """Noise, and two parts of a sample."""

    def parts(self, x):
        first = (torch.arange(x.shape[1]) < 2).float()
        return [x * first, x * (1 - first)]

    def share_of_parts(self, x):
        return 0.3


def test_the_representation_has_a_share_of_the_parts():
    x = samples()
    made = fitted(x, Halves(0.5), n_components=2)
    encoder, parts = made.framework.encoder, Halves(0.5).parts(x)
    expected = 0.7 * encoder(x) + 0.3 * (encoder(parts[0]) + encoder(parts[1])) / 2
    torch.testing.assert_close(made.represent(x), expected)


def test_a_constant_column_where_views_change_little():
    x = samples()
    weak, strong = fitted(x, GaussianNoise(3.0)), fitted(x, GaussianNoise(0.001))
    assert weak.framework.encoder.constant == 0
    z = strong.represent(x)
    last = z[:, -1]
    assert z.shape[1] == strong.framework.encoder.n_components and torch.equal(last, last[:1].expand(len(x)))
    length = z[:, :-1].square().sum(1).mean()
    torch.testing.assert_close(last[0].square(), projected.MOST_CONSTANT * length, rtol=0.05, atol=0)
    torch.testing.assert_close(strong.represent(x, "projection").square().sum(1).mean(), length, rtol=1e-4, atol=1e-4)
    given = fitted(x, GaussianNoise(0.001), n_components=2)
    assert given.framework.encoder.constant == 0 and given.represent(x).shape == (300, 2)


def test_columns_are_rotated_so_that_all_are_alike():
    x = samples()
    made = fitted(x, GaussianNoise(0.5), n_components=4)
    columns, z = made.represent(x, "projection"), made.represent(x)
    torch.testing.assert_close(z @ z.T, columns @ columns.T, rtol=1e-4, atol=1e-4)
    spread, turned = columns.std(0), z.std(0)
    assert spread[0] > 3 * spread[3] and turned.max() < 3 * turned.min()


@pytest.mark.parametrize(("spanning", "n", "share"), [(1536, 300, 0.2), (4, 300, 0.2), (1536, 80, 0.5), (1536, 30, 1)])
def test_principal_components_are_appended_the_longer_the_fewer_samples(monkeypatch, spanning, n, share):
    monkeypatch.setattr(projected, "SPANNING", spanning)
    monkeypatch.setattr(projected, "FEW", 2)
    x = samples()[:n]
    made = fitted(x, GaussianNoise(0.5), width=2, appended=3, n_components=2)
    encoder = made.framework.encoder
    z = made.represent(x)
    assert z.shape == (n, 5) and encoder.n_components == 5
    first, appended = (part.square().sum(1).mean() for part in z.split([2, 3], dim=1))
    assert 0.8 * share < appended / first < 1.2 * share
    torch.testing.assert_close(made.represent(x, "projection").square().sum(1).mean(), first, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The weights in each of two processes."""
    return tensors_of_pair(work)


def test_two_processes_equal_one(of_two):
    expected = fitted(samples(), GaussianNoise(0.5)).framework.encoder.state_dict()
    for found in of_two:
        torch.testing.assert_close(found, dict(expected), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(*of_two, rtol=0, atol=0)
