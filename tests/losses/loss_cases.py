"""Losses compared with slow loops."""

import torch


def assert_value_and_gradient(fast, slow, inputs, **tolerance):
    """Two losses, one value per sample, are equal, and so are the gradients of a weighted sum."""
    assert fast.shape == slow.shape and fast.dtype == inputs[0].dtype
    torch.testing.assert_close(fast, slow, **tolerance)
    weights = torch.arange(1, fast.numel() + 1, dtype=fast.dtype).view(fast.shape)
    gradients = [torch.autograd.grad((weights * loss).sum(), inputs) for loss in (fast, slow)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, **tolerance)
