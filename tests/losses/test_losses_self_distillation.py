"""Sinkhorn's assignments against a loop; scores and cosines that are large or zero."""

import math
from functools import partial

import pytest
import torch

from drawn import normal
from viewsmith.losses.self_distillation import log_prototype_mass, negative_cosine, self_distillation, sinkhorn

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-6}}
DTYPES = (torch.float64, torch.float32)


def slow_sinkhorn(scores, epsilon, iterations):
    rows, columns = scores.shape
    q = [[math.exp(float(scores[i, k]) / epsilon) for k in range(columns)] for i in range(rows)]
    for _ in range(iterations):
        for k in range(columns):
            mass = sum(q[i][k] for i in range(rows))
            for i in range(rows):
                q[i][k] /= mass * columns
        for i in range(rows):
            mass = sum(q[i])
            q[i] = [value / mass / rows for value in q[i]]
    return torch.tensor(q, dtype=scores.dtype) * rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("epsilon", "iterations"), [(0.5, 1), (0.5, 3), (0.2, 7)])
def test_sinkhorn_equals_the_loop(epsilon, iterations, dtype):
    scores = normal(7, 4, dtype=dtype)
    q = sinkhorn(scores, epsilon, iterations)
    assert q.dtype == dtype
    torch.testing.assert_close(q, slow_sinkhorn(scores.double(), epsilon, iterations).to(dtype), **TOLERANCE[dtype])


def test_leading_dimensions_are_assigned_separately():
    scores = normal(2, 7, 4)
    both = sinkhorn(scores, 0.3)
    torch.testing.assert_close(both, torch.stack([sinkhorn(scores[0], 0.3), sinkhorn(scores[1], 0.3)]))


def test_marginals():
    q = sinkhorn(normal(30, 5), 0.3, 60)
    torch.testing.assert_close(q.sum(1), torch.ones(30, dtype=torch.float64))
    torch.testing.assert_close(q.sum(0), torch.full((5,), 6.0, dtype=torch.float64), rtol=1e-3, atol=0)
    early = sinkhorn(normal(30, 5), 0.3, 1)
    torch.testing.assert_close(early.sum(1), torch.ones(30, dtype=torch.float64))
    assert (early.sum(0) - 6).abs().max() > (q.sum(0) - 6).abs().max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sharp_assignments_do_not_overflow(dtype):
    # Logarithms of masses 1000 999 / 998 998, whose exponentials overflow. The ratio q00 q11 / (q01 q10) is e.
    scores = torch.tensor([[1.0, 0.999], [0.998, 0.998]], dtype=dtype)
    q = math.exp(0.5) / (1 + math.exp(0.5))
    limit = torch.tensor([[q, 1 - q], [1 - q, q]], dtype=dtype)
    torch.testing.assert_close(sinkhorn(scores, 1e-3, 50), limit, rtol=0, atol=1e-4)


def test_total_adds_the_masses_of_other_processes():
    # With the total of the other half added, half of the samples gets the same assignments as in the whole batch.
    scores = normal(8, 3)
    whole = sinkhorn(scores, 0.3, 1)

    def total(log_mass, others):
        return torch.logaddexp(log_prototype_mass(log_mass), log_prototype_mass(others))

    half = sinkhorn(scores[:4], 0.3, 1, total=partial(total, others=scores[4:] / 0.3))
    torch.testing.assert_close(half, whole[:4])


def test_extreme_scores_do_not_overflow():
    student = torch.tensor([[[1.0, -1.0]], [[1.0, -1.0]]], requires_grad=True)
    loss = self_distillation(student, student.detach(), torch.zeros(2), teacher_temperature=1e-3)
    loss.sum().backward()
    assert loss.isfinite().all() and student.grad.isfinite().all()


def test_negative_cosine_by_hand():
    p = torch.tensor([[3.0, 4.0], [3.0, 4.0], [1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    z = torch.tensor([[30.0, 40.0], [-4.0, 3.0], [-2.0, 0.0], [1.0, 0.0]])
    losses = negative_cosine(p, z)
    torch.testing.assert_close(losses, torch.tensor([-1.0, 0.0, 1.0, 0.0]))
    losses.sum().backward()
    assert p.grad.isfinite().all()
