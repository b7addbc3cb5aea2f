"""Training recipes: options of published trainings besides the loss, such as frozen layers."""

from __future__ import annotations

import functools
from typing import Literal

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.messages import join_names
from viewsmith.core.method import Role
from viewsmith.core.registry import get
from viewsmith.estimators.arguments import Arguments, roles_of

#: Options for a part that not every framework has.
ROLE_OPTIONS: dict[str, Role] = {"constant_predictor_rate": "predictor", "freeze_last_layer": "last layer"}


def default_rate(options: Arguments) -> float:
    """The learning rate for "auto"; with lars that of SimCLR, proportional to the batch size (section 2.1)."""
    return 0.3 * options.batch_size / 256 if options.optimizer == "lars" else 3e-3


def check_recipe(options: Arguments, framework: str, known: list[str]) -> None:
    """Raise InputError for options of a recipe that the optimizer or the framework does not have.

    Parameters
    ----------
    options : Arguments
    framework : str
        Name of the framework; another one may be given as an object.
    known : list of str
        Frameworks that the method accepts.

    Raises
    ------
    InputError
    """
    if options.trust_coefficient != "auto" and options.optimizer != "lars":
        raise InputError(
            f"trust_coefficient is {options.trust_coefficient}, an option of the optimizer lars, not of "
            f"{options.optimizer}: set optimizer='lars', or leave it out"
        )
    roles = roles_of(get("framework", framework))
    if isinstance(custom := options.framework, nn.Module):
        framework, roles = type(custom).__name__, getattr(custom, "training_roles", {})
    for option, role in ROLE_OPTIONS.items():
        value = getattr(options, option)
        if not value or role in roles:
            continue
        others = [name for name in known if role in roles_of(get("framework", name))]
        advice = f"take one of {join_names(others)}, or leave it out" if others else "leave it out"
        raise InputError(f"{option} is {value}, but the framework {framework!r} has no {role}: {advice}")


def freeze_layers(encoder: nn.Module, count: int | Literal["all"]) -> None:
    """Freeze the first `count` layers of an encoder: linear layers, convolutions and embeddings, in order.

    What follows a frozen layer before the next layer, such as its BatchNorm, is frozen with it. Frozen modules stay in
    evaluation mode: they keep their running statistics, and have no dropout. MoCo v3 freezes the patch embedding of a
    transformer, its first layer (Chen, Xie and He 2021, section 4.2).

    Raises
    ------
    InputError
        The encoder has no further layer.
    """
    leaves = [module for module in encoder.modules() if not list(module.children())]
    layers = [i for i, module in enumerate(leaves) if any(p.ndim > 1 for p in module.parameters())]
    if count == "all":
        encoder.requires_grad_(False)
        keep_in_evaluation_mode(encoder)
    elif count and count >= len(layers):
        raise InputError(
            f"freeze is {count}, and the encoder has {len(layers)} layers: expected fewer, so that something is left "
            "to train, or 'all' for an encoder with given weights"
        )
    elif count:
        for module in leaves[: layers[count]]:
            module.requires_grad_(False)
            keep_in_evaluation_mode(module)


def keep_frozen_parts(encoder: nn.Module) -> None:
    """Keep the parts of an encoder whose parameters are all frozen in evaluation mode."""
    for module in encoder.modules():
        parameters = list(module.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            keep_in_evaluation_mode(module)


def keep_in_evaluation_mode(module: nn.Module) -> None:
    """Put a module, and those in it, into evaluation mode; its parents' `train()` does not change it."""
    module.eval()
    for each in module.modules():
        # A partial function, whose module a copy of the module replaces by itself.
        each.train = functools.partial(_unchanged, each)  # type: ignore[method-assign]


def _unchanged(module: nn.Module, mode: bool = True) -> nn.Module:
    return module
