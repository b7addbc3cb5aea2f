"""Negative cosine similarity against a loop, and by hand."""

import pytest
import torch
from loss_cases import assert_value_and_gradient

from viewsmith.losses.self_distillation import negative_cosine

TOLERANCE = {torch.float64: {"rtol": 1e-12, "atol": 1e-12}, torch.float32: {"rtol": 1e-5, "atol": 1e-6}}


def slow_negative_cosine(p, z):
    losses = []
    for a, b in zip(p, z, strict=True):
        dot = sum(a[k] * b[k] for k in range(len(a)))
        losses.append(-dot / (a * a).sum() ** 0.5 / (b * b).sum() ** 0.5)
    return torch.stack(losses)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_negative_cosine_equals_the_loop(dtype):
    generator = torch.Generator().manual_seed(0)
    p, z = (torch.randn(5, 3, generator=generator, dtype=dtype).requires_grad_() for _ in range(2))
    fast, slow = negative_cosine(p, z), slow_negative_cosine(p, z)
    assert_value_and_gradient(fast, slow, (p, z), **TOLERANCE[dtype])


def test_by_hand():
    p = torch.tensor([[3.0, 4.0], [3.0, 4.0], [1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    z = torch.tensor([[30.0, 40.0], [-4.0, 3.0], [-2.0, 0.0], [1.0, 0.0]])
    losses = negative_cosine(p, z)
    torch.testing.assert_close(losses, torch.tensor([-1.0, 0.0, 1.0, 0.0]))
    losses.sum().backward()
    assert p.grad.isfinite().all()
