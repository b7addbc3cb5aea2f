"""Statistics of the fixed view makers of vectors, and of masked and thinned counts."""

import math
from functools import reduce

import numpy as np
import pytest
import torch

from drawn import draw
from refusals import refusal
from viewsmith.modalities.vectors.thinning import count_unit, counted_as
from viewsmith.networks.scaling import Scaler
from viewsmith.views import Corruption, GaussianNoise, Masking, Mixup, NeighborMix, Neighbors, Thinning


def gaussian_rows(n, d, seed=0):
    return torch.randn(n, d, generator=draw(seed))


# --- noise


@pytest.mark.parametrize("distribution", ["gaussian", "uniform"])
@pytest.mark.parametrize("strength", [0.3, 2.0])
def test_noise_has_mean_zero_and_the_strength_as_deviation(distribution, strength):
    x = gaussian_rows(4000, 10, seed=1)
    noise = GaussianNoise(strength, distribution)(x, generator=draw()) - x
    # Four standard errors of 40,000 draws.
    assert float(noise.mean()) == pytest.approx(0, abs=0.02 * strength)
    assert float(noise.std()) == pytest.approx(strength, rel=0.015)
    per_feature = noise.std(0) / strength
    assert per_feature.min() > 0.94 and per_feature.max() < 1.06
    # Noise is independent of the sample and between features.
    assert torch.corrcoef(torch.stack([noise.flatten(), x.flatten()]))[0, 1].abs() < 0.02
    assert torch.corrcoef(noise.T).fill_diagonal_(0).abs().max() < 0.07


def test_uniform_noise_is_uniform_in_its_range():
    x = torch.zeros(20000, 1)
    noise = GaussianNoise(0.5, "uniform")(x, generator=draw()) / (0.5 * 3**0.5)
    assert noise.abs().max() <= 1
    counts = torch.histc(noise, bins=10, min=-1, max=1)
    assert (counts - 2000).abs().max() < 4 * (20000 * 0.1 * 0.9) ** 0.5


# --- corruption


@pytest.fixture(scope="module")
def corrupted():
    """A pool of distinct values, its corruption at 0.6, and the pool's value and row for each value of the view."""
    pool = gaussian_rows(1000, 8)
    maker = Corruption(0.6)
    maker.prepare(pool)
    view = maker(pool, generator=draw())
    order, ranks = pool.sort(dim=0)
    where = torch.searchsorted(order.T.contiguous(), view.T.contiguous()).T
    return pool, view, order.gather(0, where.clamp_max(999)), ranks.gather(0, where.clamp_max(999))


def test_corruption_replaces_the_given_fraction_of_the_values(corrupted):
    pool, view, _, _ = corrupted
    replaced = (view != pool).double()
    error = (0.24 / replaced.numel()) ** 0.5
    assert float(replaced.mean()) == pytest.approx(0.6 * 0.999, abs=4 * error)
    # All values have the same probability, and features are replaced independently.
    assert (replaced.mean(0) - 0.6).abs().max() < 4 * (0.24 / 1000) ** 0.5
    assert float(replaced.sum(1).var()) == pytest.approx(8 * 0.24, rel=0.2)
    assert torch.corrcoef(replaced.T).fill_diagonal_(0).abs().max() < 0.13


def test_corruption_takes_values_of_the_same_feature(corrupted):
    _, view, found, _ = corrupted
    assert torch.equal(found, view)


def test_corruption_takes_each_feature_from_another_row(corrupted):
    pool, view, _, donor = corrupted
    replaced = view != pool
    pairs = same = 0
    for a in range(8):
        for b in range(a):
            both = replaced[:, a] & replaced[:, b]
            pairs += int(both.sum())
            same += int((donor[both, a] == donor[both, b]).sum())
    assert pairs > 8000
    assert same < 30  # the expected fraction is 1 in 1000
    counts = torch.bincount(donor[replaced], minlength=1000).double()
    assert float(counts.var() / counts.mean()) == pytest.approx(1, abs=0.2)  # Poisson: all rows are equally likely


@pytest.mark.parametrize(("rate", "unchanged"), [(0.0, 1.0), (1.0, 0.001)])
def test_corruption_with_extreme_rates(rate, unchanged):
    pool = gaussian_rows(1000, 4)
    maker = Corruption(rate)
    maker.prepare(pool)
    assert float((maker(pool, generator=draw()) == pool).double().mean()) == pytest.approx(unchanged, abs=0.002)


# --- mixtures


@pytest.mark.parametrize("minimum", [0.0, 0.5, 0.9])
def test_mixup_weights_and_partners(minimum):
    # The pool and the sample are different unit vectors, so a mixture shows its weight and its partner.
    n = 5
    pool = torch.eye(n + 1)[:n]
    sample = torch.eye(n + 1)[n:].expand(5000, -1)
    maker = Mixup(minimum)
    maker.prepare(pool)
    view = maker(sample, generator=draw())
    weight, partner = view[:, n], view[:, :n].argmax(1)
    torch.testing.assert_close(view[torch.arange(5000), partner], 1 - weight, rtol=0, atol=1e-6)
    assert (view[:, :n] > 0).sum(1).max() <= 1
    assert minimum <= float(weight.min()) < minimum + 0.01 and 0.99 < float(weight.max()) <= 1
    assert float(weight.mean()) == pytest.approx((1 + minimum) / 2, abs=0.02)
    assert (torch.bincount(partner, minlength=n) - 1000).abs().max() < 4 * (5000 * 0.2 * 0.8) ** 0.5


def test_neighbor_mix_lies_between_a_row_and_one_of_its_neighbors():
    pool, minimum, k = gaussian_rows(30, 3), 0.5, 4
    maker = NeighborMix(k, minimum)
    maker.prepare(pool)
    index = torch.arange(30).repeat(50)
    step = maker(pool[index], index=index, generator=draw()) - pool[index]
    edges = pool[torch.tensor(brute_force(pool, k))[index]] - pool[index][:, None]
    weight = (edges @ step[:, :, None])[..., 0] / edges.square().sum(2)
    fits = (step[:, None] - weight[..., None] * edges).abs().amax(2) < 1e-5
    assert fits.any(1).all()
    assert weight[fits].min() >= -1e-6 and weight[fits].max() <= 1 - minimum + 1e-6
    assert fits.view(50, 30, k).any(0).all()  # every edge is used


# --- neighbors


def brute_force(pool, k):
    found = []
    for i in range(len(pool)):
        distances = [(float(((pool[i] - pool[j]) ** 2).sum()), j) for j in range(len(pool)) if j != i]
        found.append([j for _, j in sorted(distances)[:k]])
    return found


def test_neighbors_are_the_nearest_rows_and_equally_likely():
    n, k, draws = 20, 4, 1000
    pool = gaussian_rows(n, 3)
    maker = Neighbors(k)
    maker.prepare(pool)
    index = torch.arange(n).repeat(draws)
    neighbors = maker.random_neighbors(pool[index], index, draw())
    counts = torch.zeros(n, n).index_put_((index, neighbors), torch.ones(n * draws), accumulate=True)
    assert (counts.diagonal() == 0).all()
    assert [sorted(row.nonzero()[:, 0].tolist()) for row in counts] == [sorted(row) for row in brute_force(pool, k)]
    expected = draws / k
    chi_square = ((counts[counts > 0] - expected) ** 2 / expected).sum()
    assert chi_square < 60 + 5 * 120**0.5  # n (k - 1) = 60 degrees of freedom
    view = maker(pool[index], index=index, generator=draw())
    assert torch.equal(view, pool[neighbors])


def test_rows_outside_the_pool_find_their_neighbors_in_it():
    pool, new = gaussian_rows(30, 3), gaussian_rows(6, 3, seed=1)
    maker = Neighbors(3)
    maker.prepare(pool)
    neighbors = maker.random_neighbors(new.repeat(200, 1), None, draw()).view(200, 6)
    for i, row in enumerate(new):
        nearest = (pool - row).square().sum(1).topk(3, largest=False).indices
        assert set(neighbors[:, i].tolist()) == set(nearest.tolist())


def test_neighbors_are_searched_in_the_given_space():
    # By the second feature only, rows 0 and 3 are neighbors, and rows 1 and 2.
    pool = torch.tensor([[0.0, 0.0], [0.1, 5.0], [9.0, 5.1], [9.1, 0.1]])
    by_second = Neighbors(1, lambda x: x[:, 1:])
    plain = Neighbors(1)
    index = torch.arange(4)
    for maker, partner in ((by_second, [3, 2, 1, 0]), (plain, [1, 0, 3, 2])):
        maker.prepare(pool)
        assert maker.random_neighbors(pool, index, draw()).tolist() == partner
        assert torch.equal(maker(pool, index=index, generator=draw()), pool[partner])


def test_a_small_pool_has_fewer_neighbors():
    pool = gaussian_rows(3, 2)
    maker = Neighbors(5)
    maker.prepare(pool)
    assert maker.edges.shape == (3, 2)
    assert maker(pool, index=torch.arange(3), generator=draw()).shape == (3, 2)


def test_duplicate_rows_are_neighbors():
    pool = gaussian_rows(6, 3)
    pool[4] = pool[1]
    maker = Neighbors(1)
    maker.prepare(pool)
    assert maker.edges[1].tolist() == [4] and maker.edges[4].tolist() == [1]


both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def counts_of_cells(cells=40, genes=30, seed=0):
    """Counts of very different depth; cells without a count, with equal counts, and with a smallest count of 3."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.4, 2.0, (1, genes)) * rng.gamma(2.0, 1.0, (cells, 1))).astype(np.float64)
    counts[0] = 0
    counts[1, :2] = 900, 7
    counts[2] = 0
    counts[2, :4] = 3, 5, 0, 11
    return counts


def log_normalized(counts, total=1e4):
    made = np.zeros_like(counts)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            made[i, j] = math.log1p(count / row.sum() * total) if count else 0.0
    return made


def scaled(rows, scaling, dtype):
    layer = Scaler(rows.shape[1]).to(dtype)
    x = torch.from_numpy(rows).to(dtype)
    layer.fit(x, scaling)
    return layer, layer(x)


# --- masking


@pytest.mark.parametrize(("scaling", "dtype"), [("global", torch.float64), ("standard", torch.float32)])
def test_masked_values_are_zero_in_the_units_of_the_data_and_others_unchanged(scaling, dtype):
    rows = np.random.default_rng(0).gamma(2.0, size=(400, 9)) + 0.5
    layer, x = scaled(rows, scaling, dtype)
    zero = layer(torch.zeros(1, 9, dtype=dtype))[0]
    view = Masking(0.3, zero)(x, generator=draw())
    drawn = torch.rand(x.shape, generator=draw(), dtype=dtype)
    for i in range(len(x)):
        for j in range(9):
            assert view[i, j] == (zero[j] if drawn[i, j] < 0.3 else x[i, j])
    masked = view != x
    assert float(masked.double().mean()) == pytest.approx(0.3, abs=4 * (0.21 / masked.numel()) ** 0.5)
    assert layer.inverse(view)[masked].abs().max() < 1e-6


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_masking_nothing_and_everything(rate):
    x = torch.randn(5, 4, generator=draw())
    assert torch.equal(Masking(rate)(x, generator=draw()), x * (1 - rate))


# --- the unit of counts


@both_dtypes
def test_the_unit_is_the_greatest_common_divisor_of_a_row(dtype):
    counts = counts_of_cells()
    counts[3, :3] = 2, 4, 8
    counts[3, 3:] = 0
    factors = np.random.default_rng(1).gamma(3.0, 4.0, len(counts))
    unit = count_unit(torch.from_numpy(counts * factors[:, None]).to(dtype))
    for row, factor, found in zip(counts.astype(int), factors, unit, strict=True):
        divisor = reduce(math.gcd, row.tolist()) or 1 / factor
        assert float(found) == pytest.approx(factor * divisor, rel=1e-5)


def test_counts_and_log_normalized_counts_are_distinguished():
    counts = counts_of_cells().astype(np.float32)
    assert counted_as(counts) == "counts"
    assert counted_as(log_normalized(counts).astype(np.float32)) == "log1p"
    # Normalized over more genes than are kept, as after a choice of variable genes.
    kept = log_normalized(counts_of_cells())[:, 5:25].astype(np.float32)
    assert counted_as(kept) == "log1p"


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (lambda x: np.random.default_rng(0).random(x.shape), 0),
        (lambda x: x - np.eye(*x.shape), 0),
        (lambda x: np.where(np.arange(len(x))[:, None] == 9, x * 1.01, x), 9),
        (lambda x: np.where(np.arange(len(x))[:, None] == 4, np.nan, x), 4),
    ],
    ids=["fractions", "negative", "one other row", "missing"],
)
def test_other_values_are_refused_with_their_row(change, row):
    x = change(log_normalized(counts_of_cells())).astype(np.float32)
    line = refusal(counted_as, x)
    assert "views 'thinning' need counts" in line and f" row {row} (counted from 0) is neither" in line


# --- thinning


@pytest.mark.parametrize(("scaling", "dtype"), [("global", torch.float64), ("standard", torch.float32)])
def test_thinning_of_log_normalized_counts_is_that_of_a_loop(scaling, dtype):
    counts = counts_of_cells()
    layer, x = scaled(log_normalized(counts), scaling, dtype)
    view = Thinning(layer, 0.3, "log1p")(x, generator=draw())
    expected = torch.from_numpy(counts).to(dtype)
    kept = torch.binomial(expected, torch.full_like(expected, 0.3), generator=draw()).double().numpy()
    made = torch.from_numpy(log_normalized(kept)).to(dtype)
    tolerance = 1e-3 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(layer.inverse(view)[3:], made[3:], rtol=tolerance, atol=tolerance)
    assert torch.equal(layer.inverse(view)[0].round(decimals=4), torch.zeros_like(made[0]))


@both_dtypes
def test_raw_counts_stay_counts(dtype):
    counts = torch.from_numpy(counts_of_cells()).to(dtype)
    layer, x = scaled(counts_of_cells(), "global", dtype)
    view = layer.inverse(Thinning(layer, 0.5)(x, generator=draw()))
    kept = torch.binomial(counts, torch.full_like(counts, 0.5), generator=draw())
    torch.testing.assert_close(view, kept, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(Thinning(None, 0.5)(counts, generator=draw()), kept)


def test_thinned_counts_have_the_mean_and_variance_of_a_binomial():
    counts = torch.tensor([[20.0, 3.0, 1.0, 0.0]]).expand(20_000, -1)
    kept = Thinning(None, 0.25)(counts, generator=draw()).double()
    torch.testing.assert_close(kept.mean(0), 0.25 * counts[0].double(), rtol=0, atol=0.06)
    torch.testing.assert_close(kept.var(0), 0.1875 * counts[0].double(), rtol=0.05, atol=0)
    assert torch.corrcoef(kept[:, :3].T).fill_diagonal_(0).abs().max() < 0.03


def test_outside_of_training_other_values_are_refused():
    layer, _ = scaled(log_normalized(counts_of_cells()), "global", torch.float32)
    maker = Thinning(layer, 0.5, "log1p")
    others = torch.rand(3, 30, generator=draw())
    assert maker(others, generator=draw()).isfinite().all()
    assert "a sample is neither" in refusal(maker.eval(), others, generator=draw())
