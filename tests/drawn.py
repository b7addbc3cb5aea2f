"""Generators of random numbers, and tensors that are drawn with them."""

import torch


def draw(seed=0):
    """A generator of random numbers."""
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0, dtype=torch.float64):
    """Normal numbers, the same ones in each dtype."""
    return torch.randn(*shape, generator=draw(seed), dtype=torch.float64).to(dtype)
