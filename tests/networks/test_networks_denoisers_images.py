"""Denoisers of images: shapes, what they depend on, and the published one against its listing."""

import math

import pytest
import torch
import torch.nn.functional as F

from viewsmith.core.errors import InputError
from viewsmith.networks.denoisers.images import ImageDenoiser, PublishedImageDenoiser

KINDS = {"default": ImageDenoiser, "published": PublishedImageDenoiser}
every_kind = pytest.mark.parametrize("kind", KINDS)
CONDITION = 5


def made(kind, channels=3, dtype=torch.float32, **options):
    torch.manual_seed(0)
    return KINDS[kind](channels, CONDITION, **options).to(dtype)


def batch(n, height, width, channels=3, dtype=torch.float32, seed=0):
    """Noised images, times and conditions."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, channels, height, width, generator=g, dtype=dtype)
    return x, torch.randint(1000, (n,), generator=g), torch.randn(n, CONDITION, generator=g, dtype=dtype)


def trained(network, steps=4, learning_rate=1e-2, size=8):
    """A few steps towards the image itself at a brightness that time and condition tell."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    dtype = next(network.parameters()).dtype
    for step in range(steps):
        x, t, condition = batch(
            8, size, size, network.last.out_channels // (4 if hasattr(network, "join") else 1), dtype, step
        )
        wanted = x + condition[:, :1, None, None] + (t / 500 - 1)[:, None, None, None]
        optimizer.zero_grad()
        (network(x, t, condition) - wanted).square().mean().backward()
        optimizer.step()
    return network


@every_kind
@pytest.mark.parametrize("size", [(8, 8), (9, 13), (28, 28), (32, 32)])
@pytest.mark.parametrize("channels", [1, 3])
def test_predictions_have_the_size_of_the_images(kind, size, channels):
    x, t, condition = batch(2, *size, channels)
    prediction = made(kind, channels)(x, t, condition)
    assert prediction.shape == x.shape and prediction.dtype == x.dtype
