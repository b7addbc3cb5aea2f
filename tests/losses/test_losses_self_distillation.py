"""DINO's loss against a loop."""

import pytest
import torch
from loss_cases import assert_value_and_gradient

from viewsmith.losses.self_distillation import self_distillation

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-5}}


def slow_self_distillation(student, teacher, center, tau_s, tau_t):
    losses = []
    for i in range(student.shape[1]):
        terms = []
        for t in (0, 1):
            target = torch.exp((teacher[t, i] - center) / tau_t)
            target = target / target.sum()
            for s in range(len(student)):
                if s != t:
                    p = torch.exp(student[s, i] / tau_s)
                    terms.append(-sum(target[k] * torch.log(p[k] / p.sum()) for k in range(len(p))))
        losses.append(sum(terms) / len(terms))
    return torch.stack(losses)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("views", [2, 5])
def test_self_distillation_equals_the_loop(views, dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = ((views, 5, 4), (2, 5, 4), (4,))
    given = [torch.randn(*s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]
    fast = self_distillation(*given, student_temperature=0.5, teacher_temperature=0.3)
    slow = slow_self_distillation(*given, 0.5, 0.3)
    assert_value_and_gradient(fast, slow, given, **TOLERANCE[dtype])


def test_extreme_scores_do_not_overflow():
    student = torch.tensor([[[1.0, -1.0]], [[1.0, -1.0]]], requires_grad=True)
    loss = self_distillation(student, student.detach(), torch.zeros(2), teacher_temperature=1e-3)
    loss.sum().backward()
    assert loss.isfinite().all() and student.grad.isfinite().all()
