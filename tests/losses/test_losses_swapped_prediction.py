"""Sinkhorn's assignments and swapped prediction against loops."""

import math
from functools import partial

import pytest
import torch
from loss_cases import assert_value_and_gradient

from viewsmith.losses.self_distillation import log_prototype_mass, sinkhorn, swapped_prediction

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-6}}
DTYPES = (torch.float64, torch.float32)


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


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
    scores = draw(7, 4, dtype=dtype)
    q = sinkhorn(scores, epsilon, iterations)
    assert q.dtype == dtype
    torch.testing.assert_close(q, slow_sinkhorn(scores.double(), epsilon, iterations).to(dtype), **TOLERANCE[dtype])


def test_leading_dimensions_are_assigned_separately():
    scores = draw(2, 7, 4)
    both = sinkhorn(scores, 0.3)
    torch.testing.assert_close(both, torch.stack([sinkhorn(scores[0], 0.3), sinkhorn(scores[1], 0.3)]))


def test_marginals():
    q = sinkhorn(draw(30, 5), 0.3, 60)
    torch.testing.assert_close(q.sum(1), torch.ones(30, dtype=torch.float64))
    torch.testing.assert_close(q.sum(0), torch.full((5,), 6.0, dtype=torch.float64), rtol=1e-3, atol=0)
    early = sinkhorn(draw(30, 5), 0.3, 1)
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
    scores = draw(8, 3)
    whole = sinkhorn(scores, 0.3, 1)

    def total(log_mass, others):
        return torch.logaddexp(log_prototype_mass(log_mass), log_prototype_mass(others))

    half = sinkhorn(scores[:4], 0.3, 1, total=partial(total, others=scores[4:] / 0.3))
    torch.testing.assert_close(half, whole[:4])


def slow_swapped_prediction(scores, targets, temperature):
    losses = []
    for i in range(scores.shape[1]):
        terms = []
        for t in (0, 1):
            for s in range(len(scores)):
                if s == t:
                    continue
                p = torch.exp(scores[s, i] / temperature)
                p = p / p.sum()
                terms.append(-sum(targets[t, i, k] * torch.log(p[k]) for k in range(len(p))))
        losses.append(sum(terms) / len(terms))
    return torch.stack(losses)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("views", [2, 3, 6])
def test_swapped_prediction_equals_the_loop(views, dtype):
    scores = draw(views, 5, 4, dtype=dtype).requires_grad_()
    targets = draw(2, 5, 4, dtype=dtype, seed=1).softmax(-1).requires_grad_()
    fast, slow = swapped_prediction(scores, targets, 0.3), slow_swapped_prediction(scores, targets, 0.3)
    assert_value_and_gradient(fast, slow, (scores, targets), **TOLERANCE[dtype])
