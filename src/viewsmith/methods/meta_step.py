"""The second derivative through one step of an encoder, at the price of first ones.

Symbols: theta the weights of encoder and head, z(theta) the projections, omega what makes augmented features of them,
L1 the loss of the inner step, theta' = theta - ell grad_theta L1, L2 the loss at theta'. Wanted is the gradient of
L2(theta'(omega), omega) in omega. By the chain rule it is dL2/domega - ell d/domega <grad_theta L1, v> with
v = grad_theta' L2, a constant. The terms of L1 that depend on omega depend on theta through z alone, so with
u = dz/dtheta v, a product in forward mode, <grad_theta L1, v> = const + <dL1/dz, u>: second derivatives are those of a
loss of projections, not of an encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import jvp

from viewsmith.core.distributed import is_distributed, world_size
from viewsmith.core.errors import InputError

Weights = dict[str, Tensor]
#: From weights to the losses without augmented features, (B,) or None, and the projections (M, B, d).
Forward = Callable[[Weights], tuple[Tensor | None, Tensor]]
#: From projections (M, B, d) to losses (B,).
Loss = Callable[[Tensor], Tensor]


@contextmanager
def batch_statistics(*modules: nn.Module) -> Iterator[None]:
    """BatchNorm in training mode uses the batch's statistics and does not change its running ones."""
    norms = [m for module in modules for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = not norm.training
    try:
        yield
    finally:
        for norm, tracks in zip(norms, before, strict=True):
            norm.track_running_stats = tracks


def check_statistics(*modules: nn.Module) -> None:
    """Refuse BatchNorm over several GPUs, whose kernels have neither second nor forward-mode derivatives.

    Raises
    ------
    InputError
    """
    if any(isinstance(m, nn.SyncBatchNorm) for module in modules for m in module.modules()):
        raise InputError(
            "meta is 'second-order', which BatchNorm over several GPUs has no derivatives for: take "
            "meta='first-order', norm='none' (vectors), or one GPU"
        )


def mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """The training scalar, mean of weight times loss."""
    return (losses if weight is None else weight * losses).mean()


def inner_gradient(forward: Forward, inner: Loss, weights: Weights, weight: Tensor | None = None) -> Weights:
    """grad_theta L1, mean over processes, from a forward and a backward pass."""
    theta = {name: value.detach().requires_grad_() for name, value in weights.items()}
    own, z = forward(theta)
    losses = inner(z) if own is None else own + inner(z)
    found = torch.autograd.grad(mean(losses, weight), list(theta.values()), allow_unused=True)
    return _averaged(theta, found)


def lookahead(weights: Weights, gradient: Mapping[str, Tensor | None], rate: float) -> Weights:
    """theta' = theta - ell grad_theta L1 (MetAug: equation 3), fresh leaves of a graph."""
    found = {}
    for name, value in weights.items():
        slope = gradient[name]
        found[name] = (value.detach().clone() if slope is None else value - rate * slope).detach().requires_grad_()
    return found


def meta_losses(
    forward: Forward,
    embed: Callable[[Weights], Tensor],
    inner: Loss,
    outer: Loss,
    *,
    omega: Sequence[Tensor],
    weights: Weights,
    gradient: Mapping[str, Tensor | None],
    z: Tensor,
    rate: float,
    second_order: bool = True,
    weight: Tensor | None = None,
) -> Tensor:
    """L2 of each sample at theta', whose gradient in omega is that of the whole meta objective (equation 2).

    One forward and one backward pass at theta', one forward-mode product at theta, and second derivatives of `inner`
    alone. Without `second_order`, theta' is a constant: one pass of `embed`, and `outer` alone.

    Parameters
    ----------
    forward : callable
        See `Forward`; the losses it gives are the same in L1 and L2.
    embed : callable
        From `weights` to the projections that `forward` returns, differentiable in forward mode.
    inner, outer : callable
        The parts of L1 and L2 that depend on augmented features, from projections.
    omega : sequence of Tensor
        The generators' parameters, in which the gradient is wanted; `outer` depends on all of them.
    weights : dict of Tensor
        theta.
    gradient : dict of Tensor or None
        grad_theta L1 at `z`, mean over processes; None: 0.
    z : Tensor, shape (M, B, d)
        Projections at theta.
    rate : float
        ell.
    weight : Tensor, shape (B,), optional
        Of the samples.

    Returns
    -------
    Tensor, shape (B,)
        Of these values and with that gradient in omega; without `second_order` an ordinary graph.
    """
    theta = lookahead(weights, gradient, rate)
    if not second_order:
        with torch.no_grad():
            ahead = embed(theta)
        return outer(ahead)
    own, ahead = forward(theta)
    leaf = ahead.detach().requires_grad_()
    losses = outer(leaf)
    # Gradients in omega alone, which are taken here: a backward pass from the losses would reach z, too.
    pull, *slopes = torch.autograd.grad(mean(losses, weight), [leaf, *omega])
    losses = losses.detach()
    outputs, pulls = [ahead], [pull]
    if own is not None:
        outputs, pulls = [ahead, mean(own, weight)], [pull, torch.ones_like(own[0])]
        losses = losses + own.detach()
    v = _averaged(theta, torch.autograd.grad(outputs, list(theta.values()), pulls, allow_unused=True))
    # In forward mode autocast casts the weights of a convolution and not its input.
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        u = jvp(embed, ({name: value.detach() for name, value in weights.items()},), (v,))[1]
    leaf = z.detach().requires_grad_()
    (pull,) = torch.autograd.grad(mean(inner(leaf), weight), leaf, create_graph=True)
    mixed = torch.autograd.grad((pull * u).sum(), omega)
    parts = [((g - rate * m) * p).sum() for g, m, p in zip(slopes, mixed, omega, strict=True)]
    surrogate = torch.stack(parts).sum()
    # A constant added to every sample counts mean(weight) times in the training scalar.
    return losses + (surrogate - surrogate.detach()) / (1 if weight is None else weight.mean())


def _averaged(theta: Weights, gradients: tuple[Tensor | None, ...]) -> Weights:
    """Gradients by name, mean over processes; zero where there is none."""
    found = {
        name: torch.zeros_like(value) if gradient is None else gradient.detach()
        for (name, value), gradient in zip(theta.items(), gradients, strict=True)
    }
    if is_distributed():
        flat = torch.cat([gradient.flatten() for gradient in found.values()])
        torch.distributed.all_reduce(flat)
        parts = (flat / world_size()).split([gradient.numel() for gradient in found.values()])
        found = {name: part.view_as(found[name]) for name, part in zip(found, parts, strict=True)}
    return found
