"""Random images, and helpers for the tests of image views."""

import math

import pytest
import torch

from drawn import draw

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
every_recipe = pytest.mark.parametrize("name", ("simclr", "moco", "byol", "multicrop"))


def images(n=6, channels=3, height=12, width=10, dtype=torch.float32, seed=0, low=0.0, high=1.0):
    """Random pixels in [low, high]."""
    pixels = torch.rand(n, channels, height, width, generator=draw(seed), dtype=torch.float64)
    return (low + (high - low) * pixels).to(dtype)


def numbers(*values, dtype=torch.float64, grad=False):
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def scaled(pixels):
    return (pixels - pixels.new_tensor(MEAN)[:, None, None]) / pixels.new_tensor(STD)[:, None, None]


def pixels_of(x):
    return x * x.new_tensor(STD)[:, None, None] + x.new_tensor(MEAN)[:, None, None]


def close(ours, theirs, tolerance=2e-6):
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= tolerance


def within(successes, n, probability):
    """Whether a count lies within 5 standard deviations of its binomial mean."""
    return abs(successes - n * probability) <= 5 * math.sqrt(n * probability * (1 - probability))
