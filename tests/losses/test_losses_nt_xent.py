"""InfoNCE and NT-Xent in all forms against slow double loops, in value and gradient."""

import itertools
import math
import sys
from functools import partial

import numpy as np
import pytest
import torch
from loss_cases import assert_value_and_gradient

from cases import covering
from viewsmith.core.errors import InputError
from viewsmith.losses import barlow_twins, negative_cosine, rank_n_contrast, sup_con, vicreg
from viewsmith.losses import numerics as chunked
from viewsmith.losses.nt_xent import info_nce, moco_info_nce, nt_xent, squared_distances, unit
from viewsmith.losses.numerics import matches

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 2e-4, "atol": 1e-5}}
DTYPES = (torch.float64, torch.float32)
KERNELS = ("cosine", "cauchy")
NEGATIVES = ("all", "cross")
# Rows shown by the first and second views: row 1 and row 2 are shown by several views of the batch.
IDS = (torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 2, 2, 7, 1]))


@pytest.fixture(params=["plain", "chunked", "auto"])
def form(request, monkeypatch):
    """Run a test of nt_xent in all forms. Tiles have three rows, so that small batches need several tiles."""
    monkeypatch.setattr(sys.modules[__name__], "nt_xent", partial(nt_xent, form=request.param))
    monkeypatch.setattr(chunked, "TILE_CPU", 3)


in_all_forms = pytest.mark.usefixtures("form")


def close(one, other):
    torch.testing.assert_close(one, other, **TOLERANCE[one.dtype])


def projections(dtype, rows=5, width=3, seed=0):
    z = torch.randn(2, rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    return z[0].requires_grad_(), z[1].requires_grad_()


def length(a):
    norm = (a * a).sum() ** 0.5
    return norm if norm > 0 else 1


def similarity(a, b, kernel, temperature):
    if kernel == "cosine":
        return torch.exp((a * b).sum() / length(a) / length(b) / temperature)
    return (1 + ((a - b) * (a - b)).sum()) ** (-1 / temperature)


def slow_info_nce(anchors, candidates, positive, temperature, kernel, excluded=None):
    losses = []
    for i in range(len(anchors)):
        total = 0
        for j in range(len(candidates)):
            if excluded is None or not excluded[i, j]:
                total = total + similarity(anchors[i], candidates[j], kernel, temperature)
        attraction = similarity(anchors[i], candidates[positive[i]], kernel, temperature)
        losses.append(-torch.log(attraction / total))
    return torch.stack(losses)


def slow_nt_xent(z0, z1, temperature, kernel, negatives, ids=None):
    """Loops over samples and views. The anchor, and views that show a row of the pair, are not negatives."""
    z, losses = (z0, z1), []
    for i in range(len(z0)):
        directions = []
        for view in (0, 1) if negatives == "all" else (0,):
            other, total = 1 - view, 0
            attraction = similarity(z[view][i], z[other][i], kernel, temperature)
            for candidate_view in (0, 1) if negatives == "all" else (1,):
                for j in range(len(z0)):
                    is_positive = (candidate_view, j) == (other, i)
                    if (candidate_view, j) == (view, i):
                        continue
                    shown = None if ids is None or is_positive else int(ids[candidate_view][j])
                    if shown is not None and shown in (int(ids[0][i]), int(ids[1][i])):
                        continue
                    total = total + similarity(z[view][i], z[candidate_view][j], kernel, temperature)
            directions.append(-torch.log(attraction / total))
        losses.append(sum(directions) / len(directions))
    return torch.stack(losses)


def same(one, other, *inputs):
    """Two losses are equal in value and gradient."""
    close(one, other)
    for gradient, expected in zip(gradients(one, *inputs), gradients(other, *inputs), strict=True):
        close(gradient, expected)


def gradients(losses, *inputs):
    # With different weights, losses in a wrong order change the gradient.
    weights = torch.arange(1, len(losses) + 1, dtype=losses.dtype)
    return torch.autograd.grad((weights * losses).sum(), inputs)


@in_all_forms
@pytest.mark.parametrize(
    ("kernel", "temperature", "negatives", "ids", "dtype"),
    covering(itertools.product(("cosine", "cauchy"), (1.0, 0.4, 0.1), NEGATIVES, (None, IDS), DTYPES)),
)
def test_nt_xent_equals_the_double_loop(kernel, temperature, negatives, ids, dtype):
    z0, z1 = projections(dtype)
    fast = nt_xent(z0, z1, temperature=temperature, kernel=kernel, negatives=negatives, ids=ids)
    slow = slow_nt_xent(z0, z1, temperature, kernel, negatives, ids)
    assert fast.shape == (5,) and fast.dtype == dtype
    same(fast, slow, z0, z1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_info_nce_equals_the_double_loop_for_any_columns(kernel, dtype):
    anchors, candidates = projections(dtype, rows=7)
    anchors = anchors[:4].detach().requires_grad_()
    positive = torch.tensor([6, 0, 3, 3])
    excluded = torch.rand(4, 7, generator=torch.Generator().manual_seed(1)) < 0.4
    excluded[torch.arange(4), positive] = False
    for mask in (None, excluded):
        fast = info_nce(anchors, candidates, positive, temperature=0.7, kernel=kernel, excluded=mask)
        slow = slow_info_nce(anchors, candidates, positive, 0.7, kernel, mask)
        same(fast, slow, anchors, candidates)
        assert (fast >= 0).all()


@in_all_forms
@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_positive_is_never_excluded(kernel, negatives):
    # All views show one row, so no negative is left and the loss is -log(k / k) = 0.
    z0, z1 = projections(torch.float64)
    same = torch.zeros(5, dtype=torch.int64)
    losses = nt_xent(z0, z1, kernel=kernel, negatives=negatives, ids=(same, same))
    close(losses, torch.zeros(5, dtype=torch.float64))
    for gradient in gradients(losses, z0, z1):
        close(gradient, torch.zeros_like(gradient))


@in_all_forms
@pytest.mark.parametrize("ids", [None, IDS], ids=["no ids", "ids"])
@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gathered_parts_equal_rows_of_the_whole(kernel, negatives, ids):
    z0, z1 = projections(torch.float64)
    options = {"temperature": 0.5, "kernel": kernel, "negatives": negatives}
    whole = nt_xent(z0, z1, ids=ids, **options)
    parts = []
    for part in (slice(0, 2), slice(2, 5)):
        part_ids = None if ids is None else (ids[0][part], ids[1][part])
        parts.append(
            nt_xent(z0[part], z1[part], ids=part_ids, gathered=(z0, z1), gathered_ids=ids, offset=part.start, **options)
        )
    joined = torch.cat(parts)
    assert joined.shape == (5,) and joined.dtype == torch.float64
    same(joined, whole, z0, z1)


@in_all_forms
@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_of_zeros_are_legal(kernel, negatives):
    z0, z1 = (z.detach() for z in projections(torch.float32))
    z0[1], z1[1], z1[3] = 0, 0, 0
    z0.requires_grad_()
    z1.requires_grad_()
    losses = nt_xent(z0, z1, temperature=0.1, kernel=kernel, negatives=negatives)
    close(losses, slow_nt_xent(z0, z1, 0.1, kernel, negatives))
    for gradient in gradients(losses, z0, z1):
        assert gradient.isfinite().all()


@in_all_forms
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_loss_of_zero_projections(kernel):
    z = torch.zeros(4, 3, requires_grad=True)
    losses = nt_xent(z, z, kernel=kernel)
    torch.testing.assert_close(losses, torch.full((4,), math.log(7)))
    assert torch.autograd.grad(losses.sum(), z)[0].isfinite().all()


@in_all_forms
def test_the_cauchy_kernel_depends_on_lengths_and_the_cosine_kernel_does_not():
    z0, z1 = projections(torch.float64)
    scale = torch.tensor([[1e-6], [1.0], [3.0], [1e3], [1e6]], dtype=torch.float64)
    close(nt_xent(scale * z0, z1), nt_xent(z0, z1))
    assert (nt_xent(scale * z0, z1, kernel="cauchy") - nt_xent(z0, z1, kernel="cauchy")).abs().max() > 1


@in_all_forms
@pytest.mark.parametrize("norm", [3, 30])
def test_cauchy_kernel_is_precise_for_close_views(norm):
    # At length 30 a squared distance of 1e-4 is lost in the product form of float32, 900 + 900 - 2 * 900.
    generator = torch.Generator().manual_seed(0)
    z0 = norm * unit(torch.randn(32, 16, generator=generator))
    z1 = z0 + 1e-2 * unit(torch.randn(32, 16, generator=generator))
    single = nt_xent(z0.requires_grad_(), z1, temperature=1.0, kernel="cauchy", negatives="cross")
    exact = z0.detach().double().requires_grad_()
    double = nt_xent(exact, z1.double(), temperature=1.0, kernel="cauchy", negatives="cross")
    assert (single >= 0).all()
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-6)
    found, expected = gradients(single, z0)[0].double(), gradients(double, exact)[0]
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


@in_all_forms
def test_cauchy_kernel_is_finite_for_distant_projections():
    z0, z1 = (1e6 * z.detach() for z in projections(torch.float32))
    z0.requires_grad_()
    losses = nt_xent(z0, z1, kernel="cauchy")
    assert losses.isfinite().all()
    assert torch.autograd.grad(losses.sum(), z0)[0].isfinite().all()


@in_all_forms
@pytest.mark.parametrize("temperature", [0.07, 1e-4])
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_cauchy_kernel_at_low_temperatures(negatives, temperature):
    # The kernel itself is far below the range of float32: (1 + 2000) ** (-1 / 0.02).
    z0, z1 = projections(torch.float32)
    losses = nt_xent(20 * z0, 20 * z1, kernel="cauchy", temperature=temperature, negatives=negatives)
    exact = [z.detach().double().requires_grad_() for z in (z0, z1)]
    squared = {}
    for name, (a, b) in {"00": (0, 0), "01": (0, 1), "10": (1, 0), "11": (1, 1)}.items():
        squared[name] = (20 * (exact[a][:, None] - exact[b])).square().sum(2)
    logits = {name: -torch.log1p(d) / temperature for name, d in squared.items()}
    expected = torch.logsumexp(logits["01"], 1) - logits["01"].diagonal()
    if negatives == "all":
        itself = torch.eye(5, dtype=torch.bool)
        same = [logits[name].masked_fill(itself, -math.inf) for name in ("00", "11")]
        other = torch.cat([same[1], logits["10"]], 1).logsumexp(1) - logits["10"].diagonal()
        expected = (torch.cat([same[0], logits["01"]], 1).logsumexp(1) - logits["01"].diagonal() + other) / 2
    torch.testing.assert_close(losses.double(), expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(gradients(losses, z0, z1), gradients(expected, *exact), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-3, atol=2e-3 * float(other.abs().max()))


@in_all_forms
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("kernel", "negatives"), [("cosine", "all"), ("cauchy", "cross")])
def test_a_row_that_is_not_finite_is_not_left_out(kernel, negatives, value):
    z0, z1 = (z.detach() for z in projections(torch.float32))
    z1[3, 1] = value
    losses = nt_xent(z0, z1, kernel=kernel, negatives=negatives, temperature=0.5)
    assert not losses[3].isfinite()
    if kernel == "cosine" or math.isnan(value):  # the Cauchy kernel of an infinite distance is 0
        assert losses.isnan().all()
    queue = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    queue[2, 0] = value
    assert moco_info_nce(z0, z0, queue).isnan().all()


@in_all_forms
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_autocast_does_not_change_losses(kernel, negatives):
    z0, z1 = projections(torch.float32, rows=9, width=8)
    for temperature in (1.0, 0.1):
        options = {"kernel": kernel, "negatives": negatives, "temperature": temperature}
        expected = nt_xent(z0, z1, **options)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(nt_xent(z0, z1, **options), expected)
        half = nt_xent(z0.bfloat16(), z1.bfloat16(), **options)
        assert half.dtype == torch.bfloat16
        assert torch.equal(half, nt_xent(z0.bfloat16().float(), z1.bfloat16().float(), **options).bfloat16())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "Cosine"}, "kernel is 'Cosine', expected cosine or cauchy"),
        ({"negatives": "Cross"}, "negatives is 'Cross', expected all or cross"),
        ({"form": "tiled"}, "form is 'tiled', expected auto, plain or chunked"),
        ({"temperature": 0.0}, "temperature is 0.0, expected a number above 0"),
        ({"temperature": -1}, "temperature is -1, expected a number above 0"),
        ({"z1": torch.randn(4, 3)}, r"z0 and z1 are torch.float32 \(5, 3\) and torch.float32 \(4, 3\), expected two"),
        ({"z0": np.ones((5, 2)), "z1": np.ones((5, 2))}, "are ndarray and ndarray, expected two torch.Tensor"),
        ({"z0": torch.randn(5), "z1": torch.randn(5)}, r"are torch.float32 \(5,\) and .* expected two floating-point"),
        ({"z0": torch.ones(5, 3).long(), "z1": torch.ones(5, 3).long()}, r"are torch.int64 \(5, 3\) and"),
    ],
)
def test_invalid_arguments(given, message):
    with pytest.raises(InputError, match=message):
        nt_xent(**({"z0": torch.randn(5, 3), "z1": torch.randn(5, 3)} | given))
    z = torch.randn(5, 3)
    if given.keys() <= {"kernel", "temperature"}:
        with pytest.raises(InputError, match=message):
            info_nce(z, z, torch.arange(5), **given)
    if "temperature" in given:
        with pytest.raises(InputError, match=message):
            moco_info_nce(z, z, z, **given)


@pytest.mark.parametrize("loss", [vicreg, barlow_twins, negative_cosine, rank_n_contrast, sup_con])
def test_views_of_other_shapes_are_refused_by_all_losses_of_pairs(loss):
    further = {rank_n_contrast: [torch.arange(5)], sup_con: [(torch.arange(5),) * 2]}.get(loss, [])
    z = torch.randn(5, 3)
    for other in (z[:1], z[:, :1], z[None], z.numpy()):  # the first two would be broadcast by some
        with pytest.raises(
            InputError, match=r"expected two (torch.Tensor|floating-point tensors of one shape) \(B, d\)"
        ):
            loss(z, other, *further)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unit(dtype):
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0], [-5e-20, 0.0]], dtype=dtype, requires_grad=True)
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]], dtype=dtype)
    close(unit(z), expected)
    assert torch.autograd.grad(unit(z).sum(), z)[0].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_squared_distances_equal_the_double_loop(dtype):
    a, b = projections(dtype, rows=4)
    fast = squared_distances(a, b)
    slow = torch.stack([torch.stack([((x - y) ** 2).sum() for y in b]) for x in a])
    assert (squared_distances(a, a) >= 0).all()
    assert_value_and_gradient(fast, slow, (a, b), **TOLERANCE[dtype])


@in_all_forms
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_low_temperatures(negatives):
    # exp(1 / 0.01) is beyond float32.
    z0, z1 = projections(torch.float32)
    losses = nt_xent(z0, z1, temperature=0.01, negatives=negatives)
    exact = [z.detach().double().requires_grad_() for z in (z0, z1)]
    expected = nt_xent(*exact, temperature=0.01, negatives=negatives)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-4)
    for one, other in zip(gradients(losses, z0, z1), gradients(expected, *exact), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)


def test_a_temperature_below_the_limit_is_rejected():
    z0, z1 = projections(torch.float64)
    with pytest.raises(InputError, match=r"temperature is 0.0001, expected at least 0.0015"):
        nt_xent(z0, z1, temperature=0.0001, form="chunked")


def slow_moco(queries, keys, queue, temperature, ids=None, queue_ids=None):
    losses = []
    for i in range(len(queries)):
        attraction = total = similarity(queries[i], keys[i], "cosine", temperature)
        for j in range(len(queue)):
            if ids is None or queue_ids[j] not in (ids[0][i], ids[1][i]):
                total = total + similarity(queries[i], queue[j], "cosine", temperature)
        losses.append(-torch.log(attraction / total))
    return torch.stack(losses)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_ids", [True, False])
def test_moco_equals_the_double_loop(with_ids, dtype):
    queries, keys = projections(dtype, rows=4)
    queue = projections(dtype, rows=8, seed=1)[0]
    ids = (torch.tensor([1, 2, 3, 4]), torch.tensor([9, 2, 3, 5])) if with_ids else None
    queue_ids = torch.tensor([2, 2, -1, 9, 4, 5, -1, 2]) if with_ids else None
    fast = moco_info_nce(queries, keys, queue, temperature=0.2, ids=ids, queue_ids=queue_ids)
    slow = slow_moco(queries, keys, queue, 0.2, ids, queue_ids)
    assert fast.shape == (4,) and fast.dtype == dtype
    same(fast, slow, queries, keys, queue)


@pytest.mark.parametrize("ids", [[3, 1, 1, 9], [5, 5, 5, 5], []])
def test_matches_are_all_equal_pairs(ids):
    candidates = [1, 5, 3, 1, 7, 5]
    rows, columns = matches(torch.tensor(ids, dtype=torch.int64), torch.tensor(candidates))
    found = list(zip(rows.tolist(), columns.tolist(), strict=True))
    expected = {(i, j) for i, one in enumerate(ids) for j, other in enumerate(candidates) if one == other}
    assert len(found) == len(expected) and set(found) == expected


def test_the_form_of_the_neighbor_recipe_refuses_a_second_derivative():
    z0, z1 = projections(torch.float64)
    losses = nt_xent(z0, z1, kernel="cauchy", temperature=1, negatives="cross", form="auto")
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(losses.sum(), z0, create_graph=True)
