"""Modules around networks: evaluation mode, references, momentum copies, and a network for each view (MetAug)."""

import contextlib
import copy as copying
import math
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core import distributed
from viewsmith.core.errors import InputError


@contextlib.contextmanager
def eval_mode(*modules: nn.Module) -> Iterator[None]:
    """Context in which modules are in evaluation mode, with the BatchNorm statistics of the first process."""
    training = [part for module in modules for part in module.modules() if part.training]
    norms = [part for part in training if isinstance(part, _BatchNorm)]
    distributed.broadcast_tensors(*(buffer for norm in norms for buffer in norm.buffers()))
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextlib.contextmanager
def batch_norm_momentum(norms: Sequence[nn.Module], momentum: float | None) -> Iterator[None]:
    """Context in which BatchNorm layers have a momentum: with 0 they keep their statistics, with None they average."""
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = momentum  # type: ignore[assignment]
    try:
        yield
    finally:
        for norm, own in zip(norms, before, strict=True):
            norm.momentum = own


def is_static(*modules: nn.Module) -> bool:
    """Whether a training step of modules launches the same kernels every time (`viewsmith.core.schedule.Update`).

    Layers of torch and networks of this package do, unless their attribute ``static_step`` is False; frameworks and
    view makers only where it is True; modules of others are not known.
    """
    parts = [part for module in modules for part in module.modules()]
    own = all(type(part).__module__.startswith(("torch.", "viewsmith.")) for part in parts)
    return own and all(getattr(part, "static_step", True) for part in parts)


M = TypeVar("M", bound=nn.Module)


class Reference(Generic[M]):
    """Holds a module, such as another part's encoder, that is not to be saved, moved or trained as a submodule."""

    def __init__(self, module: M) -> None:
        self.module = module


Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(module: Network) -> Network:
    """A copy of a module without gradients; its buffers (BatchNorm statistics) are copied, too."""
    return copying.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def update_copy(copy: nn.Module, source: nn.Module, momentum: float) -> None:
    """``copy <- momentum * copy + (1 - momentum) * source`` for weights (He et al. 2020, equation 2), not buffers."""
    weights: list[Tensor] = list(copy.parameters())
    targets: list[Tensor] = list(source.parameters())
    if weights:  # the identity has no weights
        torch._foreach_lerp_(weights, targets, 1 - momentum)


def cosine_momentum(base: float, progress: float) -> float:
    """Momentum that rises from `base` to 1 by half a cosine of `progress` (BYOL: Grill et al. 2020, section 3.3)."""
    if not 0 <= progress <= 1:
        raise InputError(f"progress is {progress}, expected the fraction of the training that is done, 0 to 1")
    return 1 - (1 - base) * (math.cos(math.pi * progress) + 1) / 2


class ViewEncoders(nn.Module):
    """M encoders, one per view; the representation is the concatenation of their outputs, (B, M n).

    Parameters
    ----------
    networks : sequence of nn.Module
        M encoders; the j-th maps the j-th view to (B, n).
    split : nn.Module, optional
        Maps samples to their M views, such as `viewsmith.methods.metaug.networks.ColorSplit`. Default: every encoder
        gets the whole sample.

    Raises
    ------
    InputError
        There are fewer than two encoders.
    """

    def __init__(self, networks: Sequence[nn.Module], split: nn.Module | None = None) -> None:
        super().__init__()
        if len(networks) < 2:
            raise InputError(f"{len(networks)} encoder was given, expected at least 2: one for each view of a pair")
        self.networks = nn.ModuleList(networks)
        self.split = split

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, M n) of samples (B, ...), the views concatenated."""
        return self.represent([x] * len(self.networks) if self.split is None else self.split(x))

    def represent(self, views: Sequence[Tensor]) -> Tensor:
        """Representations (B, M n) of M views, each (B, ...)."""
        return torch.cat([network(view) for network, view in zip(self.networks, views, strict=True)], dim=1)


class ViewHeads(nn.Module):
    """M projection heads, one per view: representations (B, M n) to projections (B, M d).

    Parameters
    ----------
    networks : sequence of nn.Module
        M heads, each (B, n) to (B, d).

    Attributes
    ----------
    n_components : int or None
        Width d of one view's projection, if the heads have this attribute.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_components = getattr(networks[0], "n_components", None)

    def forward(self, h: Tensor) -> Tensor:
        parts = h.chunk(len(self.networks), dim=1)
        return torch.cat([network(part) for network, part in zip(self.networks, parts, strict=True)], dim=1)
