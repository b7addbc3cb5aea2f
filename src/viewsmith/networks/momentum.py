"""Momentum copies: networks that follow another one as a moving average of its weights."""

from __future__ import annotations

import copy as copying
import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError

Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(module: Network) -> Network:
    """An equal module that no gradient reaches; it has buffers (BatchNorm statistics) of its own."""
    return copying.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def update_copy(copy: nn.Module, source: nn.Module, momentum: float) -> None:
    """Move the weights of a copy, in place: ``copy <- momentum * copy + (1 - momentum) * source``.

    MoCo (He et al. 2020, equation 2), BYOL (Grill et al. 2020, equation 1). Buffers stay the copy's own: its
    BatchNorm statistics are those of its own activations.

    Parameters
    ----------
    copy, source : nn.Module
        `copy` made by `momentum_copy` from `source`.
    momentum : float
        0 (becomes the source) to 1 (stays).
    """
    weights: list[Tensor] = list(copy.parameters())
    targets: list[Tensor] = list(source.parameters())
    if weights:  # a head without weights, the identity, has nothing to move
        torch._foreach_lerp_(weights, targets, 1 - momentum)


def cosine_momentum(base: float, progress: float) -> float:
    """Momentum that rises from `base` to 1 by half a cosine: ``1 - (1 - base) (cos(pi progress) + 1) / 2``.

    BYOL (Grill et al. 2020, section 3.3); `progress` is the share of training done, 0 to 1.

    Raises
    ------
    InputError
        `progress` lies outside 0 to 1.
    """
    if not 0 <= progress <= 1:
        raise InputError(f"progress is {progress}, expected the share of training done, 0 to 1")
    return 1 - (1 - base) * (math.cos(math.pi * progress) + 1) / 2
