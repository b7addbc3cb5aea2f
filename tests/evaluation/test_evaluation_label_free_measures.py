"""RankMe, LiDAR, alpha-ReQ and the overlap of neighbors against slow loops, and on cases with a known answer."""

import math

import numpy as np
import pytest

from viewsmith.evaluation.label_free import EPSILON, MEASURES, alpha_req, lidar, measures, neighbor_r2, rankme

H = np.random.default_rng(0).normal(size=(40, 6)) @ np.diag([5, 3, 2, 1, 0.5, 0.1])


def entropy_number(values):
    total, entropy = sum(values), 0.0
    for value in values:
        p = value / total + EPSILON
        entropy -= p * math.log(p)
    return math.exp(entropy)


def test_rankme_against_a_loop():
    """Singular values are the roots of the eigenvalues of h^T h."""
    gram = np.zeros((6, 6))
    for row in H:
        for i in range(6):
            for j in range(6):
                gram[i, j] += row[i] * row[j]
    singular = [math.sqrt(max(value, 0)) for value in np.linalg.eigvalsh(gram)]
    assert rankme(H) == pytest.approx(entropy_number(singular))
    assert rankme(np.eye(5)) == pytest.approx(5, abs=1e-4) and rankme(np.zeros((4, 3))) == 0
    assert rankme(np.ones((9, 4))) == pytest.approx(1, abs=1e-4)


def test_lidar_against_a_loop():
    views = H[:12, None, :4] + 0.5 * np.random.default_rng(1).normal(size=(12, 5, 4)) * [1, 2, 0.5, 1]
    n, q, d = views.shape
    means = [views[i].mean(axis=0) for i in range(n)]
    mean = sum(means) / n
    between, within = np.zeros((d, d)), 1e-4 * np.eye(d)
    for i in range(n):
        between += np.outer(means[i] - mean, means[i] - mean) / n
        for j in range(q):
            within += np.outer(views[i, j] - means[i], views[i, j] - means[i]) / (n * q)
    values = np.linalg.eigvals(np.linalg.inv(within) @ between).real  # those of the symmetric form
    assert lidar(views) == pytest.approx(entropy_number(sorted(values, reverse=True)), rel=1e-6)


def test_lidar_counts_directions_that_tell_samples_apart():
    rng = np.random.default_rng(2)
    sample = np.zeros((100, 1, 6))
    sample[:, 0, :2] = rng.normal(size=(100, 2))
    assert lidar(sample + 0.1 * rng.normal(size=(100, 20, 6))) == pytest.approx(2, abs=0.4)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_alpha_is_the_exponent_of_the_spectrum(alpha):
    axes = np.linalg.qr(np.random.default_rng(3).normal(size=(400, 50)) - 0)[0]
    axes -= axes.mean(axis=0)
    axes = np.linalg.qr(axes)[0]  # centered and orthogonal: the covariance has the given spectrum
    h = axes * np.arange(1, 51) ** (-alpha / 2)
    assert alpha_req(h) == pytest.approx(alpha, abs=1e-6)
    assert math.isnan(alpha_req(h[:, :2])) and math.isnan(alpha_req(np.ones((5, 4))))


def test_all_measures_are_those_of_their_functions(digits):
    """Of a model whose representation is its input, and whose views are scaled rows."""
    x, x_test = digits[:200].astype(np.float64), digits[200:260].astype(np.float64)

    class Model:
        transform = staticmethod(lambda rows: rows)
        scaled = staticmethod(lambda rows: rows.astype(np.float32))
        represented_views = staticmethod(lambda rows, pool: 2 * rows)

        def views(self, rows, count, random_state, pool):
            assert pool is x and random_state == 0
            return np.stack([rows * (1 + 0.1 * j) for j in range(1, count + 1)], axis=1)

    found = measures(x, x_test, (x, x_test), model=Model(), x=x, x_test=x_test)
    assert list(found) == list(MEASURES) and np.isfinite([*found.values()]).all()
    assert found["rankme"] == rankme(x_test) and found["alpha"] == alpha_req(x_test)
    assert found["neighbor_r2"] == neighbor_r2(x, x_test, x, x_test)
    assert found["lidar"] == lidar(Model().views(x_test, 8, 0, x))
    assert found["alignment"] == pytest.approx(0, abs=1e-5)  # the direction is the same
    without = measures(x, x_test, (x, x_test))
    assert {name for name in MEASURES if np.isnan(without[name])} == {"lidar", "alignment", "told_apart"}
    assert measures(x, x_test[:7], (x, x_test[:7]), model=Model(), x=x, x_test=x_test[:7])["rankme"] > 0
