"""The soft contrastive loss against a slow, obvious double loop; in chunks, and its precision."""

import importlib
import itertools
import math

import pytest
import torch
from soft_contrastive_cases import DTYPES, TOLERANCE, every_setting, gradients, inputs, shown, slow
from test_losses_chunked import Largest, equal

from cases import covering
from drawn import normal
from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.losses import soft_contrastive
from viewsmith.losses.soft_contrastive import default_negative_weight, log_kernel


@pytest.mark.parametrize(
    ("paired", "dtype", "form"),
    [
        (True, DTYPES[0], "chunked"),
        (False, DTYPES[1], "chunked"),
        (True, DTYPES[1], "plain"),
        (False, DTYPES[0], "plain"),
    ],
    ids=str,
)
@every_setting
def test_the_loss_equals_the_double_loop(setting, paired, dtype, form):
    z0, z1, y0, y1 = inputs(dtype=dtype)
    given = (z0, z1, y0, y1) if paired else (z0, z1, y0)
    found, expected = soft_contrastive(*given, form=form, **setting), slow(*given, **setting)
    assert found.shape == (6,) and found.dtype == dtype
    torch.testing.assert_close(found, expected, **TOLERANCE[dtype])
    for one, other in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("nu_target", "nu", "kernel", "dtype"),
    covering(itertools.product((0.01, 100.0), (0.01, 0.1, 1.0, 10.0, 100.0), ("paper", "published", "plain"), DTYPES)),
)
def test_equal_and_distant_points(nu_target, nu, kernel, dtype):
    # Second views: equal to its first view, equal to another first view, at distance 1000, close to its first view.
    z0, z1 = normal(2, 5, 2)
    z1[0], z1[1], z1[2, 0], z1[3] = z0[0], z0[4], 1e3, z0[3] + 1e-2
    # Representations: equal, close, and as distant as possible with finite squares in float32.
    y0, y1 = 0.5 * normal(2, 5, 12, seed=1)
    y1[0], y1[1], y1[2], y0[4] = y0[0], y0[2], 1e15, -1e9
    given = [x.to(dtype).requires_grad_() for x in (z0, z1, y0, y1)]
    exact = [x.detach().double().requires_grad_() for x in given]
    setting = {"nu": nu, "nu_target": nu_target, "kernel": kernel, "negative_weight": 0.3, "floor": 1e-4}
    found, expected = soft_contrastive(*given, **setting), slow(*exact, **setting)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    assert found.isfinite().all()
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    for one, other in zip(gradients(found, given[:2]), gradients(expected, exact[:2]), strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def test_only_the_plain_form_can_be_differentiated_twice():
    given = [x.detach().requires_grad_(i < 2) for i, x in enumerate(inputs(4))]
    assert torch.autograd.gradgradcheck(lambda *x: soft_contrastive(*x, nu=1.0, form="plain"), given)
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(soft_contrastive(*given).sum(), given[0], create_graph=True)


def test_a_second_backward_pass_gives_the_same_gradient():
    given = inputs()
    loss = soft_contrastive(*given, detach=False).sum()
    one, other = (torch.autograd.grad(loss, given, retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_at_distance_zero(dtype):
    # Peaks of the published kernel: 0.0155 at nu 0.01, 0.636 at 1, 0.9945 at 100.
    zero = torch.zeros((), dtype=dtype)
    assert float(log_kernel(zero, 3.0)) == 0
    for nu, peak in ((0.01, 0.0155), (1.0, 0.636), (100.0, 0.9945)):
        assert float(log_kernel(zero, nu, "published").exp()) == pytest.approx(peak, abs=6e-4)
    assert float(log_kernel(zero, 1.0, "paper").exp()) == pytest.approx(1 / math.pi, rel=1e-5)


@pytest.mark.parametrize("nu", [0.01, 1.0, 100.0])
def test_the_paper_kernel_is_the_density_of_students_t(nu):
    points = torch.tensor([0.0, 0.3, 2.0, 10.0]).double()
    density = torch.distributions.StudentT(torch.tensor(nu, dtype=torch.float64)).log_prob(points)
    torch.testing.assert_close(log_kernel(points.square(), nu, "paper"), density, rtol=1e-9, atol=1e-9)
    # Published: its square times 6.28. Plain: the published kernel divided by its value at distance 0.
    published = log_kernel(points.square(), nu, "published")
    torch.testing.assert_close(published, 2 * density + math.log(6.28), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(log_kernel(points.square(), nu), published - published[0], rtol=1e-9, atol=1e-9)


def test_targets_get_a_gradient_only_without_detach():
    z0, z1, y0, _ = inputs()
    soft_contrastive(z0, z1, y0, nu_target=2.0).sum().backward()
    assert y0.grad is None and z0.grad.abs().min() > 0
    soft_contrastive(z0, z1, y0, nu_target=2.0, detach=False).sum().backward()
    assert y0.grad.abs().min() > 0


def test_clipped_targets_get_no_gradient():
    # Beta raises the targets of view pairs above 1, where they are clipped. Other pairs still get a gradient.
    z0, z1, y0, _ = inputs()
    y1 = (y0 + 0.05 * normal(6, 4, seed=4)).detach().requires_grad_()
    given, setting = (z0, z1, y0, y1), {"nu": 1.0, "nu_target": 2.0, "beta": 1.0, "detach": False}
    found, expected = soft_contrastive(*given, **setting), slow(*given, **setting)
    for one, other in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[torch.float64])


def test_the_floor_bounds_the_repulsion_of_equal_points():
    z0, z1 = torch.tensor([[0.0], [5.0]]).double(), torch.tensor([[5.0], [5.0]]).double()
    y = torch.tensor([[0.0], [1e6]]).double()
    for floor in (1e-2, 1e-5, 1e-9):
        # First view 1 equals both second views. Second view 0 belongs to another sample, with P = 0.
        found = soft_contrastive(z0, z1, y, floor=floor)[1]
        assert float(found) == pytest.approx(-math.log(floor), rel=1e-9)


def test_distant_positives_still_attract():
    # The gradient of the published log(Q + 1e-5) is zero here.
    z0 = torch.tensor([[1e3, 0.0]]).double().requires_grad_()
    soft_contrastive(z0, torch.zeros(1, 2).double(), torch.zeros(1, 3).double(), nu=0.01).sum().backward()
    assert float(z0.grad[0, 0]) == pytest.approx(2 * 1.01 / 1e3, rel=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["same", "other"])
@pytest.mark.parametrize("form", ["chunked", "plain"])
def test_views_of_the_same_row_are_excluded(form, kind, dtype):
    given = inputs(7, dtype)
    setting = {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.3, "detach": False, "ids": shown(kind)}
    found, expected = soft_contrastive(*given, form=form, **setting), slow(*given, **setting)
    torch.testing.assert_close(found, expected, **TOLERANCE[dtype])
    for one, other in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


def test_default_weight_of_negatives():
    # Maps and heavy tails: five repulsions per attraction at any batch size.
    for width, nu in ((2, 0.1), (8, 10.0), (32, 1.0), (32, 0.1)):
        assert default_negative_weight(width, nu, 256) * 255 == pytest.approx(5)
    assert default_negative_weight(9, 1.5, 256) == default_negative_weight(64, 10.0, 4096) == 1
    assert default_negative_weight(2, 0.1, 1) == 5


@pytest.mark.parametrize("wrong", [{"nu": 0.0}, {"nu_target": -1.0}, {"floor": -1e-5}, {"nu": math.nan}])
def test_settings_out_of_range_are_rejected(wrong):
    assert "expected" in refusal(soft_contrastive, *inputs(), **wrong)


@pytest.mark.parametrize("given", [{"kernel": "foo"}, {"form": "x"}])
def test_unknown_choices_are_refused(given):
    z = torch.randn(4, 2)
    with pytest.raises(InputError, match=r"is .(foo|x)., expected .* or plain"):
        soft_contrastive(z, z, z, **given)


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
