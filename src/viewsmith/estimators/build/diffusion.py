"""The diffusion models of DiffAug and GenView, built from a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Optimizer
from viewsmith.domains import Domain
from viewsmith.estimators.build.model import AnyPlan, domain_in
from viewsmith.views.generated.diffusion import ConditionalDiffusion


@dataclass(frozen=True, kw_only=True)
class GeneratorSettings:
    """Settings of a generator for which "auto" takes the value of the domain."""

    generator_epochs: int
    generator_learning_rate: float
    predicts: Literal["eps", "v", "x0"]
    noise_schedule: Literal["linear", "cosine"]
    sampler: Literal["ddim", "ddpm", "dpm"]
    sampler_steps: int


def check_has_generator(domain: Domain) -> None:
    """Raise InputError if the domain has no generator."""
    if "generator_epochs" not in domain.defaults:
        raise InputError(f"there is no generator of views for {domain.name}: use another method")


def resolve_generator(options: Any, domain: Domain, epochs: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Settings by name: the value of the domain for "auto" and for names that are not options of the method.

    The domain's `generator_epochs` is a fraction of the encoder's epochs.

    Raises
    ------
    InputError
        The domain has no generator.
    """
    check_has_generator(domain)
    defaults = dict(domain.defaults)
    defaults["generator_epochs"] = max(1, round(defaults["generator_epochs"] * epochs))
    given = {name: getattr(options, name, "auto") for name in names}
    return {name: defaults[name] if value == "auto" else value for name, value in given.items()}


def make_generator(
    plan: AnyPlan,
    encoder: nn.Module,
    settings: GeneratorSettings,
    *,
    condition: int,
    strength: float,
    denoiser: str = "fast",
    **options: Any,
) -> ConditionalDiffusion:
    """The diffusion model of the domain, conditioned on `condition` numbers per sample."""
    domain, resolved = domain_in(plan), plan.resolved
    codes = domain.codes(resolved.row_shape, resolved.stats, encoder)
    return ConditionalDiffusion(
        domain.denoiser(denoiser, codes, resolved.row_shape, condition),
        codes,
        condition=condition,
        schedule=settings.noise_schedule,
        prediction=settings.predicts,
        sampler=settings.sampler,
        steps=settings.sampler_steps,
        strength=strength,
        **options,
    )


def make_generator_optimizer(plan: AnyPlan, settings: GeneratorSettings) -> Optimizer:
    """AdamW with `generator_learning_rate`, the weight decay and schedule of the encoder, gradients clipped at 1."""
    options, rate = plan.options, settings.generator_learning_rate
    return Optimizer("adamw", rate, weight_decay=options.weight_decay, schedule=options.schedule, clip=1.0)
