"""Build torch's optimizer from a specification: parameter groups, learning rates and weight decay."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from viewsmith.core.method import Optimizer, Role
from viewsmith.training.lars import LARS


def training_progress(spec: Optimizer, progress: float) -> float:
    """Position on the learning-rate curve, 0 to 1, for the fraction of a phase's steps that is done (`span`)."""
    start, end = spec.span
    return start + progress * (end - start)


def learning_rate(spec: Optimizer, progress: float) -> float:
    """Learning rate at a position on the curve, 0 to 1."""
    if progress < spec.warmup:
        return spec.learning_rate * progress / spec.warmup
    if spec.schedule == "constant":
        return spec.learning_rate
    done = (progress - spec.warmup) / (1 - spec.warmup)
    low = spec.final * spec.learning_rate
    return low + (spec.learning_rate - low) * 0.5 * (1 + math.cos(math.pi * done))


def weight_decay(spec: Optimizer, progress: float) -> float:
    """Weight decay at a position on the curve, 0 to 1."""
    end = spec.final_weight_decay
    if end is None:
        return spec.weight_decay
    return end + (spec.weight_decay - end) * 0.5 * (1 + math.cos(math.pi * progress))


def make_groups(
    spec: Optimizer, parameters: Sequence[nn.Parameter], roles: Mapping[Role, Sequence[nn.Parameter]]
) -> list[dict[str, Any]]:
    """Parameter groups of a specification; one group unless the specification treats some parameters differently.

    Each group has the entries ``excluded`` (no weight decay, no trust ratio), ``constant_rate``, ``frozen_until``, the
    position on the curve from which its parameters are trained, and ``rate``, a factor of its learning rate.
    """
    predictor = {id(p) for p in roles.get("predictor", ())} if spec.constant_predictor_rate else set()
    last = {id(p) for p in roles.get("last layer", ())} if spec.freeze_last_layer else set()
    head = {id(p) for p in roles.get("head", ())} if spec.head_rate != 1 else set()
    groups: dict[tuple[bool, bool, bool, bool], list[nn.Parameter]] = {}
    for p in parameters:
        key = id(p) in predictor, id(p) in last, spec.exclude_norm_and_bias and p.ndim < 2, id(p) in head
        groups.setdefault(key, []).append(p)
    return [
        {
            "params": groups[constant, is_last, excluded, of_head],
            "weight_decay": 0.0 if excluded else spec.weight_decay,
            "excluded": excluded,
            "constant_rate": constant,
            "frozen_until": spec.freeze_last_layer if is_last else 0.0,
            "rate": spec.head_rate if of_head else 1.0,
        }
        for constant, is_last, excluded, of_head in sorted(groups)
    ]


def make_optimizer(
    spec: Optimizer, parameters: Sequence[nn.Parameter], roles: Mapping[Role, Sequence[nn.Parameter]] | None = None
) -> torch.optim.Optimizer:
    """The torch optimizer of a specification, with fused kernels, which are faster."""
    groups, rate = make_groups(spec, parameters, roles or {}), spec.learning_rate
    if spec.name == "lars":
        return _uncompiled(LARS)(groups, rate, spec.momentum, trust_coefficient=spec.trust_coefficient)
    if spec.name == "sgd":
        return _uncompiled(torch.optim.SGD)(groups, rate, spec.momentum, fused=True)
    kind = torch.optim.AdamW if spec.name == "adamw" else torch.optim.Adam
    return _uncompiled(kind)(groups, rate, fused=True)


@functools.cache
def _uncompiled(kind: type[torch.optim.Optimizer]) -> Any:
    """The same optimizer without the guards of `torch.compile` around its methods.

    Their first call imports the compiler, which takes about two seconds and 70 MB in every process that trains.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(inspect.unwrap(kind.step))})


def set_rates(optimizer: torch.optim.Optimizer, spec: Optimizer, progress: float) -> None:
    """Set the learning rate and the weight decay of every group to those at a position on the curve."""
    rate, decay = learning_rate(spec, progress), weight_decay(spec, progress)
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * (spec.learning_rate if group["constant_rate"] else rate)
        group["weight_decay"] = 0.0 if group["excluded"] else decay


def drop_frozen_gradients(optimizer: torch.optim.Optimizer, progress: float) -> None:
    """Remove the gradients of groups that are still frozen, so that their weights and optimizer state do not change."""
    for group in optimizer.param_groups:
        if progress < group["frozen_until"]:
            for p in group["params"]:
                p.grad = None
