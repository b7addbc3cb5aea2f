"""MetAug's loss for its two updates, and the gradient through the step between them at the cost of first derivatives.

Symbols: theta the weights of encoder and head, z(theta) the projections, omega the weights of the generators of
augmented features, L1 the loss of the inner step, theta' = theta - ell grad_theta L1, L2 the loss at theta'. The module
computes the gradient of L2(theta'(omega), omega) with respect to omega. By the chain rule it is
dL2/domega - ell d/domega <grad_theta L1, v>, where v = grad_theta' L2 is a constant. The terms of L1 that depend on
omega depend on theta only through z. With the forward-mode product u = dz/dtheta v, therefore,
<grad_theta L1, v> = const + <dL1/dz, u>. So only the loss is differentiated twice, not the encoder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

from viewsmith.core.distributed import is_distributed, world_size
from viewsmith.core.errors import InputError
from viewsmith.core.registry import Positive, Weight
from viewsmith.estimator.arguments import Auto, Count, Widths
from viewsmith.estimator.options import Part
from viewsmith.frameworks import Framework, Unified
from viewsmith.frameworks.base import full_precision
from viewsmith.frameworks.unified import Draw, FeatureContrast, Views, embed
from viewsmith.losses.nt_xent import nt_xent
from viewsmith.methods.metaug.networks import MetaFeatures
from viewsmith.views.base import PositivePair

Weights = dict[str, Tensor]

#: Maps weights to the losses without augmented features, (B,) or None, and the projections (M, B, d).
Forward = Callable[[Weights], tuple[Tensor | None, Tensor]]

#: Maps projections (M, B, d) to losses (B,).
Loss = Callable[[Tensor], Tensor]


@contextmanager
def batch_statistics(*modules: nn.Module) -> Iterator[None]:
    """Context in which BatchNorm in train mode uses batch statistics and does not change its running statistics."""
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
    """Reject BatchNorm over several GPUs (SyncBatchNorm), which has no second and forward-mode derivatives."""
    if any(isinstance(m, nn.SyncBatchNorm) for module in modules for m in module.modules()):
        raise InputError(
            "meta is 'second-order', but BatchNorm over several GPUs has no second derivatives: use "
            "meta='first-order', norm='none' (vectors), or one GPU"
        )


def mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """The training loss: mean of weight times loss, a scalar."""
    return (losses if weight is None else weight * losses).mean()


def inner_gradient(forward: Forward, inner: Loss, weights: Weights, weight: Tensor | None = None) -> Weights:
    """grad_theta L1, mean over processes, by a forward and a backward pass."""
    theta = {name: value.detach().requires_grad_() for name, value in weights.items()}
    base, z = forward(theta)
    losses = inner(z) if base is None else base + inner(z)
    found = torch.autograd.grad(mean(losses, weight), list(theta.values()), allow_unused=True)
    return _averaged(theta, found)


def lookahead(weights: Weights, gradient: Mapping[str, Tensor | None], rate: float) -> Weights:
    """theta' = theta - ell grad_theta L1 (MetAug: equation 3), as new leaves of the graph."""
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
    """L2 of each sample at theta'. The gradient in omega is that of the meta objective (equation 2).

    It takes one forward and one backward pass at theta', one forward-mode product at theta, and second derivatives of
    `inner`. Without `second_order`, theta' is a constant, and only one pass of `embed` and `outer` are needed.

    Parameters
    ----------
    forward : callable
        See `Forward`. Its losses are part of both L1 and L2.
    embed : callable
        Maps weights to the projections that `forward` returns; differentiable in forward mode.
    inner, outer : callable
        Map projections to the parts of L1 and L2 that depend on augmented features.
    omega : sequence of Tensor
        Parameters of the generators. `outer` must depend on all of them.
    weights : dict of Tensor
        theta.
    gradient : dict of Tensor or None
        grad_theta L1 at `z`, mean over processes; None means 0.
    z : Tensor, shape (M, B, d)
        Projections at theta.
    rate : float
        ell.
    second_order : bool
        Whether theta' depends on omega.
    weight : Tensor, shape (B,), optional
        Weights of the samples.

    Returns
    -------
    Tensor, shape (B,)
        With `second_order`, only the gradient in omega is defined.
    """
    theta = lookahead(weights, gradient, rate)
    if not second_order:
        with torch.no_grad():
            ahead = embed(theta)
        return outer(ahead)
    base, ahead = forward(theta)
    leaf = ahead.detach().requires_grad_()
    losses = outer(leaf)
    # The gradient in omega is computed here, because a backward pass from the losses would also reach z.
    pull, *slopes = torch.autograd.grad(mean(losses, weight), [leaf, *omega])
    losses = losses.detach()
    outputs, pulls = [ahead], [pull]
    if base is not None:
        outputs, pulls = [ahead, mean(base, weight)], [pull, torch.ones_like(base[0])]
        losses = losses + base.detach()
    v = _averaged(theta, torch.autograd.grad(outputs, list(theta.values()), pulls, allow_unused=True))
    # In forward mode, autocast would convert the weights of a convolution, but not its input.
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        u = jvp(embed, ({name: value.detach() for name, value in weights.items()},), (v,))[1]
    leaf = z.detach().requires_grad_()
    (pull,) = torch.autograd.grad(mean(inner(leaf), weight), leaf, create_graph=True)
    mixed = torch.autograd.grad((pull * u).sum(), omega)
    parts = [((g - rate * m) * p).sum() for g, m, p in zip(slopes, mixed, omega, strict=True)]
    surrogate = torch.stack(parts).sum()
    # In the training loss, a constant that is added to every sample is multiplied by mean(weight).
    return losses + (surrogate - surrogate.detach()) / (1 if weight is None else weight.mean())


def _averaged(theta: Weights, gradients: tuple[Tensor | None, ...]) -> Weights:
    """Gradients by name, mean over processes; None is replaced by zeros."""
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


def state_of(framework: Framework) -> Weights:
    """Copies of a framework's weights and buffers, without the memory of `Unified`, whose keys are in `InnerStep`."""
    state = framework.state_dict().items()
    return {name: value.detach().clone() for name, value in state if not name.startswith("contrast.")}


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Features(Part):
    """The generators of augmented features and their margins."""

    slot = "features"

    meta: Literal["second-order", "first-order", "frozen", "none"] = "second-order"
    """Training of the generators: through the encoder's step; without the gradient through that step; not at all; or no
    generators."""
    feature_weight: Positive = 0.3
    """delta, the weight of the losses with augmented features."""
    augmented_contrast: Literal["mean", "joint"] = "mean"
    """The loss with augmented features. "joint": one unified loss of all features, original and augmented, as in the
    paper (section 3.3, equation 11). "mean": the mean of M + 1 losses, with the features of one view replaced or those
    of all, as in the authors' program."""
    inner_rate: Weight = 0.1
    """ell, the learning rate of the encoder's step in the objective of the generators."""
    margin: Literal["large", "medium", "small"] = "large"
    """Size of the margins that keep augmented features from being copies of the features."""
    margin_weight: Weight = 1.0
    """alpha / delta, the weight of the margins in the objective of the generators; 0: no margins."""
    margin_scope: Literal["batch", "sample"] = "batch"
    """Whether margins are computed from the pairs of the batch or of each sample."""
    feature_hidden: Widths = (256,)
    """Widths of a generator's hidden layers."""
    residual: bool = True
    """Generators add to a projection; otherwise they replace it, as in the authors' program."""
    feature_learning_rate: Positive | Auto = "auto"
    """"auto": the learning rate of the encoder."""
    feature_every: Count = 2
    """Steps from one update of the generators to the next."""


@dataclass
class Terms:
    """The terms of L = L_ori + delta L_aug (MetAug: equation 11), and R (equation 5); without a `contrast` no L_aug."""

    framework: Framework
    contrast: FeatureContrast | None
    features: MetaFeatures | None
    options: Features

    def projections(self, pair: PositivePair, views: Views) -> Tensor:
        """Projections z of M views, (M, B, d)."""
        if pair.local is None:
            return embed(self.framework.encoder, self.framework.head, views.x)
        return self.framework.head(self.framework.represent_views(pair)).unflatten(0, (-1, len(pair.first)))[:2]

    def base_losses(self, pair: PositivePair, views: Views, progress: float) -> tuple[Tensor | None, Tensor]:
        """L_ori (B,) and z. For `Unified`, L_ori is None: it is computed by `of_projections`."""
        if isinstance(self.framework, Unified):
            return None, self.projections(pair, views)
        if self.contrast is None:
            losses = self.framework(pair, progress)
            return losses, losses.new_zeros(0)
        outputs: list[Tensor] = []
        handle = self.framework.head.register_forward_hook(lambda module, inputs, z: outputs.append(z))
        try:
            losses = self.framework(pair, progress)
        finally:
            handle.remove()
        batch = len(pair.first)
        if len(outputs) == 1 and len(outputs[0]) >= 2 * batch:  # one pass with both views
            return losses, outputs[0].unflatten(0, (-1, batch))[:2]
        return losses, self.projections(pair, views)

    def of_projections(
        self, draw: Draw | None, *, regularized: bool = False, logs: dict[str, Tensor] | None = None
    ) -> Callable[[Tensor], Tensor]:
        """Function of z to the terms that `base_losses` does not compute, (B,), L_ori of `Unified`, delta L_aug and, if
        `regularized`, alpha R, whose values it adds to `logs`."""

        def losses(z: Tensor) -> Tensor:
            if self.contrast is None or draw is None:
                return z.new_zeros(())
            with torch.autocast(z.device.type, enabled=False):
                z = full_precision(z)
                augmented = None if self.features is None else self.features(z)
                original, added = self.contrast.losses(self.contrast.log_sums(z, draw, augmented))
                total = original if isinstance(self.framework, Unified) else torch.zeros_like(original)
                if augmented is None or added is None:
                    return total
                options, found = self.options, {"augmented": added}
                total = total + options.feature_weight * added
                if regularized and options.margin_weight:
                    per_sample = options.margin_scope == "sample"
                    margin = self.contrast.regularization(z, draw, augmented, options.margin, per_sample=per_sample)
                    total = total + options.feature_weight * options.margin_weight * margin
                    found["margin"] = margin
                if logs is not None:
                    found["feature_cosine"] = torch.cosine_similarity(augmented, z, dim=-1)
                    logs.update({name: value.detach().mean() for name, value in found.items()})
                return total

        return losses


@dataclass
class InnerStep:
    """What the encoder's update leaves to the generators': state before it, trained names, views, keys and z."""

    state: Weights
    theta: list[str]
    pair: PositivePair
    views: Views
    draw: Draw | None
    z: Tensor


class BatchLosses(nn.Module):
    """`Terms.base_losses` of a batch as a function of weights; clones of the other weights and buffers are updated."""

    def __init__(self, terms: Terms, state: Weights, pair: PositivePair, views: Views, progress: float) -> None:
        super().__init__()
        self.framework, self.state = terms.framework, state
        self.losses = lambda: terms.base_losses(pair, views, progress)

    def forward(self) -> tuple[Tensor | None, Tensor]:
        return self.losses()

    def at(self, weights: Weights) -> tuple[Tensor | None, Tensor]:
        """`Terms.base_losses` with these weights."""
        given = {f"framework.{name}": value.clone() for name, value in self.state.items() if name not in weights}
        given |= {f"framework.{name}": value for name, value in weights.items()}
        return functional_call(self, given, ())


class BatchProjections(nn.Module):
    """`Terms.projections` of a batch as a function of the weights; can be differentiated in forward mode."""

    def __init__(self, terms: Terms, pair: PositivePair, views: Views) -> None:
        super().__init__()
        self.encoder, self.head = terms.framework.encoder, terms.framework.head
        self.projections = lambda: terms.projections(pair, views)

    def forward(self) -> Tensor:
        return self.projections()

    def at(self, weights: Weights) -> Tensor:
        """z with these weights; only those of encoder and head are used."""
        given = {name: value for name, value in weights.items() if name.startswith(("encoder.", "head."))}
        return functional_call(self, given, ())


class PairContrast(Framework):
    """The loss that adversarial views increase instead of OUCL: NT-Xent of pairs, without a memory."""

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        z0, z1 = self.project_pair(PositivePair(pair.first, pair.second)).chunk(2)
        return nt_xent(z0, z1, temperature=0.125, ids=pair.ids)
