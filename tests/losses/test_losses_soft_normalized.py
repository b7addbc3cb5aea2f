"""The normalized soft contrastive loss: against a slow double loop, in chunks, and against InfoNCE."""

import importlib
import math

import pytest
import torch

from viewsmith.losses import nt_xent
from viewsmith.losses.soft_contrastive import soft_normalized

module = importlib.import_module("viewsmith.losses.soft_contrastive")
TOLERANCE = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-3, "atol": 1e-4}}
EXPONENT = {"paper": lambda nu: (nu + 1) / 2, "plain": lambda nu: nu + 1, "published": lambda nu: nu + 1}
SETTINGS = [
    {},
    {"nu": 0.1, "kernel": "plain", "nu_target": 2.0},
    {"nu": 10.0, "nu_target": 5.0, "beta": 0.7, "detach": False},
    {"nu": 0.01, "kernel": "published", "nu_target": 1.0, "beta": 1.0, "detach": False},
    {"nu": 100.0, "nu_target": 0.5},
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))


def inputs(rows=6, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(rows, width, generator=generator, dtype=torch.float64) for width in (2, 2, 4, 4)]
    made[2], made[3] = 0.6 * made[2], 0.6 * made[3]
    return [x.to(dtype).requires_grad_() for x in made]


def slow(z0, z1, y0, y1=None, nu=1.0, nu_target=100.0, kernel="paper", beta=0.0, detach=True, ids=None):
    y1 = y0 if y1 is None else y1
    losses = []
    for i in range(len(z0)):
        counted = [
            j for j in range(len(z1)) if j == i or ids is None or int(ids[1][j]) not in (int(ids[0][i]), int(ids[1][i]))
        ]
        k = {j: (1 + ((z0[i] - z1[j]) ** 2).sum() / nu) ** -EXPONENT[kernel](nu) for j in counted}
        whole = sum(k.values())
        total = 0
        for j in counted:
            p = (1 + ((y0[i] - y1[j]) ** 2).sum() / nu_target) ** -EXPONENT[kernel](nu_target)
            p = (p * math.exp(beta) if i == j else p).clamp(max=1)
            p = p.detach() if detach else p
            q = k[j] / (k[j] + whole)
            total = total - p * torch.log(q) - (1 - p) * torch.log(1 - q)
        losses.append(total)
    return torch.stack(losses)


def gradients(values, given):
    weight = torch.arange(1, len(values) + 1, dtype=values.dtype)
    found = torch.autograd.grad((weight * values).sum(), given, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(given, found, strict=True)]


@every_setting
@pytest.mark.parametrize("paired", [True, False], ids=["views", "samples"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_value_and_gradient_equal_the_slow_loop(setting, paired, dtype):
    z0, z1, y0, y1 = inputs(dtype=dtype)
    given = [z0, z1, y0, y1] if paired else [z0, z1, y0]
    found, expected = soft_normalized(*given, **setting), slow(*given, **setting)
    torch.testing.assert_close(found, expected, **TOLERANCE[dtype])
    for a, b in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(a, b, **TOLERANCE[dtype])


def test_views_of_the_same_row_are_excluded():
    z0, z1, y0, _ = inputs()
    ids = torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([5, 1, 1, 7, 0, 9])
    found, expected = soft_normalized(z0, z1, y0, ids=ids), slow(z0, z1, y0, ids=ids)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    for a, b in zip(gradients(found, [z0, z1]), gradients(expected, [z0, z1]), strict=True):
        assert torch.isfinite(a).all()
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(found, soft_normalized(z0, z1, y0))


@pytest.mark.parametrize("paired", [True, False])
def test_chunks_equal_the_whole(monkeypatch, paired):
    z0, z1, y0, y1 = inputs(rows=9)
    given = [z0, z1, y0, y1] if paired else [z0, z1, y0]
    ids = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 0]), torch.tensor([5, 1, 1, 7, 0, 9, 9, 3, 2])
    whole = soft_normalized(*given, ids=ids, detach=False)
    expected = gradients(whole, given)
    monkeypatch.setattr(module, "MAX_WHOLE_BYTES", 0)
    monkeypatch.setattr(module, "CHUNK_BYTES", 9 * 8 * 2)
    parts = soft_normalized(*given, ids=ids, detach=False)
    torch.testing.assert_close(parts, whole)
    for a, b in zip(gradients(parts, given), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_a_part_of_a_larger_batch():
    z0, z1, y0, _ = inputs(rows=8)
    whole = soft_normalized(z0, z1, y0)
    part = soft_normalized(z0[3:5], z1[3:5], y0[3:5], gathered=(z1, y0), offset=3)
    torch.testing.assert_close(part, whole[3:5])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_values_are_finite_for_equal_and_distant_points(dtype):
    z = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1e6, 0.0]], dtype=dtype, requires_grad=True)
    losses = soft_normalized(z, z.detach().clone(), torch.zeros(3, 4, dtype=dtype))
    assert torch.isfinite(losses).all()
    assert torch.isfinite(torch.autograd.grad(losses.sum(), z)[0]).all()


def test_with_hard_labels_the_gradient_is_close_to_that_of_info_nce():
    """When pairs are close, near the optimum, the gradients of the two losses have similar directions."""
    z0, z1, y0, _ = inputs(rows=32)
    far = 1e4 * y0
    soft = torch.autograd.grad(soft_normalized(z0, z1, far).sum(), z0)[0]
    hard = torch.autograd.grad(nt_xent(z0, z1, temperature=1.0, kernel="cauchy", negatives="cross").sum(), z0)[0]
    assert torch.cosine_similarity(soft.flatten(), hard.flatten(), dim=0) > 0.9
