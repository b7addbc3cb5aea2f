"""The supervised contrastive loss, and Rank-N-Contrast of numbers, against loops over anchors."""

import pytest
import torch
from loss_cases import assert_value_and_gradient

from refusals import refusal
from viewsmith.losses import nt_xent, rank_n_contrast, sup_con

TOLERANCE = {torch.float64: {"rtol": 1e-9, "atol": 1e-11}, torch.float32: {"rtol": 2e-5, "atol": 1e-5}}
TAU = 0.2


def slow_sup_con(z0, z1, labels):
    z = [row / (row * row).sum() ** 0.5 for row in [*z0, *z1]]
    classes = [int(k) for k in [*labels[0], *labels[1]]]
    found = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        positives = [j for j in others if classes[j] == classes[i]]
        total = sum(torch.exp((z[i] * z[j]).sum() / TAU) for j in others)
        terms = [-torch.log(torch.exp((z[i] * z[j]).sum() / TAU) / total) for j in positives]
        found.append(sum(terms) / len(terms) if terms else z[i].sum() * 0)
    half = len(z0)
    return torch.stack([(found[i] + found[half + i]) / 2 for i in range(half)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "labels",
    [
        ([0, 1, 0, 2, 1], [0, 1, 0, 2, 1]),
        ([0, 1, 0, 2, 1], [0, 0, 3, 2, 4]),  # second views of other samples; some anchors have no positive
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
    ],
)
def test_sup_con_equals_the_loop(labels, dtype):
    generator = torch.Generator().manual_seed(0)
    z0, z1 = (torch.randn(5, 3, generator=generator, dtype=dtype).requires_grad_() for _ in range(2))
    labels = tuple(torch.tensor(part) for part in labels)
    fast, slow = sup_con(z0, z1, labels, temperature=TAU), slow_sup_con(z0, z1, labels)
    assert_value_and_gradient(fast, slow, (z0, z1), **TOLERANCE[dtype])


def test_with_one_class_per_sample_it_equals_nt_xent():
    z0, z1 = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.arange(7)
    torch.testing.assert_close(sup_con(z0, z1, (labels, labels), temperature=0.5), nt_xent(z0, z1, temperature=0.5))


def test_a_part_of_a_larger_batch():
    z0, z1 = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0, 2, 1])
    whole = sup_con(z0, z1, (labels, labels))
    part = slice(2, 5)
    found = sup_con(
        z0[part], z1[part], (labels[part], labels[part]), gathered=(z0, z1), gathered_labels=(labels, labels), offset=2
    )
    torch.testing.assert_close(found, whole[part])


def test_labels_are_a_pair():
    z = torch.randn(3, 2)
    assert "labels is one tensor, expected a pair" in refusal(sup_con, z, z, torch.arange(3))
    assert "labels is ndarray, expected a pair" in refusal(sup_con, z, z, torch.arange(3).numpy())


def slow_rank_n_contrast(z0, z1, targets):
    z, y = [*z0, *z1], [float(value) for value in [*targets, *targets]]
    found = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        terms = []
        for j in others:
            farther = [k for k in others if abs(y[i] - y[k]) >= abs(y[i] - y[j])]
            total = sum(torch.exp(-(((z[i] - z[k]) ** 2).sum() ** 0.5) / TAU) for k in farther)
            terms.append(-torch.log(torch.exp(-(((z[i] - z[j]) ** 2).sum() ** 0.5) / TAU) / total))
        found.append(sum(terms) / len(terms))
    half = len(z0)
    return torch.stack([(found[i] + found[half + i]) / 2 for i in range(half)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("targets", [[0.1, 3.0, -2.0, 0.5, 7.0], [1.0, 1.0, 2.0, 2.0, 3.0], [4.0] * 5])
def test_rank_n_contrast_equals_the_loop(targets, dtype):
    generator = torch.Generator().manual_seed(0)
    z0, z1 = (torch.randn(5, 3, generator=generator, dtype=dtype).requires_grad_() for _ in range(2))
    y = torch.tensor(targets, dtype=dtype)
    fast, slow = rank_n_contrast(z0, z1, y, temperature=TAU), slow_rank_n_contrast(z0, z1, y)
    assert_value_and_gradient(fast, slow, (z0, z1), **TOLERANCE[dtype])


def test_the_order_of_targets_lowers_the_loss_and_their_scale_does_not_matter():
    y = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sorted_by_target, mixed = y[:, None] * 5, y.flip(0)[:, None] * 5
    assert rank_n_contrast(sorted_by_target, sorted_by_target, y).mean() < rank_n_contrast(mixed, mixed, y).mean()
    torch.testing.assert_close(rank_n_contrast(mixed, mixed, 100 * y + 3), rank_n_contrast(mixed, mixed, y))


def test_equal_views_have_finite_gradients():
    z = torch.ones(4, 2, requires_grad=True)
    rank_n_contrast(z, z, torch.arange(4.0)).sum().backward()
    assert z.grad.isfinite().all()


def test_rank_n_contrast_refuses():
    z = torch.zeros(3, 2)
    assert "expected one for each sample" in refusal(rank_n_contrast, z, z, torch.zeros(6))
    assert "temperature" in refusal(rank_n_contrast, z, z, torch.zeros(3), temperature=0)
