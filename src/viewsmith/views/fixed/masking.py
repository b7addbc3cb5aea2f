"""Masking: a random fraction of the features set to zero."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from viewsmith.core.errors import check_fraction
from viewsmith.core.registry import Bounds, register
from viewsmith.views.base import ViewContext, ViewMaker, rand


class Masking(ViewMaker):
    """Each feature is set to zero with probability `rate`, independently of the others.

    For cells this is random masking of genes (Richter et al. 2025, scSSL-Bench): a masked gene looks like one that was
    not detected.

    Parameters
    ----------
    rate : float
        0 to 1.
    zero : Tensor, shape (d,), or float
        Zero in scaled units. Default: 0, which is right for scaled rows that are not centered.
    """

    zero: Tensor

    def __init__(self, rate: float = 0.5, zero: Tensor | float = 0.0) -> None:
        super().__init__()
        check_fraction("rate", rate)
        self.rate = rate
        self.register_buffer("zero", torch.as_tensor(zero))

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        masked = rand(tuple(x.shape), x, generator) < self.rate
        return torch.where(masked, self.zero.to(x.dtype), x)


@register(
    "view maker",
    "mask",
    help="a fraction of the features (genes) set to zero, in the units of the data",
    domains="vectors",
)
def _mask(context: ViewContext, *, mask_rate: Annotated[float, Bounds(ge=0, le=1)] = 0.5) -> Masking:
    if context.layer is None:
        return Masking(mask_rate)
    # A model that is loaded gets this value with its weights.
    return Masking(mask_rate, context.layer(torch.zeros(1, *context.row_shape))[0])
