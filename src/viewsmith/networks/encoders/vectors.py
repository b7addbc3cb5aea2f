"""The default encoder of vectors: fully connected layers, after a projection to principal axes for wide rows."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import nn

from viewsmith.core.registry import Bounds, register
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.networks.inputs.skip import SkipAxes, SkipCoordinates, WithSkip, learned_columns
from viewsmith.networks.mlp import MLP

# Principal axes of wide vectors, of which the encoder reads 50 (benchmarks/quality/vectors/do_no_harm.py).
DEFAULT_SKIP = 256


@register(
    "encoder", "mlp", help="fully connected layers", domains="vectors", default_width=256, default_skip=DEFAULT_SKIP
)
def vector_encoder(
    context: EncoderContext,
    *,
    hidden: tuple[int, ...] = (256,),
    norm: Literal["batch", "none"] = "batch",
    skip_components: Annotated[int, Bounds(ge=0)] = 0,
    skip_length: Annotated[float, Bounds(gt=0)] = 6.0,
) -> nn.Module:
    """Build the default encoder of vectors, (B, d) to (B, n_components).

    Parameters
    ----------
    context : EncoderContext
    hidden : tuple of int
        Widths of the hidden layers.
    norm : {"batch", "none"}
        "batch": BatchNorm and ReLU after every layer, including the last. "none": ReLU between linear layers.
    skip_components : int
        Number of columns of the representation that are not learned: principal coordinates of the input
        (`SkipCoordinates`). If the input is principal axes, more columns than these are on further axes (`SkipAxes`).
        Projection heads do not get them.
    skip_length : float
        Their root mean square length. The learned columns of a row, 256 of them, differ from their mean by 13 to 20.

    Raises
    ------
    InputError
        No column would be learned.
    """
    d, k = context.row_shape[0], context.input_components
    further = 0 < k < skip_components
    skipped = min(skip_components, d if further else k or d)
    learned = learned_columns(context.n_components, skipped, skip_components)
    layers: list[nn.Module] = [PrincipalAxes(d, k)] if k else []
    last: Literal["activated", "linear"] = "activated" if norm == "batch" else "linear"
    network: nn.Module = MLP(k or d, [*hidden, learned], norm=norm, last=last)
    if further:
        return WithSkip(nn.Sequential(*layers, network), SkipAxes(d, skipped, length=skip_length))
    if skipped:
        network = WithSkip(network, SkipCoordinates(k or d, skipped, length=skip_length, ordered=bool(k)))
    return nn.Sequential(*layers, network)
