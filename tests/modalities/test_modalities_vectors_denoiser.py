"""Denoisers of vectors, and the layers of all denoisers."""

import math

import pytest
import torch

from viewsmith.modalities.vectors.networks import PublishedVectorDenoiser, VectorDenoiser
from viewsmith.networks.base import TimestepEmbedding, time_features, zero_initialized

CONDITION = 5


def narrow(kind, d, dtype=torch.float64):
    """Small enough for slow loops."""
    torch.manual_seed(0)
    network = {"default": VectorDenoiser, "published": PublishedVectorDenoiser}[kind](d, CONDITION, width=7)
    return network.to(dtype)


def batch(n, d=6, dtype=torch.float32, seed=0):
    """Noised codes, times and conditions."""
    g = torch.Generator().manual_seed(seed)
    x, condition = (torch.randn(n, width, generator=g, dtype=dtype) for width in (d, CONDITION))
    return x, torch.randint(1000, (n,), generator=g), condition


# ---- layers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 7, 64])
def test_time_features_of_any_width_and_dtype(width):
    t = torch.tensor([3, 500])
    found = time_features(t, width)
    assert found.shape == (2, width) and found.dtype == torch.float32 and bool(found.isfinite().all())
    precise = time_features(t.double(), width)
    assert precise.dtype == torch.float64
    torch.testing.assert_close(found.double(), precise, atol=1e-4, rtol=0)
    assert width % 2 == 0 or not found[:, -1].any()


def test_time_features_by_hand():
    found = time_features(torch.tensor([0, 1, 999]), 4)
    target = [[math.sin(t), math.sin(t * 1e-4), math.cos(t), math.cos(t * 1e-4)] for t in (0, 1, 999)]
    torch.testing.assert_close(found, torch.tensor(target), atol=1e-4, rtol=0)


def test_every_time_has_its_own_features():
    features = time_features(torch.arange(1000), 64)
    distances = torch.cdist(features, features).fill_diagonal_(torch.inf)
    assert distances.min() > 0.1


def test_zero_initialization_and_timestep_embedding():
    layer = zero_initialized(torch.nn.Linear(3, 2))
    assert not layer(torch.randn(4, 3)).any()
    embedding = TimestepEmbedding(8)(torch.tensor([5, 900]))
    assert embedding.shape == (2, 8) and bool((embedding[0] != embedding[1]).any())


# ---- each against slow restatements ---------------------------------------------------------------------------------


def linear(layer, row):
    return torch.stack([(layer.weight[i] * row).sum() + layer.bias[i] for i in range(len(layer.weight))])


def norm(row):
    centered = row - row.mean()
    return centered / (centered.square().mean() + 1e-5).sqrt()


def leaky(row):
    return torch.where(row > 0, row, 0.01 * row)


def silu(row):
    return row / (1 + torch.exp(-row))


def slow_default(network, x, t, condition):
    time = silu(linear(network.time, time_features(t[None].double(), 64)[0]))
    projected = linear(network.condition, condition)
    h = linear(network.first, x) + projected
    for number, block in enumerate(network.blocks):
        factors = linear(block.modulate.factors, time)
        scale, shift = factors[: len(h)], factors[len(h) :]
        h = h + linear(
            block.outer, silu(linear(block.inner, norm(h) * (1 + scale) + shift + (projected if number else 0)))
        )
    return linear(network.last, norm(h)) + linear(network.input_weight, time) * x


def slow_published(network, x, t, condition):
    """Listing 2: encoder blocks 1 to 4 and decoder blocks 5 to 8, with the outputs of earlier blocks added."""
    first, _, second, _, third = network.condition
    projected = network.time.weight[t] + linear(third, leaky(linear(second, leaky(linear(first, condition)))))

    def block(number, h):
        h = h + projected
        if number > 1:
            h = norm(leaky(h))
        layers = network.blocks[number - 1]
        return linear(layers.narrow, norm(leaky(linear(layers.widen, h))))

    e = [block(1, x)]
    for number in (2, 3, 4):
        e.append(block(number, e[-1]) + sum(e))
    d = [block(5, e[3])]
    for number in (6, 7, 8):
        d.append(block(number, d[-1]) + e[8 - number] + sum(d))
    return d[-1]


@pytest.mark.parametrize(("kind", "slow"), [("default", slow_default), ("published", slow_published)])
def test_networks_against_a_slow_restatement(kind, slow):
    network = narrow(kind, 6)
    for p in network.parameters():
        torch.nn.init.normal_(p, std=0.5)
    given = batch(4, dtype=torch.float64)
    target = torch.stack([slow(network, *row) for row in zip(*given, strict=True)])
    gradients = torch.autograd.grad(target.square().sum(), list(network.parameters()))
    found = network(*given)
    torch.testing.assert_close(found, target)
    for one, other in zip(torch.autograd.grad(found.square().sum(), network.parameters()), gradients, strict=True):
        torch.testing.assert_close(one, other)
    x, t, condition = given
    single = network.float()(x.float(), t, condition.float()).double()
    torch.testing.assert_close(single, target, atol=1e-3, rtol=1e-3)


def test_the_number_of_weights_of_the_published_network():
    """About 48 million weights at 1,457 features and 50 condition entries."""
    with torch.device("meta"):
        network = PublishedVectorDenoiser(1457, 50)
    blocks = 8 * (2 * 1457 * 2000 + 2000 + 1457)
    condition = 50 * 200 + 200 + 200 * 200 + 200 + 200 * 1457 + 1457
    count = sum(p.numel() for p in network.parameters())
    assert count == blocks + 1000 * 1457 + condition
    assert 48e6 < count < 49e6
