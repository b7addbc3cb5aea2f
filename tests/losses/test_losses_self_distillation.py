"""DINO's loss against a loop, and by hand."""

import math

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


def test_by_hand():
    # Scores equal to the center give uniform targets. The student predicts 1 : 3.
    student = torch.tensor([0.0, math.log(3)]).expand(2, 1, 2)
    center = torch.tensor([5.0, -2.0])
    teacher = center.expand(2, 1, 2)
    loss = self_distillation(student, teacher, center, student_temperature=1.0)
    assert float(loss) == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)
    # Above the center by log 3 / 2 in the first prototype, at temperature 1/2: odds 3 : 1.
    teacher = teacher + torch.tensor([math.log(3) / 2, 0.0])
    loss = self_distillation(student, teacher, center, student_temperature=1.0, teacher_temperature=0.5)
    assert float(loss) == pytest.approx(3 / 4 * math.log(4) + 1 / 4 * math.log(4 / 3))


def test_extreme_scores_do_not_overflow():
    student = torch.tensor([[[1.0, -1.0]], [[1.0, -1.0]]], requires_grad=True)
    loss = self_distillation(student, student.detach(), torch.zeros(2), teacher_temperature=1e-3)
    loss.sum().backward()
    assert loss.isfinite().all() and student.grad.isfinite().all()
