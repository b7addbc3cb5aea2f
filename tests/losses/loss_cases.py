"""Losses compared with slow loops."""

import torch

#: Of losses whose mean is that of a batch.
TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-11}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}


def assert_value_and_gradient(fast, slow, inputs, **tolerance):
    """Two losses, one value per sample, are equal, and so are the gradients of a weighted sum."""
    assert fast.shape == slow.shape and fast.dtype == inputs[0].dtype
    torch.testing.assert_close(fast, slow, **tolerance)
    weights = torch.arange(1, fast.numel() + 1, dtype=fast.dtype).view(fast.shape)
    gradients = [torch.autograd.grad((weights * loss).sum(), inputs) for loss in (fast, slow)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, **tolerance)


def correlated_views(noise, dtype=torch.float64):
    """Two views (2, 6, 4), correlated, with features of different scales and means."""
    generator = torch.Generator().manual_seed(0)
    base, further = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((6, 4), (2, 6, 4)))
    z = (base + noise * further) * torch.tensor([0.3, 0.6, 2.0, 0.9], dtype=torch.float64) + 1.5
    return z.to(dtype).requires_grad_()


def assert_mean_and_gradient(losses, expected, z, exact):
    """The mean of losses of z, one for each sample, is the one of the batch, of `exact`, and so is its gradient."""
    assert losses.shape == (z.shape[1],) and losses.dtype == z.dtype
    tolerance = TOLERANCE[z.dtype]
    torch.testing.assert_close(losses.mean().double(), expected, **tolerance)
    (one,), (other,) = torch.autograd.grad(losses.mean(), z), torch.autograd.grad(expected, exact)
    torch.testing.assert_close(one.double(), other, **tolerance)
    assert other.abs().max() > 1e-3


def assert_finite_for_constant_features(loss, expected):
    """One sample, and samples that are all equal, have finite losses and gradients."""
    for shape in ((2, 1, 4), (2, 6, 4)):
        z = torch.ones(shape, requires_grad=True)
        losses = loss(z[0], z[1])
        losses.sum().backward()
        assert losses.isfinite().all() and z.grad.isfinite().all()
        torch.testing.assert_close(losses, torch.full_like(losses, expected))
