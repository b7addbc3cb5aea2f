"""Statistics of the fixed view makers of vectors."""

import pytest
import torch

from drawn import draw
from viewsmith.views import Corruption, GaussianNoise, Mixup, NeighborMix, Neighbors


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
