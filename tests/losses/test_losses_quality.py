"""GenView's quality and weights of pairs against slow loops."""

import math

import pytest
import torch
from loss_cases import assert_value_and_gradient

from viewsmith.losses.quality import attention_pools, foreground_map, pair_quality, quality_weights

TOLERANCE = {torch.float64: {"rtol": 1e-12, "atol": 1e-12}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}


def slow_map(features, axis):
    rows = []
    for image in features:
        s = [sum(patch[k] * axis[k] for k in range(len(axis))) for patch in image]
        low, high = min(s), max(s)
        rows.append(torch.stack([(value - low) / (high - low) for value in s]))
    return torch.stack(rows)


def slow_cosine(a, b):
    return (a * b).sum() / (a * a).sum() ** 0.5 / (b * b).sum() ** 0.5


def slow_quality(features, others, axis):
    found = []
    for one, other in zip(features, others, strict=True):
        pools = []
        for image in (one, other):
            m = slow_map(image[None], axis)[0]
            # Both maps are divided by their sums, as in the paper. The background is computed directly.
            z_f = sum(m[p] / m.sum() * image[p] for p in range(len(m)))
            z_b = sum((1 - m[p]) / (1 - m).sum() * image[p] for p in range(len(m)))
            pools.append((z_f, z_b))
        found.append(slow_cosine(pools[0][0], pools[1][0]) - slow_cosine(pools[0][1], pools[1][1]))
    return torch.stack(found)


def quality(features, others, axis):
    return pair_quality(*(attention_pools(f, foreground_map(f, axis)) for f in (features, others)))


def draws(dtype, batch=4, patches=5, width=3):
    generator = torch.Generator().manual_seed(0)
    features, others = (torch.randn(batch, patches, width, generator=generator, dtype=dtype) for _ in range(2))
    axis = torch.randn(width, generator=generator, dtype=dtype)
    return features.requires_grad_(), others.requires_grad_(), axis


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_foreground_map_equals_the_loop(dtype):
    features, _, axis = draws(dtype)
    fast = foreground_map(features, axis)
    assert fast.shape == (4, 5) and fast.dtype == dtype
    torch.testing.assert_close(fast, slow_map(features, axis), **TOLERANCE[dtype])
    torch.testing.assert_close(fast.amin(1), torch.zeros(4, dtype=dtype))
    torch.testing.assert_close(fast.amax(1), torch.ones(4, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_quality_equals_the_loop_in_value_and_gradient(dtype):
    features, others, axis = draws(dtype)
    fast, slow = quality(features, others, axis), slow_quality(features, others, axis)
    assert_value_and_gradient(fast, slow, (features, others), **TOLERANCE[dtype])


def test_equal_patches_have_no_foreground():
    features = torch.ones(1, 4, 3, requires_grad=True)
    axis = torch.tensor([1.0, 2.0, 3.0])
    assert foreground_map(features, axis).tolist() == [[0.5] * 4]
    q = quality(features, torch.rand(1, 4, 3, generator=torch.Generator().manual_seed(0)), axis)
    q.sum().backward()
    assert features.grad.isfinite().all()
    assert quality(features, features, axis).tolist() == [0.0]


def test_a_sample_without_patches_counts_as_foreground():
    h, other = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[4.0, 3.0], [0.0, 2.0]])
    pools = [attention_pools(rows[:, None], torch.ones(2, 1)) for rows in (h, other)]
    torch.testing.assert_close(pair_quality(*pools), torch.tensor([24 / 25, 0.0]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 7.0])
def test_weights_equal_the_loop(dtype, gamma):
    q = torch.tensor([0.3, -0.2, 1.1], dtype=dtype)
    total = sum(math.exp(gamma * float(value)) for value in q)
    slow = torch.tensor([3 * math.exp(gamma * float(value)) / total for value in q], dtype=dtype)
    weights = quality_weights(q, gamma)
    assert weights.dtype == dtype
    torch.testing.assert_close(weights, slow, **TOLERANCE[dtype])
    torch.testing.assert_close(weights.mean(), torch.ones((), dtype=dtype))


def test_weights_get_no_gradient():
    q = torch.tensor([0.3, -0.2], requires_grad=True)
    losses = torch.tensor([1.0, 2.0], requires_grad=True)
    (quality_weights(q) * losses).mean().backward()
    assert q.grad is None
    torch.testing.assert_close(losses.grad, quality_weights(q) / 2)


def test_weights_of_two_halves_equal_those_of_the_whole():
    q = torch.randn(6, generator=torch.Generator().manual_seed(1))
    halves = [quality_weights(part, gathered=q) for part in q.split(3)]
    torch.testing.assert_close(torch.cat(halves), quality_weights(q))
