"""From settings to DiffAug's parts: the soft framework, the diffusion model and the views it makes."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Optimizer
from viewsmith.estimators.build.model import channels_of, noisy
from viewsmith.frameworks.soft import InfoNCE, SoftContrastive, SoftLoss
from viewsmith.networks.denoisers.dna import SequenceDenoiser
from viewsmith.networks.denoisers.images import ImageDenoiser, PublishedImageDenoiser
from viewsmith.networks.denoisers.vectors import PublishedVectorDenoiser, VectorDenoiser
from viewsmith.networks.mlp import MLP
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.views.generated.diffusion import ConditionalDiffusion, LetterCodes, PixelCodes, VectorCodes
from viewsmith.views.generated.diffusion_views import GeneratedViews

#: What "auto" means, by domain; `generator_epochs` is a share of the encoder's epochs.
DEFAULTS: dict[str, dict[str, Any]] = {
    "vectors": {
        "directions": False,
        "nu": 1.0,
        "generator_epochs": 0.5,
        "generator_learning_rate": 4e-3,
        "predicts": "v",
        "noise_schedule": "cosine",
        "sampler": "dpm",
        "sampler_steps": 10,
        "strength": 1.0,
    },
    "images": {
        "directions": True,
        "nu": 100.0,
        "generator_epochs": 0.5,
        "generator_learning_rate": 4e-3,
        "predicts": "v",
        "noise_schedule": "linear",
        "sampler": "dpm",
        "sampler_steps": 10,
        "strength": 0.5,
    },
    "dna": {
        "directions": True,
        "nu": 100.0,
        "generator_epochs": 0.5,
        "generator_learning_rate": 6e-3,
        "predicts": "v",
        "noise_schedule": "linear",
        "sampler": "dpm",
        "sampler_steps": 10,
        "strength": 0.5,
    },
}


def resolve_generator(options: SimpleNamespace, resolved: dict[str, Any], labels: Any) -> dict[str, Any]:
    """DiffAug's settings that "auto" leaves to the domain, and the number of classes where labels are a condition.

    Raises
    ------
    InputError
        A schedule of phases that does not exist, guidance without what it needs, or a published denoiser of DNA.
    """
    if not re.fullmatch("A(BA)*B?|J", options.phases):
        raise InputError(f"phases is {options.phases!r}, expected A, AB, ABA, ABABA and so on, or J for joint training")
    if options.denoiser == "published" and resolved["domain"] == "dna":
        raise InputError("denoiser is 'published', but no denoiser of DNA was published: take 'fast'")
    if options.guidance != 1 and not options.condition_drop:
        raise InputError(
            f"guidance is {options.guidance}, which needs a generator that has seen no condition at times: set "
            "condition_drop, such as 0.1"
        )
    found = default_settings(options, resolved, tuple(DEFAULTS[resolved["domain"]]))
    return found | {"n_classes": 0 if labels is None else int(labels.max()) + 1}


def default_settings(options: SimpleNamespace, resolved: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of the domain (`DEFAULTS`) for names that are "auto", or no option of the method at all."""
    usual = DEFAULTS[resolved["domain"]]
    usual = usual | {"generator_epochs": max(1, round(usual["generator_epochs"] * resolved["epochs"]))}
    given = {name: getattr(options, name, "auto") for name in names}
    return {name: usual[name] if value == "auto" else value for name, value in given.items()}


def find_classes(y: Any, n_rows: int) -> Tensor:
    """Labels as class numbers 0, 1, ..., int64 (n,).

    Raises
    ------
    InputError
        There are none, or not one a row.
    """
    if y is None:
        raise InputError("condition is 'labels', but no labels were given: call fit(X, y), or take 'representation'")
    values = np.asarray(y)
    if values.shape != (n_rows,):
        raise InputError(f"the labels have shape {values.shape}, expected one for each of the {n_rows} rows")
    return torch.from_numpy(np.unique(values.astype(str), return_inverse=True)[1].astype(np.int64))


def make_soft(settings: SimpleNamespace, encoder: nn.Module) -> SoftContrastive:
    """Encoder, wide embedding, map and their losses."""
    n = settings.n_components
    # Directions of images need room: SimCLR's head.
    usual = (n, 128) if settings.domain == "images" else (32,)
    widths = usual if settings.projection == "auto" else settings.projection
    chart = MLP(n, [*settings.map_hidden, settings.map_components], norm=settings.norm)
    if widths is None:
        return SoftContrastive(encoder, noisy(settings, chart), loss=_loss(settings, chart=True))
    return SoftContrastive(
        encoder,
        noisy(settings, MLP(n, tuple(widths))),
        chart,
        loss=_loss(settings, chart=False),
        map_loss=_loss(settings, chart=True),
        map_gradient=settings.map_gradient,
    )


def _loss(settings: SimpleNamespace, *, chart: bool) -> SoftLoss | InfoNCE:
    """The loss of the embedding or of the map, where directions would say too little."""
    if settings.framework == "simclr":
        return InfoNCE("cauchy") if chart else InfoNCE(settings.kernel, settings.temperature)
    return SoftLoss(
        nu=settings.nu_map if chart else settings.nu,
        nu_target=settings.nu_target,
        target_distance=settings.target_distance,
        kernel=settings.kernel,
        beta=settings.beta,
        negative_weight=None if settings.negative_weight == "auto" else settings.negative_weight,
        targets=settings.targets,
        detach=settings.detach_targets,
        normalize=settings.normalize,
        temperature=settings.temperature if settings.directions and not chart else None,
    )


def make_generated(settings: SimpleNamespace, framework: SoftContrastive, labels: Tensor | None) -> GeneratedViews:
    """The diffusion model of the domain, and the views it makes."""
    width = settings.map_components if settings.condition == "map" else settings.n_components
    codes, denoiser = codes_and_denoiser(settings, framework.encoder, width)
    generator = ConditionalDiffusion(
        denoiser,
        codes,
        condition=width,
        schedule=settings.noise_schedule,
        prediction=settings.predicts,
        sampler=settings.sampler,
        steps=settings.sampler_steps,
        strength=settings.strength,
        guidance=settings.guidance,
        drop=settings.condition_drop,
        blur=settings.condition_blur,
        average=settings.average,
    )
    return GeneratedViews(
        generator,
        framework.encoder,
        framework.map_network,
        n_components=settings.n_components,
        condition=settings.condition,
        labels=labels,
        n_classes=settings.n_classes,
        n_views=settings.cached_views,
        keep_outliers=settings.keep_outliers,
    )


def codes_and_denoiser(settings: SimpleNamespace, encoder: nn.Module, width: int) -> tuple[Any, nn.Module]:
    """The codes of the domain and a denoiser of them, conditioned on `width` numbers."""
    published = settings.denoiser == "published"
    if settings.domain == "vectors":
        # What the encoder does not see, the generator need not make.
        axes = next((m for m in encoder.modules() if isinstance(m, PrincipalAxes)), None)
        codes = VectorCodes(settings.row_shape[0], axes)
        return codes, (PublishedVectorDenoiser if published else VectorDenoiser)(codes.n_codes, width)
    if settings.domain == "dna":
        return LetterCodes(), SequenceDenoiser(width)
    channels = channels_of(settings)
    pixels = PixelCodes(channels, settings.pixel_mean, settings.pixel_scale)
    return pixels, (PublishedImageDenoiser if published else ImageDenoiser)(channels, width)


def make_generator_optimizer(settings: SimpleNamespace) -> Optimizer:
    return Optimizer("adamw", settings.generator_learning_rate, weight_decay=settings.weight_decay, clip=1.0)
