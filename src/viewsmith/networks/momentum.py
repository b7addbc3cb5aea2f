"""Momentum copies: networks whose weights are a moving average of another network's weights."""

from __future__ import annotations

import copy as copying
import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError

Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(module: Network) -> Network:
    """A copy of a module without gradients; its buffers (BatchNorm statistics) are copied, too."""
    return copying.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def update_copy(copy: nn.Module, source: nn.Module, momentum: float) -> None:
    """Update the weights of a copy in place: ``copy <- momentum * copy + (1 - momentum) * source``.

    MoCo (He et al. 2020, equation 2), BYOL (Grill et al. 2020, equation 1). Buffers are not updated: the BatchNorm
    statistics of the copy are those of its own activations.

    Parameters
    ----------
    copy, source : nn.Module
        `copy` was made by `momentum_copy` from `source`.
    momentum : float
        0 (the copy becomes equal to the source) to 1 (the copy does not change).
    """
    weights: list[Tensor] = list(copy.parameters())
    targets: list[Tensor] = list(source.parameters())
    if weights:  # the identity has no weights
        torch._foreach_lerp_(weights, targets, 1 - momentum)


def cosine_momentum(base: float, progress: float) -> float:
    """Momentum that rises from `base` to 1 by half a cosine: ``1 - (1 - base) (cos(pi progress) + 1) / 2``.

    BYOL (Grill et al. 2020, section 3.3).

    Parameters
    ----------
    base : float
        Momentum at the start, 0 to 1.
    progress : float
        Fraction of the training that is done, 0 to 1.

    Returns
    -------
    float
        From `base` to 1.

    Raises
    ------
    InputError
        `progress` is not in [0, 1].
    """
    if not 0 <= progress <= 1:
        raise InputError(f"progress is {progress}, expected the fraction of the training that is done, 0 to 1")
    return 1 - (1 - base) * (math.cos(math.pi * progress) + 1) / 2
