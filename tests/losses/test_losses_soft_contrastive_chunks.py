"""The soft contrastive loss in chunks, and its numerical precision."""

import importlib

import pytest
import torch
from soft_contrastive_cases import DTYPES, TOLERANCE, every_setting, gradients, inputs, shown, slow
from test_losses_chunked import Largest, equal

from drawn import normal
from viewsmith.losses import soft_contrastive

module = importlib.import_module("viewsmith.losses.soft_contrastive")


def set_chunk_size(monkeypatch, pairs, stored=0):
    monkeypatch.setattr(module, "CHUNK_CPU", pairs)
    monkeypatch.setattr(module, "MAX_STORED", stored)


@pytest.mark.parametrize(
    ("stored", "rows", "dtype"), [(0, 1, DTYPES[0]), (0, 100, DTYPES[1]), (10**6, 3, DTYPES[0]), (10**6, 3, DTYPES[1])]
)
@every_setting
def test_chunks_equal_the_whole(setting, stored, rows, dtype, monkeypatch):
    given = inputs(7, dtype)
    leaves = given if not setting.get("detach", True) else given[:2]
    whole = soft_contrastive(*given, ids=shown("other"), form="plain", **setting)
    set_chunk_size(monkeypatch, 7 * rows, stored)
    found = soft_contrastive(*given, ids=shown("other"), **setting)
    torch.testing.assert_close(found, whole, **TOLERANCE[dtype])
    for one, other in zip(gradients(found, leaves), gradients(whole, leaves), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


def test_chunks_have_linear_memory(monkeypatch):
    set_chunk_size(monkeypatch, 5000)
    z0, z1, y0, _ = inputs(500)
    with Largest() as largest:
        soft_contrastive(z0, z1, y0, ids=(torch.arange(500),) * 2).mean().backward()
    assert largest.elements <= 5000


def test_slopes_of_large_batches_are_not_stored(monkeypatch):
    set_chunk_size(monkeypatch, 50, stored=99)
    large, small = (soft_contrastive(*inputs(rows)).grad_fn for rows in (10, 9))
    assert large.stored is None and sum(slopes[0].numel() for slopes in small.stored) == 81


@pytest.mark.parametrize("kind", ["same", "other"])
@pytest.mark.parametrize("chunked", [True, False])
def test_gathered_parts_equal_rows_of_the_whole(chunked, kind, monkeypatch):
    z0, z1, y0, y1 = inputs(7)
    setting = {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.3, "detach": False, "beta": 0.2}
    ids = shown(kind)
    expected = soft_contrastive(z0, z1, y0, y1, ids=ids, **setting)
    if chunked:
        set_chunk_size(monkeypatch, 14)
    found = [
        soft_contrastive(
            z0[p], z1[p], y0[p], y1[p], ids=(ids[0][p], ids[1]), gathered=(z1, y1), offset=p.start, **setting
        )
        for p in (slice(0, 3), slice(3, 7))
    ]
    equal(torch.cat(found), expected, (z0, z1, y0, y1))


# --- precision


def map_of_clusters(rows=60, spread=30.0, within=0.05):
    """Both views of small clusters on a large map, and their representations."""
    cluster = torch.arange(rows) % 6
    z = spread * normal(6, 2)[cluster] + within * normal(2, rows, 2, seed=1)
    return *z, 2 * normal(6, 16, seed=2)[cluster] + 0.1 * normal(rows, 16, seed=3)


@pytest.mark.parametrize("nu", [0.01, 0.1, 1.0])
def test_gradients_of_a_large_map_are_precise_in_float32(nu):
    # Squared distances within clusters are a millionth of those between clusters, below the precision of a float32
    # product.
    single = [x.float().requires_grad_(i < 2) for i, x in enumerate(map_of_clusters())]
    double = [x.detach().double().requires_grad_(i < 2) for i, x in enumerate(single)]
    found, expected = (soft_contrastive(*given, nu=nu, negative_weight=0.1) for given in (single, double))
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)
    for one, other in zip(gradients(found, single[:2]), gradients(expected, double[:2]), strict=True):
        assert float((one - other).norm() / other.norm()) < 1e-3


def test_one_minus_q_is_precise_for_close_points():
    # At nu 100 and distances of 1e-3, Q is 1 to six digits. In float32, 1 - Q is precise only with expm1.
    z, y = 1e-3 * normal(2, 8, 2), 3 * normal(8, 12, seed=1)
    single = [x.float().requires_grad_() for x in z]
    double = [x.detach().double().requires_grad_() for x in single]
    setting = {"nu": 100.0, "floor": 1e-12}
    found, expected = soft_contrastive(*single, y.float(), **setting), slow(*double, y.float().double(), **setting)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)
    for one, other in zip(gradients(found, single), gradients(expected, double), strict=True):
        assert float((one - other).norm() / other.norm()) < 1e-4


@pytest.mark.parametrize("form", ["chunked", "plain"])
@pytest.mark.parametrize("which", ["projections", "representations"])
def test_wide_points_that_are_close_to_each_other_and_far_from_the_origin(which, form):
    # Products in float32 give squared distances with an error of some units. Below -nu, the logarithm is undefined.
    near = (1000 + normal(1, 24) + 1e-4 * normal(40, 24, seed=1)).float()
    z, y = (near, 3 * normal(40, 24, seed=2).float()) if which == "projections" else (normal(40, 24).float(), near)
    given = [x.clone().requires_grad_() for x in (z, z, y)]
    losses = soft_contrastive(*given, nu=0.01, nu_target=0.01, detach=False, form=form)
    losses.sum().backward()
    assert losses.isfinite().all() and all(x.grad.isfinite().all() for x in given)


def test_wide_projections_in_float32():
    # Products of points wider than a map are in float32. This is precise enough for distances of some units.
    z = normal(2, 20, 24)
    y = 0.3 * normal(20, 24, seed=1)
    single = [x.float().requires_grad_() for x in z]
    found, expected = soft_contrastive(*single, y.float(), nu=10.0), soft_contrastive(*z, y, nu=10.0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)


def test_half_precision_is_converted_to_float32():
    z0, z1, y0, y1 = (x.detach().bfloat16() for x in inputs())
    found = soft_contrastive(z0, z1, y0, y1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, soft_contrastive(z0.float(), z1.float(), y0.float(), y1.float()))


def test_float32_and_float64_inputs_give_float64():
    z0, z1, y0, y1 = (x.detach() for x in inputs())
    found = soft_contrastive(z0.requires_grad_(), z1, y0.float(), y1.float())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, soft_contrastive(z0, z1, y0.float().double(), y1.float().double()))
    found.sum().backward()
    assert z0.grad.dtype == torch.float64
