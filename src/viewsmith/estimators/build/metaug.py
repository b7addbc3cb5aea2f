"""The parts of MetAug, built from a plan: encoders, memory, unified loss and generators of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Optimizer
from viewsmith.estimators.build.model import (
    AnyPlan,
    domain_in,
    make_encoder,
    make_framework,
    make_head,
    make_optimizer,
)
from viewsmith.estimators.build.plan import Resolved
from viewsmith.frameworks import FeatureContrast, FeatureMemory, Framework, Unified
from viewsmith.frameworks.common import head_width
from viewsmith.losses.oucl import Logits
from viewsmith.networks.color_split import ColorSplit
from viewsmith.networks.per_view import ViewEncoders, ViewHeads
from viewsmith.views.learned.feature_augmenters import MetaFeatures

DEFAULT_BETA = 16.0
#: Default number of negatives; the number for a bank is published, a queue has more recent features.
DEFAULT_NEGATIVES = {"queue": 256, "bank": 4096}


@dataclass(frozen=True, kw_only=True)
class MetAugResolved(Resolved):
    """Resolved settings, with memory, negatives, number of views, learning rate of the generators and sharpness."""

    memory_size: int
    negatives: int
    n_views: int
    feature_learning_rate: float
    beta: float


def resolve_features(options: Any, resolved: dict[str, Any], n_rows: int) -> dict[str, Any]:
    """MetAug's settings with "auto" resolved.

    Raises
    ------
    InputError
        An invalid combination of options, or more negatives than the memory has.
    """
    _check(options, resolved)
    batch = min(options.batch_size, n_rows)
    if options.memory == "bank":
        size = n_rows
        if options.memory_size not in ("auto", n_rows):
            raise InputError(
                f"memory_size is {options.memory_size}, but a bank has one for each of the {n_rows} rows: leave it out"
            )
    else:
        size = max(DEFAULT_NEGATIVES["queue"], batch) if options.memory_size == "auto" else options.memory_size
        if size < batch:
            raise InputError(
                f"memory_size is {size}, expected at least the {batch} rows of a batch: raise it, or lower batch_size"
            )
    negatives = (
        min(max(DEFAULT_NEGATIVES[options.memory], batch), size) if options.negatives == "auto" else options.negatives
    )
    if negatives > size:
        raise InputError(
            f"negatives is {negatives}, expected at most the {size} features of each view in the memory: lower it, "
            "or raise memory_size"
        )
    rate, beta = options.feature_learning_rate, options.beta
    if beta == "auto":
        has_temperature = options.framework == "oucl" and options.temperature is not None
        beta = 2 / options.temperature if has_temperature else DEFAULT_BETA
    return {
        "memory_size": size,
        "negatives": negatives,
        "n_views": options.n_views if options.split == "none" else 3,
        "feature_learning_rate": resolved["learning_rate"] if rate == "auto" else rate,
        "beta": beta,
    }


def _check(options: Any, resolved: dict[str, Any]) -> None:
    several = has_encoders(options)
    if options.framework != "oucl" and (several or options.n_views > 2):
        asked = f"split {options.split!r}" if options.split != "none" else f"encoders {options.encoders!r}"
        asked = asked if several else f"n_views {options.n_views}"
        raise InputError(f"{asked} is for the framework 'oucl', not {options.framework!r}: leave one of them out")
    if options.framework == "oucl" and options.temperature is not None and options.beta != "auto":
        raise InputError(
            f"temperature is {options.temperature} and beta {options.beta}, but for the framework 'oucl' beta is 2 "
            "over the temperature: leave one of them out"
        )
    if options.split != "none":
        shape = resolved["row_shape"]
        if len(shape) != 3 or shape[2] != 3:
            raise InputError(
                f"split is {options.split!r}, which needs images with three color channels, but the data are "
                f"{resolved['domain']} of shape {tuple(shape)}: use 'none'"
            )
        if isinstance(options.encoder, nn.Module):
            channels = "3, 1 and 2 channels" if options.split == "color" else "one channel each"
            raise InputError(
                f"split is {options.split!r}, whose views have {channels}: name an encoder instead of a module"
            )
    if options.positives == "memory" and options.memory != "bank":
        raise InputError("positives is 'memory', which needs a memory bank: set memory='bank', or positives='views'")
    if options.representation_noise and options.meta == "second-order":
        raise InputError(
            "representation_noise is random in every pass, so that meta='second-order' has no derivative: set "
            "meta='first-order', or leave it out"
        )


def make_metaug_framework(plan: AnyPlan) -> Framework:
    """`Unified` with its encoders and heads, or another framework."""
    options, resolved = plan.options, plan.resolved
    if resolved.framework != "oucl":
        return make_framework(plan)
    dims = _dims(plan)
    contrast = make_contrast(plan, (resolved.n_components, *dims)[-1])
    if not has_encoders(options):
        return Unified(make_encoder(plan), make_head(plan, dims), contrast)
    if options.split != "none":
        space: Literal["lab", "ydbdr"] = "lab" if options.split == "color" else "ydbdr"
        split = ColorSplit(resolved.stats["pixel_mean"], resolved.stats["pixel_scale"], space)
        shape = resolved.row_shape[:2]
        encoders = [make_encoder(plan, (*shape, channels)) for channels in split.channels]
        network = ViewEncoders(encoders, split)
    else:
        network = ViewEncoders([make_encoder(plan) for _ in range(resolved.n_views)])
    return Unified(network, ViewHeads([make_head(plan, dims) for _ in range(resolved.n_views)]), contrast)


def has_encoders(options: Any) -> bool:
    """Whether every view has a separate encoder."""
    return bool(options.encoders == "per-view" or options.split != "none")


def make_contrast(plan: AnyPlan, width: int) -> FeatureContrast:
    """Memory and unified loss for projections with this width."""
    options, resolved = plan.options, plan.resolved
    memory = FeatureMemory(
        resolved.n_views,
        resolved.memory_size,
        width,
        negatives=resolved.negatives,
        kind=options.memory,
        per_sample=options.negative_draws == "sample",
        momentum=options.memory_momentum,
    )
    logits = Logits(
        options.form,
        beta=resolved.beta,
        margin=options.loss_margin,
        gamma=options.gamma,
        detach=options.detach_weights,
        attenuation=options.attenuation,
    )
    return FeatureContrast(memory, logits, united=options.united, stored_positives=options.positives == "memory")


def make_features(plan: AnyPlan, framework: Framework) -> tuple[MetaFeatures | None, FeatureContrast | None]:
    """The generators, and their memory and loss if the framework has none."""
    options = plan.options
    if options.meta == "none":
        return None, None
    width = head_width(framework.head, None)
    features = MetaFeatures(
        plan.resolved.n_views, width, hidden=options.feature_hidden, norm=options.norm, residual=options.residual
    )
    return features, None if isinstance(framework, Unified) else make_contrast(plan, width)


def make_feature_optimizer(plan: AnyPlan) -> Optimizer:
    """The encoder's optimizer with the generators' learning rate, without gradient clipping or parts treated apart."""
    rate = plan.resolved.feature_learning_rate
    changes = {"learning_rate": rate, "clip": None, "constant_predictor_rate": False, "freeze_last_layer": 0.0}
    return replace(make_optimizer(plan), **changes)


def _dims(plan: AnyPlan) -> tuple[int, ...]:
    if plan.options.projector_dims != "auto":
        return tuple(plan.options.projector_dims)
    return tuple(domain_in(plan).defaults.get("simclr_dims", (plan.resolved.n_components, 128)))
