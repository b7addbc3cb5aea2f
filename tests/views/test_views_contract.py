"""The contract of all view makers, for vectors."""

import pytest
import torch

from viewsmith.views import Corruption, GaussianNoise, Identity, Mixup, NeighborMix, Neighbors, PiNoise

D = 6
MAKERS = {
    "identity": lambda: Identity(),
    "gaussian noise": lambda: GaussianNoise(0.5),
    "uniform noise": lambda: GaussianNoise(0.5, "uniform"),
    "corruption": lambda: Corruption(0.6),
    "mixup": lambda: Mixup(0.5),
    "neighbor-mix": lambda: NeighborMix(3),
    "neighbors": lambda: Neighbors(3),
    "pi-noise": lambda: PiNoise.for_vectors(D, hidden=(8,), strength=0.5),
    "pi-noise, free": lambda: PiNoise.for_vectors(D, hidden=(8,), level="free"),
    "pi-noise, uniform": lambda: PiNoise.for_vectors(D, hidden=(8,), distribution="uniform"),
    "pi-noise, mean": lambda: PiNoise.for_vectors(D, hidden=(8,), learn_mean=True),
    "pi-noise, adversarial": lambda: PiNoise.for_vectors(D, hidden=(8,), adversarial=True),
}
NEED_POOL = ("corruption", "mixup", "neighbor-mix", "neighbors")
every_maker = pytest.mark.parametrize("name", MAKERS)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
with_and_without_index = pytest.mark.parametrize("indexed", [True, False], ids=["rows of the pool", "other rows"])


def rows(n, seed, dtype=torch.float32):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def prepared(name, dtype=torch.float32, indexed=True):
    """A prepared maker, a batch, and its rows in the pool (or None)."""
    torch.manual_seed(0)
    pool = rows(20, 1, dtype)
    maker = MAKERS[name]().to(dtype)
    maker.prepare(pool)
    index = torch.tensor([3, 0, 19, 7, 7]) if indexed else None
    return maker, (pool[index] if indexed else rows(5, 2, dtype)), index


def draw(seed):
    return torch.Generator().manual_seed(seed)


@every_maker
@both_dtypes
@with_and_without_index
def test_shape_and_dtype_are_preserved(name, dtype, indexed):
    maker, x, index = prepared(name, dtype, indexed)
    view = maker(x, index=index, generator=draw(0))
    assert view.shape == x.shape and view.dtype == dtype and view.device == x.device
    assert view.isfinite().all()


@every_maker
@with_and_without_index
def test_a_draw_can_be_replayed(name, indexed):
    maker, x, index = prepared(name, indexed=indexed)
    one, again, other = (maker(x, index=index, generator=draw(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert torch.equal(one, other) == (name == "identity")


@every_maker
@with_and_without_index
def test_the_input_and_the_global_generator_do_not_change(name, indexed):
    maker, x, index = prepared(name, indexed=indexed)
    pool = None if maker.pool is None else maker.pool.clone()
    before, state = x.clone(), torch.get_rng_state()
    view = maker(x, index=index, generator=draw(0))
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert pool is None or torch.equal(maker.pool, pool)
    if name != "identity":
        view += 1  # views must not share memory with the sample or the pool
        assert torch.equal(x, before) and (pool is None or torch.equal(maker.pool, pool))


@every_maker
def test_rows_are_drawn_independently(name):
    maker, x, index = prepared(name)
    same = x[:1].expand(64, -1)
    views = maker(same, index=index[:1].expand(64), generator=draw(0))
    distinct = {tuple(view.tolist()) for view in views}
    # A row mixed with itself does not change.
    fewest, most = {"identity": (1, 1), "neighbors": (3, 3), "mixup": (50, 64)}.get(name, (64, 64))
    assert fewest <= len(distinct) <= most


@pytest.mark.parametrize("name", NEED_POOL)
@with_and_without_index
def test_a_missing_pool_is_an_error(name, indexed):
    _, x, index = prepared(name, indexed=indexed)
    with pytest.raises(RuntimeError, match=r"needs a pool of rows: call prepare\(rows\) first"):
        MAKERS[name]()(x, index=index, generator=draw(0))


@every_maker
def test_the_pool_is_not_saved(name):
    maker, _, _ = prepared(name)
    assert (maker.pool is not None) == (name in NEED_POOL)
    assert all(key.startswith("network.") for key in maker.state_dict())
    assert bool(maker.state_dict()) == name.startswith("pi-noise")


@every_maker
def test_a_batch_of_one_row(name):
    maker, x, index = prepared(name)
    assert maker(x[:1], index=index[:1], generator=draw(0)).shape == (1, D)
