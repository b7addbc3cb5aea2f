"""The default encoder of vectors: fully connected layers, after a projection to principal axes for wide rows."""

from __future__ import annotations

from typing import Literal

from torch import nn

from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.networks.mlp import MLP


@register("encoder", "mlp", help="fully connected layers", domains="vectors", default_width=256)
def vector_encoder(
    context: EncoderContext, *, hidden: tuple[int, ...] = (256,), norm: Literal["batch", "none"] = "batch"
) -> nn.Sequential:
    """Build the default encoder of vectors, (B, d) to (B, n_components).

    Parameters
    ----------
    context : EncoderContext
    hidden : tuple of int
        Widths of the hidden layers.
    norm : {"batch", "none"}
        "batch": BatchNorm and ReLU after every layer, including the last. "none": ReLU between linear layers.
    """
    d, k = context.row_shape[0], context.input_components
    layers: list[nn.Module] = [PrincipalAxes(d, k)] if k else []
    last: Literal["activated", "linear"] = "activated" if norm == "batch" else "linear"
    return nn.Sequential(*layers, MLP(k or d, [*hidden, context.n_components], norm=norm, last=last))
