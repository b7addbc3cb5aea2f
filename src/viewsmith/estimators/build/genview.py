"""The parts of GenView, built from a plan: its generator, and the separate network for foreground and quality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows
from viewsmith.estimators.build.diffusion import GeneratorSettings, make_generator
from viewsmith.estimators.build.feature_extractor import feature_maps, uses_extractor
from viewsmith.estimators.build.model import AnyPlan, domain_in
from viewsmith.estimators.build.plan import Resolved
from viewsmith.networks.feature_maps import FeatureMap, FrozenMaps
from viewsmith.views.generated.diffusion_views import GeneratedViews
from viewsmith.views.generated.noise_level import AdaptiveStrength, NoiseTolerance


@dataclass(frozen=True, kw_only=True)
class GenViewResolved(Resolved, GeneratorSettings):
    """Resolved settings, with those of the generator.

    Attributes
    ----------
    feature_shape, feature_weights
        Shape and digest of a separate feature extractor, if there is one.
    level_references : int
        Number of training rows with which the density of a row is compared to find its noise level.
    """

    feature_shape: tuple[int, int, int] | None = None
    feature_weights: str | None = None
    level_references: int = 0


@dataclass(frozen=True)
class GenViewInputs:
    """The separate feature extractor, and the scaled views of a view cache: a list entry has one view of every row."""

    maps: FrozenMaps | None
    views: list[Rows]


def make_extractor(plan: AnyPlan) -> FrozenMaps | None:
    """The separate network for foreground and quality, or None; a loaded model finds it when it is first used."""
    options, resolved = plan.options, plan.resolved
    if not uses_extractor(options.features, resolved.domain):
        return None
    if plan.inputs is not None:
        found: FrozenMaps | None = plan.inputs.maps
        return found
    return feature_maps(
        options.features, *scaling_of(resolved.stats), shape=resolved.feature_shape, weights=resolved.feature_weights
    )


def scaling_of(stats: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Scaling of images: the offset subtracted from pixels and the divisor, both (C,)."""
    return torch.tensor(stats["pixel_mean"]), torch.tensor(stats["pixel_scale"])


def make_generated(plan: AnyPlan, encoder: nn.Module, maps: FrozenMaps | None) -> GeneratedViews:
    """The diffusion model of the domain, with a strength adapted to each row."""
    options, resolved, n = plan.options, plan.resolved, plan.resolved.n_components
    # This strength is for samples without a noise level.
    generator = make_generator(plan, encoder, resolved, condition=n, strength=0.5)
    return GeneratedViews(
        generator,
        encoder,
        nn.Identity(),
        n_components=n,
        n_views=options.cached_views,
        candidates=options.candidates,
        strengths=AdaptiveStrength(options.noise, _tolerance(plan, encoder, maps)),
    )


def _tolerance(plan: AnyPlan, encoder: nn.Module, maps: FrozenMaps | None) -> NoiseTolerance:
    """The noise tolerance that adaptive noise is fitted to, with buffers of the sizes that are saved."""
    resolved = plan.resolved
    if plan.options.noise != "adaptive":
        return NoiseTolerance()
    if domain_in(plan).picture == "pixels":
        blank = domain_in(plan).blank(resolved.row_shape)
        return NoiseTolerance(maps, width=(maps or FeatureMap(encoder, blank)).shape[2])
    return NoiseTolerance(references=(resolved.level_references, resolved.n_components))
