"""The soft contrastive loss against a slow, obvious double loop, by hand, and in parts."""

import importlib
import math

import pytest
import torch
from test_losses_chunked import Largest, equal

from viewsmith.losses import soft_contrastive
from viewsmith.losses.soft_contrastive import log_kernel

module = importlib.import_module("viewsmith.losses.soft_contrastive")
TOLERANCE = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-3, "atol": 1e-4}}
DTYPES = (torch.float64, torch.float32)
SETTINGS = [
    {},
    {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.2},
    {"nu": 10.0, "nu_target": 5.0, "beta": 0.7, "kernel": "student", "detach": False},
    {"nu": 0.3, "nu_target": 3.0, "beta": 0.1, "kernel": "released", "detach": False},
    {"nu": 0.5, "nu_target": 3.0, "beta": 1.0, "negative_weight": 3.0, "detach": False, "eps": 0.01},
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(rows=6, dtype=torch.float64):
    """Embeddings, and representations near enough to each other for targets between 0 and 1."""
    made = *draw(2, rows, 2, dtype=dtype), *(0.6 * draw(2, rows, 4, seed=1, dtype=dtype))
    return tuple(x.clone().requires_grad_() for x in made)


def slow_kernel(a, b, nu, kernel):
    squared = ((a - b) * (a - b)).sum()
    g = math.gamma((nu + 1) / 2) / (math.sqrt(nu * math.pi) * math.gamma(nu / 2))
    if kernel == "unit":
        return (1 + squared / nu) ** -(nu + 1)
    if kernel == "student":
        return g * (1 + squared / nu) ** (-(nu + 1) / 2)
    return g**2 * 6.28 * (1 + squared / nu) ** -(nu + 1)


def slow(
    z0, z1, y0, y1=None, nu=0.1, nu_target=100.0, kernel="unit", beta=0.0, negative_weight=1.0, detach=True, eps=1e-5
):
    y1 = y0 if y1 is None else y1
    losses = []
    for i in range(len(z0)):
        total = 0
        for j in range(len(z1)):
            alike = 1.0 if i == j else 0.0
            p = (1 + alike * (math.exp(beta) - 1)) * slow_kernel(y0[i], y1[j], nu_target, kernel)
            if p > 1:
                p = torch.ones_like(p)
            p = p.detach() if detach else p
            q = slow_kernel(z0[i], z1[j], nu, kernel)
            term = -(p * torch.log(q) + (1 - p) * torch.log(1 - q + eps))
            total = total + (1 if i == j else negative_weight) * term
        losses.append(total)
    return torch.stack(losses)


def gradients(losses, leaves):
    weights = torch.arange(1, len(losses) + 1, dtype=losses.dtype)
    found = torch.autograd.grad((weights * losses).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("paired", [True, False], ids=["P of both views", "P of the first views"])
@every_setting
def test_the_loss_is_the_double_loop(setting, paired, dtype):
    z0, z1, y0, y1 = inputs(dtype=dtype)
    given = (z0, z1, y0, y1) if paired else (z0, z1, y0)
    fast, expected = soft_contrastive(*given, **setting), slow(*given, **setting)
    assert fast.shape == (6,) and fast.dtype == dtype
    torch.testing.assert_close(fast, expected, **TOLERANCE[dtype])
    for one, other in zip(gradients(fast, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


@every_setting
def test_gradient_by_finite_differences(setting):
    z0, z1, y0, y1 = inputs()
    assert torch.autograd.gradcheck(lambda a, b: soft_contrastive(a, b, y0.detach(), y1.detach(), **setting), (z0, z1))


def test_by_hand():
    # nu 1, kernel (1 + d^2)^-2. Positives at distance 1: Q = 1/4; negatives at distance 2 or 0: Q = 1/25 or 1.
    z0, z1 = torch.tensor([[0.0], [3.0]]).double(), torch.tensor([[1.0], [2.0]]).double()
    # Representations at distance 1: P = 1/4 for different samples, 1 for the two views of one.
    y = torch.tensor([[0.0], [1.0]]).double()
    positive, far = math.log(4), 0.25 * math.log(25) - 0.75 * math.log(24 / 25)
    found = soft_contrastive(z0, z1, y, nu=1.0, nu_target=1.0, eps=0.0)
    torch.testing.assert_close(found, torch.tensor([positive + far] * 2).double())
    weighted = soft_contrastive(z0, z1, y, nu=1.0, nu_target=1.0, eps=0.0, negative_weight=0.5)
    torch.testing.assert_close(weighted, torch.tensor([positive + far / 2] * 2).double())


def test_beta_by_hand():
    # P of the two views: (1 + e^beta - 1) / 4 with representations at distance 1, so 1/2 at beta = log 2.
    z0, z1, y0, y1 = (torch.tensor([[v]]).double() for v in (0.0, 1.0, 0.0, 1.0))
    options = {"nu": 1.0, "nu_target": 1.0, "eps": 0.0}
    for beta, p in ((0.0, 0.25), (math.log(2), 0.5), (math.log(4), 1.0), (5.0, 1.0)):
        expected = p * math.log(4) + (1 - p) * math.log(4 / 3)
        assert float(soft_contrastive(z0, z1, y0, y1, beta=beta, **options)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_at_distance_zero(dtype):
    # Peaks of the released kernel: 0.0155 at nu 0.01, 0.636 at 1, 0.9945 at 100.
    zero = torch.zeros((), dtype=dtype)
    assert float(log_kernel(zero, 3.0)) == 0
    for nu, peak in ((0.01, 0.0155), (1.0, 0.636), (100.0, 0.9945)):
        assert float(log_kernel(zero, nu, "released").exp()) == pytest.approx(peak, abs=6e-4)
    assert float(log_kernel(zero, 1.0, "student").exp()) == pytest.approx(1 / math.pi, rel=1e-5)


def test_the_target_is_given_unless_asked_otherwise():
    z0, z1, y0, _ = inputs()
    soft_contrastive(z0, z1, y0, nu_target=2.0).sum().backward()
    assert y0.grad is None and z0.grad.abs().min() > 0
    soft_contrastive(z0, z1, y0, nu_target=2.0, detach=False).sum().backward()
    assert y0.grad.abs().min() > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_that_coincide_or_lie_far_apart_have_finite_losses_and_gradients(dtype):
    y = draw(4, 3, dtype=dtype)
    for scale in (0.0, 1e-6, 1e6):
        z0, z1 = ((scale * z).requires_grad_() for z in draw(2, 4, 2, dtype=dtype))
        losses = soft_contrastive(z0, z1, y, nu=0.05)
        losses.sum().backward()
        assert losses.isfinite().all() and z0.grad.isfinite().all() and z1.grad.isfinite().all()


def test_far_positives_still_attract():
    # The published log(Q + 1e-5) has lost its gradient here.
    z0 = torch.tensor([[1e3, 0.0]]).double().requires_grad_()
    soft_contrastive(z0, torch.zeros(1, 2).double(), torch.zeros(1, 3).double(), nu=0.01).sum().backward()
    assert float(z0.grad[0, 0]) == pytest.approx(2 * 1.01 / 1e3, rel=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunk", [1, 3, 100])
@every_setting
def test_parts_are_the_whole(setting, chunk, dtype, monkeypatch):
    given = inputs(7, dtype)
    leaves = given if not setting.get("detach", True) else given[:2]
    whole = soft_contrastive(*given, **setting)
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module, "PART", chunk * 7 * whole.element_size())
    equal(soft_contrastive(*given, **setting), whole, leaves)


def test_parts_keep_memory_linear(monkeypatch):
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module, "PART", 8 * 5000)
    z0, z1, y0, _ = inputs(500)
    with Largest() as largest:
        soft_contrastive(z0, z1, y0).mean().backward()
    assert largest.elements <= 5000


@pytest.mark.parametrize("whole", [True, False])
def test_gathered_parts_are_rows_of_the_whole(whole, monkeypatch):
    z0, z1, y0, y1 = inputs(7)
    setting = {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.3, "detach": False, "beta": 0.2}
    expected = soft_contrastive(z0, z1, y0, y1, **setting)
    if not whole:
        monkeypatch.setattr(module, "WHOLE", 0)
        monkeypatch.setattr(module, "PART", 8 * 14)
    parts = [
        soft_contrastive(z0[p], z1[p], y0[p], y1[p], gathered=(z1, y1), offset=p.start, **setting)
        for p in (slice(0, 3), slice(3, 7))
    ]
    equal(torch.cat(parts), expected, (z0, z1, y0, y1))


def test_half_precision_is_lifted():
    z0, z1, y0, y1 = (x.detach().bfloat16() for x in inputs())
    found = soft_contrastive(z0, z1, y0, y1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, soft_contrastive(z0.float(), z1.float(), y0.float(), y1.float()))
