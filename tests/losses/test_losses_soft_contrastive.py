"""The soft contrastive loss against a slow, obvious double loop, by hand, and in parts."""

import importlib
import itertools
import math

import pytest
import torch
from test_losses_chunked import Largest, equal

from cases import covering
from viewsmith.core.errors import InputError
from viewsmith.losses import nt_xent, soft_contrastive
from viewsmith.losses.soft_contrastive import default_negative_weight, log_kernel

module = importlib.import_module("viewsmith.losses.soft_contrastive")
TOLERANCE = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-3, "atol": 1e-4}}
DTYPES = (torch.float64, torch.float32)
SETTINGS = [
    {},
    {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.2},
    {"nu": 10.0, "nu_target": 5.0, "beta": 0.7, "kernel": "paper", "detach": False},
    {"nu": 0.3, "nu_target": 3.0, "beta": 0.1, "kernel": "published", "detach": False},
    {"nu": 0.5, "nu_target": 3.0, "beta": 1.0, "negative_weight": 3.0, "detach": False, "floor": 0.01},
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(rows=6, dtype=torch.float64):
    """Embeddings, and representations near enough to each other for targets between 0 and 1."""
    made = *draw(2, rows, 2, dtype=dtype), *(0.6 * draw(2, rows, 4, seed=1, dtype=dtype))
    return tuple(x.clone().requires_grad_() for x in made)


def slow_log_kernel(a, b, nu, kernel):
    squared = ((a - b) * (a - b)).sum()
    g = math.gamma((nu + 1) / 2) / (math.sqrt(nu * math.pi) * math.gamma(nu / 2))
    if kernel == "plain":
        return -(nu + 1) * torch.log(1 + squared / nu)
    if kernel == "paper":
        return math.log(g) - (nu + 1) / 2 * torch.log(1 + squared / nu)
    return math.log(g**2 * 6.28) - (nu + 1) * torch.log(1 + squared / nu)


def slow(
    z0,
    z1,
    y0,
    y1=None,
    nu=0.1,
    nu_target=100.0,
    kernel="plain",
    beta=0.0,
    negative_weight=1.0,
    detach=True,
    floor=1e-5,
    ids=None,
):
    y1 = y0 if y1 is None else y1
    losses = []
    for i in range(len(z0)):
        total = 0
        for j in range(len(z1)):
            if i != j and ids is not None and int(ids[1][j]) in (int(ids[0][i]), int(ids[1][i])):
                continue
            alike = 1.0 if i == j else 0.0
            p = (1 + alike * (math.exp(beta) - 1)) * slow_log_kernel(y0[i], y1[j], nu_target, kernel).exp()
            if p > 1:
                p = torch.ones_like(p)
            p = p.detach() if detach else p
            log_q = slow_log_kernel(z0[i], z1[j], nu, kernel)
            term = -(p * log_q + (1 - p) * torch.log(1 - log_q.exp() + floor))
            total = total + (1 if i == j else negative_weight) * term
        losses.append(total)
    return torch.stack(losses)


def gradients(losses, leaves):
    weights = torch.arange(1, len(losses) + 1, dtype=losses.dtype)
    found = torch.autograd.grad((weights * losses).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


@pytest.mark.parametrize("form", ["chunked", "plain"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("paired", [True, False], ids=["P of both views", "P of the first views"])
@every_setting
def test_the_loss_is_the_double_loop(setting, paired, dtype, form):
    z0, z1, y0, y1 = inputs(dtype=dtype)
    given = (z0, z1, y0, y1) if paired else (z0, z1, y0)
    found, expected = soft_contrastive(*given, form=form, **setting), slow(*given, **setting)
    assert found.shape == (6,) and found.dtype == dtype
    torch.testing.assert_close(found, expected, **TOLERANCE[dtype])
    for one, other in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("nu_target", "nu", "kernel", "dtype"),
    covering(
        itertools.product((0.01, 100.0), (0.01, 0.1, 1.0, 10.0, 100.0), ("paper", "published", "plain"), DTYPES),
    ),
)
def test_points_that_coincide_or_lie_far_apart(nu_target, nu, kernel, dtype):
    # Second views: one on its own first view, one on another's, one a thousand away, one beside its own.
    z0, z1 = draw(2, 5, 2)
    z1[0], z1[1], z1[2, 0], z1[3] = z0[0], z0[4], 1e3, z0[3] + 1e-2
    # Representations: coinciding, close, and as far away as float32 can square.
    y0, y1 = 0.5 * draw(2, 5, 12, seed=1)
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


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("kernel", ["paper", "published", "plain"])
def test_gradient_by_finite_differences(kernel, detach):
    options = {"nu": 0.5, "nu_target": 2.0, "kernel": kernel, "beta": 0.3, "negative_weight": 0.4, "detach": detach}
    given = [x.detach().requires_grad_(i < 2 or not detach) for i, x in enumerate(inputs())]
    assert torch.autograd.gradcheck(lambda *x: soft_contrastive(*x, **options), given)


def test_only_the_plain_form_is_differentiated_twice():
    given = [x.detach().requires_grad_(i < 2) for i, x in enumerate(inputs(4))]
    assert torch.autograd.gradgradcheck(lambda *x: soft_contrastive(*x, nu=1.0, form="plain"), given)
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(soft_contrastive(*given).sum(), given[0], create_graph=True)


def test_a_graph_that_is_kept_can_be_run_again():
    given = inputs()
    loss = soft_contrastive(*given, detach=False).sum()
    one, other = (torch.autograd.grad(loss, given, retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_by_hand():
    # nu 1, kernel (1 + d^2)^-2. Positives at distance 1: Q = 1/4; negatives at distance 2 or 0: Q = 1/25 or 1.
    z0, z1 = torch.tensor([[0.0], [3.0]]).double(), torch.tensor([[1.0], [2.0]]).double()
    # Representations at distance 1: P = 1/4 for different samples, 1 for the two views of one.
    y = torch.tensor([[0.0], [1.0]]).double()
    positive, far = math.log(4), 0.25 * math.log(25) - 0.75 * math.log(24 / 25)
    found = soft_contrastive(z0, z1, y, nu=1.0, nu_target=1.0, floor=0.0)
    torch.testing.assert_close(found, torch.tensor([positive + far] * 2).double())
    weighted = soft_contrastive(z0, z1, y, nu=1.0, nu_target=1.0, floor=0.0, negative_weight=0.5)
    torch.testing.assert_close(weighted, torch.tensor([positive + far / 2] * 2).double())


def test_beta_by_hand():
    # P of the two views: (1 + e^beta - 1) / 4 with representations at distance 1, so 1/2 at beta = log 2.
    z0, z1, y0, y1 = (torch.tensor([[v]]).double() for v in (0.0, 1.0, 0.0, 1.0))
    options = {"nu": 1.0, "nu_target": 1.0, "floor": 0.0}
    for beta, p in ((0.0, 0.25), (math.log(2), 0.5), (math.log(4), 1.0), (5.0, 1.0)):
        expected = p * math.log(4) + (1 - p) * math.log(4 / 3)
        assert float(soft_contrastive(z0, z1, y0, y1, beta=beta, **options)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_at_distance_zero(dtype):
    # Peaks of the published kernel: 0.0155 at nu 0.01, 0.636 at 1, 0.9945 at 100.
    zero = torch.zeros((), dtype=dtype)
    assert float(log_kernel(zero, 3.0)) == 0
    for nu, peak in ((0.01, 0.0155), (1.0, 0.636), (100.0, 0.9945)):
        assert float(log_kernel(zero, nu, "published").exp()) == pytest.approx(peak, abs=6e-4)
    assert float(log_kernel(zero, 1.0, "paper").exp()) == pytest.approx(1 / math.pi, rel=1e-5)


@pytest.mark.parametrize("nu", [0.01, 1.0, 100.0])
def test_the_paper_kernel_is_the_density_of_student(nu):
    points = torch.tensor([0.0, 0.3, 2.0, 10.0]).double()
    density = torch.distributions.StudentT(torch.tensor(nu, dtype=torch.float64)).log_prob(points)
    torch.testing.assert_close(log_kernel(points.square(), nu, "paper"), density, rtol=1e-9, atol=1e-9)
    # Published: its square, times 6.28. Plain: that without its value at distance 0.
    published = log_kernel(points.square(), nu, "published")
    torch.testing.assert_close(published, 2 * density + math.log(6.28), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(log_kernel(points.square(), nu), published - published[0], rtol=1e-9, atol=1e-9)


def test_the_target_is_given_unless_asked_otherwise():
    z0, z1, y0, _ = inputs()
    soft_contrastive(z0, z1, y0, nu_target=2.0).sum().backward()
    assert y0.grad is None and z0.grad.abs().min() > 0
    soft_contrastive(z0, z1, y0, nu_target=2.0, detach=False).sum().backward()
    assert y0.grad.abs().min() > 0


def map_of_clusters(rows=60, spread=30.0, within=0.05):
    """Both views of tight clusters on a wide map, and their representations."""
    cluster = torch.arange(rows) % 6
    z = spread * draw(6, 2)[cluster] + within * draw(2, rows, 2, seed=1)
    return *z, 2 * draw(6, 16, seed=2)[cluster] + 0.1 * draw(rows, 16, seed=3)


@pytest.mark.parametrize("nu", [0.01, 0.1, 1.0])
def test_a_wide_map_keeps_its_gradients_in_single_precision(nu):
    # Squared distances within clusters are a millionth of those between: a product in float32 has none of their digits.
    single = [x.float().requires_grad_(i < 2) for i, x in enumerate(map_of_clusters())]
    double = [x.detach().double().requires_grad_(i < 2) for i, x in enumerate(single)]
    found, expected = (soft_contrastive(*given, nu=nu, negative_weight=0.1) for given in (single, double))
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)
    for one, other in zip(gradients(found, single[:2]), gradients(expected, double[:2]), strict=True):
        assert float((one - other).norm() / other.norm()) < 1e-3


def test_close_points_keep_the_digits_of_one_less_q():
    # At nu 100 and distances of 1e-3 all Q are 1 to six digits, and 1 - Q has none left in float32 but by expm1.
    z, y = 1e-3 * draw(2, 8, 2), 3 * draw(8, 12, seed=1)
    single = [x.float().requires_grad_() for x in z]
    double = [x.detach().double().requires_grad_() for x in single]
    setting = {"nu": 100.0, "floor": 1e-12}
    found, expected = soft_contrastive(*single, y.float(), **setting), slow(*double, y.float().double(), **setting)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)
    for one, other in zip(gradients(found, single), gradients(expected, double), strict=True):
        assert float((one - other).norm() / other.norm()) < 1e-4


@pytest.mark.parametrize("form", ["chunked", "plain"])
@pytest.mark.parametrize("which", ["embeddings", "representations"])
def test_wide_points_that_coincide_far_from_the_origin(which, form):
    # Products in float32 give them squared distances of some units, of either sign; below -nu there is no logarithm.
    near = (1000 + draw(1, 24) + 1e-4 * draw(40, 24, seed=1)).float()
    z, y = (near, 3 * draw(40, 24, seed=2).float()) if which == "embeddings" else (draw(40, 24).float(), near)
    given = [x.clone().requires_grad_() for x in (z, z, y)]
    losses = soft_contrastive(*given, nu=0.01, nu_target=0.01, detach=False, form=form)
    losses.sum().backward()
    assert losses.isfinite().all() and all(x.grad.isfinite().all() for x in given)


def test_targets_at_their_limit_do_not_move_representations():
    # Beta raises the pairs of views beyond 1, where they are cut off; strangers still drive representations apart.
    z0, z1, y0, _ = inputs()
    y1 = (y0 + 0.05 * draw(6, 4, seed=4)).detach().requires_grad_()
    given, setting = (z0, z1, y0, y1), {"nu": 1.0, "nu_target": 2.0, "beta": 1.0, "detach": False}
    found, expected = soft_contrastive(*given, **setting), slow(*given, **setting)
    for one, other in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[torch.float64])


def test_the_floor_bounds_the_repulsion_of_points_that_coincide():
    z0, z1 = torch.tensor([[0.0], [5.0]]).double(), torch.tensor([[5.0], [5.0]]).double()
    y = torch.tensor([[0.0], [1e6]]).double()
    for floor in (1e-2, 1e-5, 1e-9):
        # The second first view lies on both second views, of which the other's is a stranger (P = 0).
        found = soft_contrastive(z0, z1, y, floor=floor)[1]
        assert float(found) == pytest.approx(-math.log(floor), rel=1e-9)


def test_far_positives_still_attract():
    # The published log(Q + 1e-5) has lost its gradient here.
    z0 = torch.tensor([[1e3, 0.0]]).double().requires_grad_()
    soft_contrastive(z0, torch.zeros(1, 2).double(), torch.zeros(1, 3).double(), nu=0.01).sum().backward()
    assert float(z0.grad[0, 0]) == pytest.approx(2 * 1.01 / 1e3, rel=1e-4)


# --- rows that are shown twice


def shown(kind, rows=7):
    """Rows that first and second views show: some twice, or second views of other rows (neighbors)."""
    first = torch.tensor([0, 1, 2, 3, 0, 1, 4])[:rows]
    return {"same": (first, first), "other": (first, torch.tensor([1, 1, 5, 0, 6, 3, 0])[:rows])}[kind]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["same", "other"])
@pytest.mark.parametrize("form", ["chunked", "plain"])
def test_rows_shown_elsewhere_in_the_batch_are_left_out(form, kind, dtype):
    given = inputs(7, dtype)
    setting = {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.3, "detach": False, "ids": shown(kind)}
    found, expected = soft_contrastive(*given, form=form, **setting), slow(*given, **setting)
    torch.testing.assert_close(found, expected, **TOLERANCE[dtype])
    for one, other in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


def test_rows_by_hand():
    # Rows 7, 8, 7: samples 0 and 2 meet sample 1 alone, sample 1 both. Q of pairs at distance 1: 1/4; P 0.
    z = torch.tensor([[0.0], [1.0], [0.0]]).double()
    y = 1e6 * torch.arange(3).double()[:, None]
    rows = torch.tensor([7, 8, 7])
    found = soft_contrastive(z, z, y, nu=1.0, floor=1e-15, ids=(rows, rows))
    torch.testing.assert_close(found, math.log(4 / 3) * torch.tensor([1, 2, 1]).double())


def test_rows_that_are_all_different_change_nothing():
    given, rows = inputs(), torch.arange(6)
    assert torch.equal(soft_contrastive(*given, ids=(rows, rows)), soft_contrastive(*given))


def test_rows_are_left_out_as_in_nt_xent():
    # In both losses a second view that is left out gets no gradient from a first view alone.
    z0, z1, y0, _ = inputs(7)
    ids = shown("other")
    for i in range(7):
        own = slice(i, i + 1)
        here = ids[0][own], ids[1]
        soft = soft_contrastive(z0[own], z1[own], y0[own], gathered=(z1, y0), ids=here, offset=i)
        cross = nt_xent(
            z0[own],
            z1[own],
            negatives="cross",
            ids=(ids[0][own], ids[1][own]),
            gathered=(z0, z1),
            gathered_ids=ids,
            offset=i,
        )
        met = [torch.autograd.grad(loss.sum(), z1)[0].abs().sum(1) > 0 for loss in (soft, cross)]
        assert torch.equal(*met)


def test_default_weight_of_negatives():
    # Maps and heavy tails: five repulsions to one attraction, whatever the batch.
    for width, nu in ((2, 0.1), (8, 10.0), (32, 1.0), (32, 0.1)):
        assert default_negative_weight(width, nu, 256) * 255 == pytest.approx(5)
    assert default_negative_weight(9, 1.5, 256) == default_negative_weight(64, 10.0, 4096) == 1
    assert default_negative_weight(2, 0.1, 1) == 5


@pytest.mark.parametrize("wrong", [{"nu": 0.0}, {"nu_target": -1.0}, {"floor": -1e-5}, {"nu": math.nan}])
def test_bad_numbers_are_refused(wrong):
    with pytest.raises(InputError, match="expected"):
        soft_contrastive(*inputs(), **wrong)


# --- in parts


def in_parts_of(monkeypatch, pairs, kept=0):
    monkeypatch.setattr(module, "CHUNK_CPU", pairs)
    monkeypatch.setattr(module, "MAX_STORED", kept)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("kept", [0, 10**6], ids=["made again", "kept"])
@every_setting
def test_parts_are_the_whole(setting, kept, rows, dtype, monkeypatch):
    given = inputs(7, dtype)
    leaves = given if not setting.get("detach", True) else given[:2]
    whole = soft_contrastive(*given, ids=shown("other"), form="plain", **setting)
    in_parts_of(monkeypatch, 7 * rows, kept)
    found = soft_contrastive(*given, ids=shown("other"), **setting)
    torch.testing.assert_close(found, whole, **TOLERANCE[dtype])
    for one, other in zip(gradients(found, leaves), gradients(whole, leaves), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


def test_parts_keep_memory_linear(monkeypatch):
    in_parts_of(monkeypatch, 5000)
    z0, z1, y0, _ = inputs(500)
    with Largest() as largest:
        soft_contrastive(z0, z1, y0, ids=(torch.arange(500),) * 2).mean().backward()
    assert largest.elements <= 5000


def test_slopes_of_large_batches_are_not_stored(monkeypatch):
    in_parts_of(monkeypatch, 50, kept=99)
    large, small = (soft_contrastive(*inputs(rows)).grad_fn for rows in (10, 9))
    assert large.stored is None and sum(slopes[0].numel() for slopes in small.stored) == 81


@pytest.mark.parametrize("kind", ["same", "other"])
@pytest.mark.parametrize("parts", [True, False])
def test_gathered_parts_are_rows_of_the_whole(parts, kind, monkeypatch):
    z0, z1, y0, y1 = inputs(7)
    setting = {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.3, "detach": False, "beta": 0.2}
    ids = shown(kind)
    expected = soft_contrastive(z0, z1, y0, y1, ids=ids, **setting)
    if parts:
        in_parts_of(monkeypatch, 14)
    found = [
        soft_contrastive(
            z0[p], z1[p], y0[p], y1[p], ids=(ids[0][p], ids[1]), gathered=(z1, y1), offset=p.start, **setting
        )
        for p in (slice(0, 3), slice(3, 7))
    ]
    equal(torch.cat(found), expected, (z0, z1, y0, y1))


def test_wide_embeddings_in_single_precision():
    # Beyond the width of a map products are made in single precision: enough where points are some units apart.
    z = draw(2, 20, 24)
    y = 0.3 * draw(20, 24, seed=1)
    single = [x.float().requires_grad_() for x in z]
    found, expected = soft_contrastive(*single, y.float(), nu=10.0), soft_contrastive(*z, y, nu=10.0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)


def test_half_precision_is_lifted():
    z0, z1, y0, y1 = (x.detach().bfloat16() for x in inputs())
    found = soft_contrastive(z0, z1, y0, y1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, soft_contrastive(z0.float(), z1.float(), y0.float(), y1.float()))


def test_single_and_double_precision_mix():
    z0, z1, y0, y1 = (x.detach() for x in inputs())
    found = soft_contrastive(z0.requires_grad_(), z1, y0.float(), y1.float())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, soft_contrastive(z0, z1, y0.float().double(), y1.float().double()))
    found.sum().backward()
    assert z0.grad.dtype == torch.float64
