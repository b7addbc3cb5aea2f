"""Label-free diagnostics against numpy loops, and on collapsed representations."""

import math

import numpy as np
import pytest
import torch

from viewsmith.losses import alignment, effective_rank, feature_std, uniformity
from viewsmith.losses.diagnostics import told_apart, view_distance

DTYPES = (torch.float64, torch.float32)


def rows(n=9, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 0.3


def at_length_one(h):
    return np.array([row / np.sqrt(sum(v * v for v in row)) for row in h])


def slow_feature_std(h):
    u = at_length_one(h)
    stds = []
    for column in u.T:
        mean = sum(column) / len(column)
        stds.append(math.sqrt(sum((v - mean) ** 2 for v in column) / (len(column) - 1)))
    return sum(stds) / len(stds) * math.sqrt(h.shape[1])


def slow_effective_rank(h):
    # Singular values from the eigenvalues of the Gram matrix.
    centered = h - h.mean(0)
    values = np.sqrt(np.clip(np.linalg.eigvalsh(centered.T @ centered), 0, None))
    fractions = values / values.sum()
    return math.exp(-sum(p * math.log(p) for p in fractions if p > 1e-9))


def slow_uniformity(h, t=2.0):
    u = at_length_one(h)
    potentials = [math.exp(-t * sum((u[i] - u[j]) ** 2)) for i in range(len(u)) for j in range(len(u)) if i != j]
    return math.log(sum(potentials) / len(potentials))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("fast", "slow"),
    [(feature_std, slow_feature_std), (effective_rank, slow_effective_rank), (uniformity, slow_uniformity)],
)
def test_diagnostics_equal_the_loops(fast, slow, dtype):
    h = rows()
    found = fast(torch.from_numpy(h).to(dtype))
    assert found.shape == () and found.dtype == dtype
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert float(found) == pytest.approx(slow(h), rel=tolerance, abs=tolerance)


def test_uniformity_with_another_t():
    h = rows()
    assert float(uniformity(torch.from_numpy(h), t=0.5)) == pytest.approx(slow_uniformity(h, 0.5), rel=1e-10)


def test_alignment_equals_the_loop():
    h0, h1 = rows(seed=1), rows(seed=2)
    u0, u1 = at_length_one(h0), at_length_one(h1)
    expected = sum(sum((a - b) ** 2) for a, b in zip(u0, u1, strict=True)) / len(u0)
    assert float(alignment(torch.from_numpy(h0), torch.from_numpy(h1))) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("n", "value", "dtype"), [(7, 0.0, DTYPES[0]), (10, 0.1, DTYPES[0]), (7, 0.1, DTYPES[1]), (100, 1e3, DTYPES[1])]
)
def test_values_of_a_constant_representation(n, value, dtype):
    # The mean of equal numbers is rounded. The remaining differences must not count as a direction.
    h = torch.full((n, 5), value, dtype=dtype) * torch.arange(1, 6, dtype=dtype)
    assert float(effective_rank(h)) == 0
    assert float(feature_std(h)) == pytest.approx(0, abs=1e-6)
    assert float(uniformity(h)) == pytest.approx(0, abs=1e-5)


def test_rows_on_a_line_have_effective_rank_one_at_any_scale():
    direction = torch.randn(6, generator=torch.Generator().manual_seed(0))
    for scale in (1.0, 1e-8):
        h = scale * torch.linspace(-1, 1, 20)[:, None] * direction
        assert float(effective_rank(h)) == pytest.approx(1, abs=1e-3)


def test_values_of_a_normal_sample():
    h = torch.randn(2000, 32, generator=torch.Generator().manual_seed(0))
    assert float(feature_std(h)) == pytest.approx(1, abs=0.01)
    assert 31 < float(effective_rank(h)) <= 32
    assert float(uniformity(h)) == pytest.approx(-3.78, abs=0.05)  # E exp(-2 d^2) over the sphere in 32 dimensions


def test_the_distance_of_views_equals_the_loop():
    x, v = (rng.normal(size=(9, 3)) for rng in (np.random.default_rng(0), np.random.default_rng(1)))
    others = [[j for j in range(9) if j != i] for i in range(9)]
    own = np.sort([min(np.linalg.norm(x[i] - x[j]) for j in others[i]) for i in range(9)])[4]
    other = np.sort([min(np.linalg.norm(v[i] - x[j]) for j in others[i]) for i in range(9)])[4]
    for dtype, rel in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        found = view_distance(torch.from_numpy(x).to(dtype), torch.from_numpy(v).to(dtype))
        assert float(found) == pytest.approx(other / own, rel=rel)


def test_views_are_told_apart_as_by_ridge_regression():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5))
    v = x + rng.normal(size=x.shape)
    is_view = np.arange(80) % 2 == 1
    axes = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:3]
    z = (np.where(is_view[:, None], v, x) - x.mean(0)) @ axes.T / ((x - x.mean(0)) @ axes.T).std(0, ddof=1)
    features = np.concatenate([z, z**2, np.ones((80, 1))], 1)
    half, right = np.arange(80) // 2 % 2 == 1, 0
    for held in (half, ~half):
        model = Ridge(alpha=1, fit_intercept=False).fit(features[~held], np.where(is_view, 1, -1)[~held])
        right += ((model.predict(features[held]) > 0) == is_view[held]).sum()
    assert float(told_apart(torch.from_numpy(x), torch.from_numpy(v), components=3)) == pytest.approx(right / 80)


def test_views_of_the_same_kind_are_not_told_apart():
    x, v = torch.randn(2, 400, 6, generator=torch.Generator().manual_seed(0))
    assert 0.4 < float(told_apart(x, v)) < 0.6 and 0.9 < float(view_distance(x, v)) < 1.1
    assert float(told_apart(x, v + 2)) > 0.95 and float(told_apart(x, 4 * v)) > 0.8
    assert float(view_distance(x, v + 4)) > 3
