"""From options to parts: option types with their bounds, encoders, frameworks and view makers for vectors."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Method, Optimizer
from viewsmith.frameworks.simclr import SimCLR
from viewsmith.networks.mlp import MLP
from viewsmith.networks.scaling import PrincipalAxes
from viewsmith.views.fixed.vectors import Corruption, GaussianNoise, Identity, Mixup, NeighbourMix, Neighbours
from viewsmith.views.maker import ViewMaker
from viewsmith.views.pair import ViewPair

Count = Annotated[int, Field(ge=1)]
BatchSize = Annotated[int, Field(ge=2)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Widths = tuple[Count, ...]
Auto = Literal["auto"]

FRAMEWORKS = ("simclr",)
VECTOR_VIEWS = ("identity", "noise", "corruption", "mixup", "neighbour-mix", "neighbours")

# The neighbour recipe needs about this many steps, whatever the number of rows.
STEPS = 2000
WIDE = 200


def default_epochs(n_rows: int, batch_size: int) -> int:
    """Epochs that take about `STEPS` steps."""
    return math.ceil(STEPS / max(1, n_rows // min(batch_size, n_rows)))


def resolve_common(options: SimpleNamespace, x: Tensor) -> dict[str, Any]:
    """What the data decide: epochs, and the number of principal axes before the encoder (0: none)."""
    epochs = default_epochs(len(x), options.batch_size) if options.epochs == "auto" else options.epochs
    n, d = x.shape
    axes = options.input_components
    if axes == "auto":
        neighbours = any(name.startswith("neighbour") for name in view_names(options.view_maker))
        axes = 50 if d > WIDE and neighbours else None
    return {"epochs": epochs, "input_components": min(axes or 0, d, n)}


def view_names(view_maker: str) -> list[str]:
    """The names joined by "+".

    Raises
    ------
    InputError
        A name is unknown.
    """
    names = view_maker.split("+")
    for name in names:
        if name not in VECTOR_VIEWS:
            raise InputError(f"unknown view maker {name!r}: for vectors there are {', '.join(VECTOR_VIEWS)}")
    return names


def make_encoder(options: SimpleNamespace, fitted: dict[str, Any]) -> nn.Sequential:
    """Principal axes where wanted, then an MLP to n_components."""
    d, k = fitted["n_features"], fitted["input_components"]
    layers: list[nn.Module] = [PrincipalAxes(d, k)] if k else []
    widths = [*options.hidden, options.n_components]
    last: Literal["activated", "linear"] = "activated" if options.norm == "batch" else "linear"
    return nn.Sequential(*layers, MLP(k or d, widths, norm=options.norm, last=last))


def principal_axes(method: Method) -> PrincipalAxes | None:
    """The projection before the encoder, where there is one."""
    return next((m for m in method.modules() if isinstance(m, PrincipalAxes)), None)


def make_framework(options: SimpleNamespace, encoder: nn.Module) -> SimCLR:
    cauchy = options.kernel == "cauchy"
    temperature = options.temperature if options.temperature is not None else (1.0 if cauchy else 0.1)
    # The neighbour recipe contrasts samples with second views alone: faster, and better for it (docs, contrastive).
    negatives: Literal["all", "cross"] = "cross" if cauchy else "all"
    head = MLP(options.n_components, options.projection)
    return SimCLR(encoder, head, temperature=temperature, kernel=options.kernel, negatives=negatives)


def make_views(options: SimpleNamespace, fitted: dict[str, Any], encoder: nn.Sequential) -> ViewPair:
    """The view makers that `view_maker` names. Neighbours are sought where the encoder looks first."""
    # Held as a bound method: the projection belongs to the encoder alone.
    space = encoder[0].forward if isinstance(encoder[0], PrincipalAxes) else None
    makers: list[ViewMaker] = []
    for name in view_names(options.view_maker):
        if name == "noise":
            makers.append(GaussianNoise(fitted.get("noise_strength", 1.0), options.noise_distribution))
        elif name == "corruption":
            makers.append(Corruption(options.corruption_rate))
        elif name == "mixup":
            makers.append(Mixup(options.mixup_minimum))
        elif name == "neighbour-mix":
            makers.append(NeighbourMix(options.n_neighbors, options.neighbour_mix_minimum, space))
        elif name == "neighbours":
            makers.append(Neighbours(options.n_neighbors, space))
        else:
            makers.append(Identity())
    return ViewPair(makers)


def make_optimizer(options: SimpleNamespace) -> Optimizer:
    return Optimizer(
        name=options.optimizer,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        warmup=options.warmup,
        schedule=options.schedule,
        clip=options.gradient_clip,
    )
