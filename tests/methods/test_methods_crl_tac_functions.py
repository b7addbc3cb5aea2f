"""Families of custom transformations."""

import copy

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.views import Functions


def double(x):
    return 2 * x


def first_half(x):
    return x[..., : x.shape[-1] // 2]


def second_half(x):
    return x[..., x.shape[-1] // 2 :]


FUNCTIONS = [double, torch.neg, lambda x: x.flip(1)]


def samples(n=4, dtype=torch.float32):
    return torch.arange(6.0 * n, dtype=dtype).view(n, 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_views_are_the_outputs_of_the_functions(dtype):
    family, x = Functions(FUNCTIONS), samples(dtype=dtype)
    t = torch.tensor([[0, 2, 2, 1], [1, 1, 1, 1], [2, 0, 1, 0], [0, 0, 0, 0]])
    views = family.take(x, t)
    assert family.size == 3 and views.dtype is dtype and views.shape == (4, 4, 6)
    for i in range(4):
        for j in range(4):
            assert torch.equal(views[i, j], FUNCTIONS[t[i, j]](x[i : i + 1])[0])
    assert torch.equal(family.all_views(x), torch.stack([f(x) for f in FUNCTIONS], dim=1))


def test_a_function_gets_only_the_samples_for_which_it_is_drawn():
    seen = []

    def record(x):
        seen.append(x.clone())
        return x

    family, x = Functions([record, torch.neg]), samples()
    family.take(x, torch.tensor([[1, 1], [0, 1], [1, 1], [0, 0]]))
    family.take(x, torch.ones(4, 2, dtype=torch.int64))
    assert len(seen) == 1 and torch.equal(seen[0], x[[1, 3, 3]])


def test_is_view_distinguishes_views_of_another_shape():
    family, x = Functions([first_half, second_half]), samples()
    assert family.all_views(x).shape == (4, 2, 3) and not family.is_view(x[:, :3])
    family.shapes = (6,), (3,)
    assert family.is_view(x[:, :3]) and not family.is_view(x)
    family.shapes = (6,), (6,)
    assert not family.is_view(x)


def test_modules_are_copied_and_not_trained():
    linear = nn.Linear(6, 6)
    family = Functions([linear, nn.Identity()])
    assert len(family.state_dict()) == 2 and not any(p.requires_grad for p in family.parameters())
    other = copy.deepcopy(family)
    with torch.no_grad():
        linear.weight.zero_()
    x = samples()
    assert torch.equal(family.all_views(x), other.all_views(x)) and not torch.equal(
        family.all_views(x)[:, 0], linear(x)
    )
    assert other.double().all_views(x.double()).dtype is torch.float64
    assert linear.weight.requires_grad


def fails(x):
    raise ValueError("no\nsuch thing")


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([], "functions: the family has 0 transformations, expected at least 2"),
        ([double], "functions: the family has 1 transformation, expected at least 2"),
        ([double, fails], "transformation 1 (fails) failed for samples (4, 6): ValueError: no such thing"),
        (
            [double, first_half],
            "transformation 1 (first_half) returned views of shape (3,) and transformation 0 (double) of shape (6,)",
        ),
        ([lambda x: x.mean(0), double], "transformation 0 (<lambda>) returned (6,) for samples (4, 6)"),
        ([double, lambda x: x.sum(1)], "transformation 1 (<lambda>) returned (4,) for samples (4, 6)"),
        ([double, lambda x: x.numpy()], "transformation 1 (<lambda>) returned ndarray for samples (4, 6)"),
        ([torch.log, double], "transformation 0 (log) returned values that are not finite"),
    ],
)
def test_invalid_functions_are_refused(functions, message):
    assert message in refusal(lambda: Functions(functions).all_views(samples()))
