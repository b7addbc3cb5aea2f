"""Gaps of recordings (n, C, T): NaN where a value is not known, as after the end of one that is shorter than others.

Scaled recordings and views keep them; what reads values derives the mask here.
"""

import torch
from torch import Tensor

from viewsmith.core.device import on_host


def known_points(x: Tensor) -> Tensor | None:
    """Which points of recordings (B, C, T) are known in any channel, bool (B, T); None if all are in all.

    On a GPU, where to look would mean to wait, and in a graph that is exported there always is a mask, or none.
    """
    if torch.compiler.is_compiling():
        return None
    unknown = x.isnan()
    return None if on_host(x) and not bool(unknown.any()) else ~unknown.all(1)


def filled(x: Tensor) -> Tensor:
    """Scaled recordings with zeros, the scaled mean, where values are not known: for sums that the mask leaves out."""
    return torch.where(x.isnan(), 0.0, x)


def last_points(x: Tensor, known: Tensor | None) -> Tensor:
    """The last of the `known` points of recordings (B, C, T), int64 (B, 1); None: all are known."""
    places = torch.arange(x.shape[2], device=x.device)
    return places[-1:].expand(len(x), 1) if known is None else (known * places).amax(1, keepdim=True)
