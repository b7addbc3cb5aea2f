"""Settings beside the loss: the rates of views that are "auto", the learning rate, and frozen layers.

A view maker names options that may be "auto" in the tag `symmetry`, as in ``symmetry={"flip": ("mirror", 0.5)}``: the
name of a transformation in `viewsmith.evaluation.symmetries`, and its rate without a test. The transformation is used
if it keeps samples among the samples of the data.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import Entry, get
from viewsmith.core.schedule import Role
from viewsmith.estimator.arguments import Arguments, roles_of
from viewsmith.estimator.plan import TrainingData

RATE = 0.5  # of a transformation that is used

FEWEST_GROUPS = 10  # whole groups are held out, if there are so many


def resolve_rates(
    views: Sequence[Entry], options: Mapping[str, Any], data: TrainingData
) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """Rates of the options that are "auto", and for each transformation what its test has shown.

    With too few samples for a test, the rates are those without a test, and the reason is in the result.
    """
    from viewsmith.evaluation.symmetries import TRANSFORMATIONS, symmetries

    asked = {
        option: symmetry
        for view in views
        for option, symmetry in view.tag("symmetry", {}).items()
        if options.get(option, view.options[option].default) == "auto"
    }
    groups = data.group_codes
    if groups is not None and groups.max() + 1 < FEWEST_GROUPS:
        groups = None
    rates: dict[str, float] = {}
    tests: dict[str, dict[str, Any]] = {}
    for option, (name, untested) in asked.items():
        transformation = {name: TRANSFORMATIONS[data.modality.name][name]}
        try:
            (test,) = symmetries(data.rows, data.modality.name, transformation, groups=groups, seed=data.seed)
        except InputError as error:
            verdict = f"{name}: {'on' if untested else 'off'}, not tested: {error}"
            rates[option], tests[name] = untested, {"rate": untested, "verdict": verdict}
            continue
        # All processes of a training have to make the same views.
        used = distributed.broadcast_flag(test.on_the_data, data.device)
        rates[option] = RATE if used else 0.0
        tests[name] = {
            "rate": rates[option],
            "told_apart": round(test.told_apart, 3),
            "told_apart_interval": [round(end, 3) for end in test.told_apart_interval],
            "distance_ratio": round(test.ratio, 3),
            "distance_ratio_interval": [round(end, 3) for end in test.ratio_interval],
            "verdict": f"{name}: {'on' if used else 'off'}, told apart in {test.told_apart:.0%} of held-out samples, "
            f"distance ratio {test.ratio:.2f} (off above 1.3)",
        }
    return rates, tests


#: Options for a part that not every framework has.
ROLE_OPTIONS: dict[str, Role] = {"constant_predictor_rate": "predictor", "freeze_last_layer": "last layer"}


def default_rate(options: Arguments) -> float:
    """The learning rate for "auto"; with lars that of SimCLR, proportional to the batch size (section 2.1)."""
    return 0.3 * options.batch_size / 256 if options.optimizer == "lars" else 3e-3


def check_recipe(options: Arguments, framework: str, known: list[str]) -> None:
    """Raise InputError for options of a recipe that the optimizer or the framework does not have."""
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
