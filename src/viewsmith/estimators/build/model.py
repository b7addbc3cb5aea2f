"""From a plan to modules: encoder, framework, view makers, generator of noise."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Method, Optimizer
from viewsmith.core.random import derive_seed
from viewsmith.core.registry import find
from viewsmith.core.samples import Rows
from viewsmith.core.tensors import load_tensors, load_weights
from viewsmith.domains import Domain, domain_of
from viewsmith.estimators.build.plan import Plan
from viewsmith.estimators.build.resolve import MODULE, check_named, view_entries
from viewsmith.frameworks import Framework, FrameworkContext
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.networks.mlp import MLP
from viewsmith.views.base import ViewContext, ViewMaker
from viewsmith.views.fixed.representation import RepresentationNoise
from viewsmith.views.neighbors import PrincipalSpace
from viewsmith.views.pair import ViewPair

AnyPlan = Plan[Any, Any]


def domain_in(plan: AnyPlan) -> Domain:
    return domain_of(plan.resolved.domain)


def channels_in(plan: AnyPlan) -> int:
    """First dimension of a scaled sample."""
    return domain_in(plan).channels(plan.resolved.row_shape)


def build_fresh(build: Callable[[AnyPlan], Method], plan: AnyPlan, x: Rows) -> Method:
    """The method with initial weights that follow from the seed, and the principal axes of the training rows."""
    with torch.random.fork_rng([]):
        torch.manual_seed(derive_seed(plan.resolved.seed, "init"))
        method = build(plan)
    axes = [m for m in method.modules() if isinstance(m, PrincipalAxes)]
    for number, each in enumerate(axes):  # the encoder's, and its momentum copy's
        each.fit(x[:]) if number == 0 else each.load_state_dict(axes[0].state_dict())
    return method


def make_model(plan: AnyPlan) -> tuple[Framework, ViewPair]:
    """Encoder, head and framework, and the fixed view makers."""
    framework = make_framework(plan)
    return framework, make_views(plan, framework.encoder)


# ---- encoders -------------------------------------------------------------------------------------------------------


def make_encoder(plan: AnyPlan, row_shape: tuple[int, ...] | None = None, *, bias: bool = True) -> nn.Module:
    """The encoder, its weights fresh or from a file; of the user's module, a copy.

    Parameters
    ----------
    plan : Plan
    row_shape : tuple of int, optional
        Of what it takes, where these are not the samples.
    bias : bool
        Whether layers without a norm have biases, where the encoder leaves that open.

    Raises
    ------
    InputError
        The file of weights cannot be read or is not of this encoder.
    """
    options, resolved = plan.options, plan.resolved
    if isinstance(options.encoder, nn.Module):
        return copy.deepcopy(options.encoder)
    name = resolved.encoder
    if name.startswith(MODULE):
        raise InputError(
            f"the encoder of this model is the user's own ({name.removeprefix(MODULE)}): give it, as in "
            "viewsmith.load(run, encoder=module)"
        )
    shape, domain = row_shape or resolved.row_shape, domain_in(plan)
    context = EncoderContext(
        shape, domain.channels(shape), resolved.n_components, resolved.input_components, bias, name
    )
    encoder: nn.Module = find("encoder", name, domain.name).build(context, **resolved.encoder_options)
    if plan.fresh and options.encoder_weights is not None:
        _start_from(options.encoder_weights, encoder, name)
    return encoder


def _start_from(file: str, encoder: nn.Module, name: str) -> None:
    """Take the weights of a safetensors file; an encoder that has a way of its own to read it says how."""
    if hasattr(encoder, "load_published"):
        encoder.load_published(file)  # type: ignore[operator]
        return
    path = Path(file)
    if not path.is_file():
        raise InputError(f"no weights at {path} (encoder_weights): expected weights of the encoder {name}, safetensors")
    try:
        # Published ResNets come with their classifier.
        kept = {key: value for key, value in load_tensors(path).items() if not key.startswith("fc.")}
    except InputError as error:
        raise InputError(
            f"{path} (encoder_weights) is damaged or no safetensors file: pickled weights are never read, write them "
            "with safetensors.torch.save_file(encoder.state_dict(), path)"
        ) from error
    load_weights(encoder, kept, f"{path} (encoder_weights)", f"the encoder {name}")


# ---- frameworks -----------------------------------------------------------------------------------------------------


def make_framework(plan: AnyPlan) -> Framework:
    """The framework around its encoder; of the user's object a copy, connected to the encoder if it has none."""
    options, resolved = plan.options, plan.resolved
    given = options.framework
    if isinstance(given, nn.Module):
        own: Any = copy.deepcopy(given)
        if getattr(own, "connected", True):
            return own
        context = framework_context(plan, make_encoder(plan))
        if isinstance(options.projector_dims, tuple):
            context = dataclasses.replace(context, simclr_dims=options.projector_dims)
        return own.connect(context)
    check_named(resolved.framework)
    entry = find("framework", resolved.framework)
    build = getattr(entry.build, "build", entry.build)
    framework: Framework = build(framework_context(plan, make_encoder(plan)), **resolved.framework_options)
    return framework


def framework_context(plan: AnyPlan, encoder: nn.Module) -> FrameworkContext:
    """What a framework is built around."""
    resolved, domain = plan.resolved, domain_in(plan)
    name = resolved.encoder
    published = not name.startswith(MODULE) and find("encoder", name, domain.name).trait("published", False)
    n = resolved.n_components
    dims = tuple(domain.defaults.get("simclr_dims", (n, 128)))
    return FrameworkContext(encoder, n, published, dims, lambda head: with_noise(plan, head))


def with_noise(plan: AnyPlan, head: Any) -> nn.Module:
    """The head, with noise on its input during training where asked for."""
    strength = plan.options.representation_noise
    if not strength:
        return head
    noisy = nn.Sequential(RepresentationNoise(strength), head)
    noisy.n_components = head.n_components
    return noisy


def make_head(plan: AnyPlan, dims: tuple[int, ...], **options: Any) -> nn.Module:
    """A plain head of these widths, with noise on its input where asked for."""
    return with_noise(plan, MLP(plan.resolved.n_components, dims, **options))


def make_optimizer(plan: AnyPlan) -> Optimizer:
    """The encoder's optimizer and schedule."""
    options = plan.options
    return Optimizer(
        name=options.optimizer,
        learning_rate=plan.resolved.learning_rate,
        weight_decay=options.weight_decay,
        warmup=options.warmup,
        schedule=options.schedule,
        clip=options.gradient_clip,
    )


# ---- view makers ----------------------------------------------------------------------------------------------------


def make_views(plan: AnyPlan, encoder: nn.Module) -> ViewPair:
    """The view makers, in order; of the user's own, a copy."""
    options, resolved, domain = plan.options, plan.resolved, domain_in(plan)
    refreshed = options.neighbor_space == "encoder"
    if isinstance(options.view_maker, nn.Module):
        own: Any = copy.deepcopy(options.view_maker)
        return ViewPair([own], refreshed=refreshed)
    if resolved.view_maker.startswith(MODULE):
        raise InputError(
            f"the view maker of this model is the user's own ({resolved.view_maker.removeprefix(MODULE)}): give it, as "
            "in viewsmith.load(run, view_maker=views)"
        )
    given = resolved.view_options
    if "noise_strength" in given:
        given = given | {"noise_strength": resolved.noise_strength}
    makers: list[ViewMaker] = []
    for name, entry in zip(resolved.view_maker.split("+"), view_entries(resolved.view_maker, domain), strict=True):
        context = ViewContext(
            domain=domain,
            row_shape=resolved.row_shape,
            encoder=encoder,
            stats=resolved.stats,
            space=_space(domain, resolved.row_shape, encoder),
            refreshed=refreshed,
            name=name,
            facts=resolved.view_facts,
            fresh=plan.fresh,
            graph=plan.neighbors,
        )
        own_options = {option: given[option] for option in entry.options if option in given}
        makers.append(entry.build(context, **own_options) if _takes_context(entry) else entry.build(**own_options))
    return ViewPair(makers, refreshed=refreshed)


def _takes_context(entry: Any) -> bool:
    """Whether a view maker is built by a function of a context; a class takes its options alone."""
    return not isinstance(entry.build, type)


def _space(domain: Domain, row_shape: tuple[int, ...], encoder: nn.Module) -> Any:
    """Where neighbors are sought: where the encoder of vectors looks first; in principal axes of pixels or words."""
    if domain.neighbor_features(domain.blank(row_shape)) is not None:
        return PrincipalSpace(domain.neighbor_features)  # type: ignore[arg-type]
    # Held as a bound method: the projection belongs to the encoder alone.
    first = encoder[0] if isinstance(encoder, nn.Sequential) else None
    return first.forward if isinstance(first, PrincipalAxes) else None
