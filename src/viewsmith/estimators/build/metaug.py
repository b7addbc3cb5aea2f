"""From settings to MetAug's parts: encoders of views, memory, unified contrast and generators of features."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Optimizer
from viewsmith.estimators.build import model as parts
from viewsmith.frameworks import FeatureContrast, FeatureMemory, Framework, Unified
from viewsmith.frameworks.common import head_width
from viewsmith.losses.oucl import Logits
from viewsmith.networks.lab import ColorSplit
from viewsmith.networks.mlp import MLP
from viewsmith.networks.per_view import ViewEncoders, ViewHeads
from viewsmith.views.learned.feature_augmenters import MetaFeatures

DEFAULT_BETA = 16.0
#: Of a queue, whose features are fresh, and published, of a bank.
DEFAULT_NEGATIVES = {"queue": 256, "bank": 1024}


def resolve_features(options: SimpleNamespace, resolved: dict[str, Any], n_rows: int) -> dict[str, Any]:
    """MetAug's settings that "auto" leaves to the data.

    Raises
    ------
    InputError
        A combination that does not exist, or more negatives than the memory holds.
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
            f"negatives is {negatives}, expected at most the {size} features of each view that the memory holds: ask "
            "for fewer, or raise memory_size"
        )
    rate, beta = options.feature_learning_rate, options.beta
    if beta == "auto":
        own = options.framework == "oucl" and options.temperature is not None
        beta = 2 / options.temperature if own else DEFAULT_BETA
    return {
        "memory_size": size,
        "negatives": negatives,
        "n_views": 3 if options.split == "color" else options.n_views,
        "feature_learning_rate": resolved["learning_rate"] if rate == "auto" else rate,
        "beta": beta,
    }


def _check(options: SimpleNamespace, resolved: dict[str, Any]) -> None:
    several = options.encoders == "per-view" or options.split == "color"
    if options.framework != "oucl" and (several or options.n_views > 2):
        asked = f"split {options.split!r}" if options.split != "none" else f"encoders {options.encoders!r}"
        asked = asked if several else f"n_views {options.n_views}"
        raise InputError(f"{asked} is for the framework 'oucl', not {options.framework!r}: leave one of them out")
    if options.framework == "oucl" and options.temperature is not None and options.beta != "auto":
        raise InputError(
            f"temperature is {options.temperature} and beta {options.beta}, but for the framework 'oucl' beta is 2 "
            "over the temperature: leave one of them out"
        )
    if options.split == "color":
        shape = resolved["row_shape"]
        if resolved["domain"] != "images" or len(shape) != 3 or shape[2] != 3:
            raise InputError(
                "split is 'color', which takes images of three colors apart into RGB, L and ab: the data are "
                f"{resolved['domain']} of shape {tuple(shape)}; take 'none'"
            )
        if isinstance(options.encoder, nn.Module):
            raise InputError(
                "split is 'color', whose views have 3, 1 and 2 channels: name an encoder instead of a module"
            )
    if options.positives == "memory" and options.memory != "bank":
        raise InputError("positives is 'memory', which only a bank has: set memory='bank', or take 'views'")
    if options.representation_noise and options.meta == "second-order":
        raise InputError(
            "representation_noise draws anew in every pass, which no second derivative goes through: take "
            "meta='first-order', or leave it out"
        )


def make_framework(settings: SimpleNamespace) -> Framework:
    """`Unified` with its encoders and heads, or another framework."""
    if settings.framework != "oucl":
        return parts.make_framework(settings, parts.make_encoder(settings))
    contrast = make_contrast(settings, (settings.n_components, *_widths(settings))[-1])
    if not has_encoders(settings):
        return Unified(parts.make_encoder(settings), _head(settings), contrast)
    if settings.split == "color":
        split = ColorSplit(settings.pixel_mean, settings.pixel_scale)
        encoders = [_encoder_of(settings, channels) for channels in split.channels]
        network = ViewEncoders(encoders, split)
    else:
        network = ViewEncoders([parts.make_encoder(settings) for _ in range(settings.n_views)])
    return Unified(network, ViewHeads([_head(settings) for _ in range(settings.n_views)]), contrast)


def has_encoders(settings: SimpleNamespace) -> bool:
    """Whether every view has an encoder of its own."""
    return bool(settings.encoders == "per-view" or settings.split == "color")


def make_contrast(settings: SimpleNamespace, width: int) -> FeatureContrast:
    """Memory and unified loss of embeddings of a width."""
    memory = FeatureMemory(
        settings.n_views,
        settings.memory_size,
        width,
        negatives=settings.negatives,
        kind=settings.memory,
        each=settings.negative_draws == "sample",
        momentum=settings.memory_momentum,
    )
    logits = Logits(
        settings.form,
        beta=settings.beta,
        margin=settings.loss_margin,
        gamma=settings.gamma,
        detach=settings.detach_weights,
        attenuation=settings.attenuation,
    )
    return FeatureContrast(memory, logits, united=settings.united, recalled=settings.positives == "memory")


def make_features(
    settings: SimpleNamespace, framework: Framework
) -> tuple[MetaFeatures | None, FeatureContrast | None]:
    """The generators, and what they are contrasted by where the framework does not do it."""
    if settings.meta == "none":
        return None, None
    width = head_width(framework.head, None)
    features = MetaFeatures(
        settings.n_views, width, hidden=settings.feature_hidden, norm=settings.norm, residual=settings.residual
    )
    return features, None if isinstance(framework, Unified) else make_contrast(settings, width)


def make_feature_optimizer(settings: SimpleNamespace) -> Optimizer:
    """The encoder's with a rate of its own; its gradient is not clipped."""
    return replace(parts.make_optimizer(settings), learning_rate=settings.feature_learning_rate, clip=None)


def _encoder_of(settings: SimpleNamespace, channels: int) -> nn.Module:
    shape = [*settings.row_shape[:2], channels]
    return parts.make_encoder(SimpleNamespace(**{**vars(settings), "row_shape": shape}))


def _widths(settings: SimpleNamespace) -> tuple[int, ...]:
    if settings.projection != "auto":
        return tuple(settings.projection)
    return (32,) if settings.domain == "vectors" else (settings.n_components, 128)


def _head(settings: SimpleNamespace) -> nn.Module:
    return parts.noisy(settings, MLP(settings.n_components, _widths(settings)))
