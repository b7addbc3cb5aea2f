"""Modules built from a plan: encoder, framework, view makers, generators of views; and fixed features of the samples:
named ones, networks and functions of users, trained models."""

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.core.registry import find, get, names
from viewsmith.core.samples import Rows, mapped
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.core.tensors import derive_seed, global_streams, load_published, load_weights, read_published
from viewsmith.data.places import downloaded
from viewsmith.estimator.options import MODULE, check_given_again, check_part_options, check_renamed
from viewsmith.estimator.plan import BuildContext, TrainingData, probe, text_of
from viewsmith.estimator.resolve import view_entries
from viewsmith.frameworks import Framework, FrameworkContext
from viewsmith.modalities import Modality, modality_of
from viewsmith.modalities.images.encoders import ResNet
from viewsmith.networks.base import MLP, EncoderContext, PartContext, Reference
from viewsmith.networks.features import Features, FunctionFeatures, NetworkFeatures, features_of_function, name_of
from viewsmith.networks.scaling import FirstColumns, PrincipalAxes, SkipAxes, SkipCoordinates, WithSkip, skipped_columns
from viewsmith.training.run import RunFolder, to_toml
from viewsmith.views.base import PairMaker, RepresentationNoise, ViewContext, ViewMaker
from viewsmith.views.generated.diffusion import ConditionalDiffusion
from viewsmith.views.neighbors import PrincipalSpace

FITTED = 4000  # random samples that features are fitted to, at most
BLOCK, BLOCK_VALUES = 1024, 2**22
RUN = "run:"  # prefix of the method of a trained model that gives the features


def named_features(
    name: str,
    modality: Modality,
    row_shape: tuple[int, ...],
    layer: nn.Module | None,
    options: Mapping[str, Any] | None = None,
    shrunk: int = 1,
) -> Features:
    """Registered features with their options, not yet fitted, of `shrunken` images."""
    shape = row_shape if shrunk == 1 else (row_shape[0] // shrunk, row_shape[1] // shrunk, *row_shape[2:])
    context = PartContext(shape, modality.channels(row_shape), name=name, layer=layer)
    return find("features", name, modality.name).build(context, **options or {})


def shrinks(name: str, modality: Modality, row_shape: tuple[int, ...], options: Mapping[str, Any] | None) -> int:
    """By how much images can be shrunk before anything is done for these features."""
    entry = get("features", name, modality.name)
    rule = None if entry is None else entry.tag("shrinks_by")
    if entry is None or rule is None:
        return 1
    return int(rule(row_shape, {option: each.default for option, each in entry.options.items()} | dict(options or {})))


def shrunken(x: Tensor, by: int) -> Tensor:
    """Images (B, C, H, W) whose pixels are means of `by` x `by` pixels; others as they are, if `by` is 1."""
    return x if by == 1 else F.avg_pool2d(x.float(), by)


def shrunken_rows(x: Rows, by: int) -> Rows:
    """Scaled images that are `shrunken` when they are read."""
    return x if by == 1 else mapped(x, lambda block: shrunken(block, by))


def rows_to_fit(x: Rows, generator: torch.Generator) -> Tensor:
    """At most `FITTED` random rows, in order."""
    chosen = torch.arange(len(x))
    if len(x) > FITTED:
        chosen = torch.randperm(len(x), generator=generator)[:FITTED].sort().values
    one = x[:1]
    found = one.new_empty(len(chosen), *one.shape[1:])  # a list of blocks would take the memory of all rows again
    size = max(1, min(BLOCK, BLOCK_VALUES // max(1, one.numel())))
    for start in range(0, len(chosen), size):
        part = chosen[start : start + size]
        found[start : start + size] = x[part.to(x.device)]
    return found


def fixed_features(model: Any, X: Any, *others: Any) -> list[np.ndarray]:
    """The features that a model was given, such as those of a network; otherwise the default ones of the modality,
    fitted to samples `X` without labels: float32 (n, n_features) of `X`, and of each of the `others`."""
    modality, facts = model.modality_, model.facts_
    name, options = modality.features_for(facts.statistics)
    if given := getattr(facts, "features", name) != name:
        name, options = facts.features, facts.features_options
    by = shrinks(name, modality, facts.row_shape, options)
    rows = shrunken_rows(model.samples(X), by)
    if given:
        features = model.method_.framework.encoder.features
    else:
        features = named_features(name, modality, facts.row_shape, model.scaler_, options, by).to(rows.device)
        generator = torch.Generator().manual_seed(derive_seed(facts.seed, "features"))
        features.fit(rows_to_fit(rows, generator), generator)

    def of(rows: Rows) -> np.ndarray:
        starts = range(0, len(rows), BLOCK)
        starts_told = with_progress(starts, "features", len(starts), "blocks", told=TOLD)
        with torch.no_grad():
            return np.concatenate([features(rows[start : start + BLOCK]).cpu().numpy() for start in starts_told])

    return [of(rows), *(of(shrunken_rows(model.samples(other), by)) for other in others)]


# ---- features that an estimator is given ----------------------------------------------------------------------------
class ModelFeatures(NetworkFeatures):
    """The representation of a trained model, which `transform` gives."""

    def __init__(self, model: Any, n_features: int, layer: nn.Module) -> None:
        super().__init__(model.method_, n_features)
        self.scaler, self.layer = model.scaler_, Reference(layer)

    @torch.no_grad()
    def of_block(self, x: Tensor) -> Tensor:
        return self.network.represent(self.scaler(self.layer.module.inverse(x))).float()  # type: ignore[operator]


def choose_features(
    given: Any, options: Mapping[str, Any] | None, data: TrainingData
) -> tuple[str, dict[str, Any], dict[str, Tensor] | None]:
    """The features that an estimator is given: their text in configurations, plain options, weights of a trained model.

    The text is a registered name; ``run:METHOD`` for a trained model, whose configuration is among the options; or
    ``module:NAME`` for a module or a function of the user, which has to be given again when the model is loaded.
    """
    modality, further = data.modality, options or {}
    if not (isinstance(given, str | os.PathLike | BaseEstimator) or callable(given)):
        raise InputError(
            f"features is {given!r}, expected a name, the folder of a run, a fitted model, a module or a function"
        )
    default, of_default = modality.features_for(data.statistics)
    name = default if isinstance(given, str) and given == "auto" else given
    if isinstance(name, str) and (entry := get("features", name, modality.name)) is not None:
        if entry.name.endswith(":") and name == entry.name:
            raise InputError(f"features is {name!r}, expected {name}NAME")
        defaults = {option: each.default for option, each in entry.options.items()}
        return name, defaults | (of_default if name == default else {}) | check_part_options(entry, further), None
    if further:
        raise InputError("features_options need a registered name: set options of features of your own yourself")
    if (model := trained_model(given, modality)) is not None:
        _check_model(model, data)
        configuration = {n: v for n, v in model.configuration().items() if n not in ("data", "command")}
        known = {"configuration": to_toml(configuration), "n_features": model._n_features_out}
        return f"{RUN}{model.name}", known, model.weights()
    text = text_of(given)
    if isinstance(given, Features):
        return text, {}, None
    if isinstance(given, nn.Module):
        return text, {"n_features": probe(given, name_of(given), data.x[:2], "features")}, None
    return text, {"n_features": features_of_function(given, data.layer, data.x[:2]).shape[1]}, None


def make_features(plan: BuildContext[Any], modality: Modality, shrunk: int = 1) -> Features:
    """The features that `choose_features` has chosen, not yet fitted, of `shrunken` images;
    copies of modules of the user."""
    given, facts, layer = plan.options.features, plan.facts, plan.layer
    name, known = facts.features, facts.features_options
    assert layer is not None
    if name.startswith(RUN):
        model = model_of_configuration(known["configuration"])
        if plan.inputs is not None:
            load_weights(model._modules(), plan.inputs, "the model of the features")
        return ModelFeatures(model, known["n_features"], layer)
    if not name.startswith(MODULE):
        return named_features(name, modality, facts.row_shape, layer, known, shrunk)
    if isinstance(given, str):
        check_given_again("features", name, "features")
    if isinstance(given, Features):
        return copy.deepcopy(given)
    if isinstance(given, nn.Module):
        return NetworkFeatures(copy.deepcopy(given), known["n_features"])
    return FunctionFeatures(given, known["n_features"], layer)


def trained_model(given: Any, modality: Modality) -> Any:
    """The trained model, of an estimator or of the folder of a run, whose representations are features; None for a
    module or a function."""
    if isinstance(given, BaseEstimator):
        if not hasattr(given, "configuration"):
            raise InputError(f"features is a {type(given).__name__}, expected a model of viewsmith, or its transform")
        if not hasattr(given, "method_"):
            raise InputError(f"features is a {type(given).__name__} that is not fitted: fit it, or give its run")
        return given
    if callable(given):
        return None
    address = str(given)
    path = downloaded(address) if address.startswith("hf:") else RunFolder(address).path
    if not path.is_dir():
        known = ", ".join(map(repr, names("features", modality.name)))
        raise InputError(
            f"features is {address!r}, expected auto, {known}, the folder of a run, a fitted model, a module or a "
            "function"
        )
    folder = RunFolder(path)
    config = folder.read_config()
    entry = get("method", str(config.get("method", "")))
    if entry is None or "fitted" not in config:
        raise InputError(f"{folder.config} is of the method {config.get('method')!r}, which has no representation")
    return entry.build._load(folder, config, {})  # type: ignore[attr-defined]


def model_of_configuration(configuration: Mapping[str, Any]) -> Any:
    """The model that a configuration describes, without its trained weights."""
    entry = find("method", str(configuration["method"]))
    model: Any = entry.build._described(configuration, {}, "the model of the features")  # type: ignore[attr-defined]
    model._make_modules()
    return model


def _check_model(model: Any, data: TrainingData) -> None:
    """Raise InputError unless a trained model can give features of these samples, also after it was saved with them."""
    shape, modality = model.facts_.row_shape, model.modality_
    if modality.name != data.modality.name or not modality.same_shape(tuple(shape), data.row_shape):
        raise InputError(
            f"the model of the features was trained on {modality.name} of shape {tuple(shape)}, but the data are "
            f"{data.modality.name} of shape {tuple(data.row_shape)}: give samples of the same shape"
        )
    if model.table_ is not None:
        raise InputError("the model of the features was trained on a mixed table: give one that was trained on numbers")
    try:
        model_of_configuration(to_toml(model.configuration()))
    except InputError as error:
        raise InputError(
            f"the model of the features has a part of your own, which is not saved with it: give it as a module or a "
            f"function ({error})"
        ) from error


AnyContext = BuildContext[Any]


def modality_in(plan: AnyContext) -> Modality:
    """Modality of the samples."""
    return modality_of(plan.facts.modality)


def channels_in(plan: AnyContext) -> int:
    """First dimension of a scaled sample."""
    return modality_in(plan).channels(plan.facts.row_shape)


def build_fresh(build: Callable[[AnyContext], Method], plan: AnyContext, x: Rows) -> Method:
    """Build the method with initial weights from the seed, and fit principal axes to the training rows."""
    with global_streams(derive_seed(plan.facts.seed, "init"), torch.device("cpu")):
        method = build(plan)
    weighted = "columns" not in plan.facts.statistics  # columns of a table have weights already
    of_features = {part for m in method.modules() if isinstance(m, Features) for part in m.modules()}
    modules = [m for m in method.modules() if m not in of_features]
    axes = [m for m in modules if isinstance(m, PrincipalAxes)]  # the encoder's, and its momentum copy's
    skips = [m for m in modules if isinstance(m, SkipCoordinates)]
    further = [skip for skip in skips if isinstance(skip, SkipAxes)]
    if axes:
        found = axes[0].fit(x, weighted=weighted, more=max((skip.axes.shape[1] for skip in further), default=0))
        for each in further:
            each.take(found)
    for copied in axes[1:]:
        copied.load_state_dict(axes[0].state_dict())
    for number, skip in enumerate(skips):
        if number == 0 or skip.features is not None:  # one encoder may have several of these
            skip.fit(x, weighted=weighted)
        else:
            skip.load_state_dict(skips[0].state_dict())
    method.initialize(x, plan.facts.seed)
    return method


def make_model(plan: AnyContext) -> tuple[Framework, PairMaker]:
    """Encoder, head and framework, and the fixed view makers."""
    framework = make_framework(plan)
    return framework, make_views(plan, framework.encoder)


# ---- encoders -------------------------------------------------------------------------------------------------------
def make_encoder(plan: AnyContext, row_shape: tuple[int, ...] | None = None, *, bias: bool = True) -> nn.Module:
    """The encoder with fresh weights or weights from a file; a copy of a custom module."""
    options, facts = plan.options, plan.facts
    if isinstance(options.encoder, nn.Module):
        # Of a module of torch.compile, which renames the weights, what is compiled.
        custom: nn.Module = copy.deepcopy(getattr(options.encoder, "_orig_mod", options.encoder))
        freeze_layers(custom, options.freeze)
        keep_frozen_parts(custom)
        return custom
    name = options.encoder
    check_given_again("encoder", name, "encoder")
    shape, modality = row_shape or facts.row_shape, modality_in(plan)
    axes = options.input_components or 0
    context = EncoderContext(shape, modality.channels(shape), options.n_components, axes, bias, name=name)
    entry = find("encoder", name, modality.name)
    encoder: nn.Module = entry.build(context, **options.encoder_options)
    if entry.origin != "viewsmith":
        check(isinstance(encoder, nn.Module), f"the encoder {name!r}", type(encoder).__name__, "a torch.nn.Module")
        blank = modality.blank(shape)
        width = probe(encoder, repr(name), blank.expand(2, *blank.shape[1:]))
        expected = f"{options.n_components}, its n_components"
        check(width == options.n_components, f"the width of the encoder {name!r}", width, expected)
    if plan.fresh and options.encoder_weights is not None:
        _load_initial(options.encoder_weights, encoder, context, modality.name)
    if options.freeze == "all" and options.encoder_weights is None:
        raise InputError(
            f"freeze is 'all', but the encoder {name} starts from random weights: give encoder_weights, or a trained "
            "module as the encoder"
        )
    freeze_layers(encoder, options.freeze)
    return encoder


def _load_initial(source: str, encoder: nn.Module, context: EncoderContext, modality: str) -> None:
    """Load initial weights: safetensors, by the encoder's `load_published` if any, or the library's "pretrained"."""
    name = context.name
    if source == "pretrained":
        load = find("encoder", name, modality).tag("load_pretrained")
        if load is None:
            raise InputError(
                f"encoder_weights is 'pretrained', and no library has weights for the encoder {name}: give a "
                "safetensors file, or take timm:NAME"
            )
        load(encoder, context)
        return
    if hasattr(encoder, "load_published"):
        encoder.load_published(source)  # type: ignore[operator]
        return
    path = Path(source)
    published = f", or 'pretrained' with the encoder timm:{name}" * isinstance(encoder, ResNet)
    kept = read_published(path, "encoder_weights", f"the encoder {name}", published)
    if isinstance(encoder, ResNet) and (first := kept.get("conv1.weight")) is not None:
        stem = {3: "small", 7: "standard"}.get(first.shape[-1])
        if stem and encoder.conv1.kernel_size != first.shape[2:]:
            raise InputError(
                f"{path} (encoder_weights) has the first layer of stem='{stem}' ({first.shape[-1]} x {first.shape[-1]} "
                f"pixels): set stem='{stem}' (--set stem={stem})"
            )
    load_published(encoder, kept, f"{path} (encoder_weights)", f"the encoder {name}")


def freeze_layers(encoder: nn.Module, count: int | Literal["all"]) -> None:
    """Freeze the first `count` layers (linear, convolution, embedding) and what follows them, in evaluation mode; MoCo
    v3 freezes 1, a transformer's patch embedding (Chen, Xie and He 2021, section 4.2)."""
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


# ---- frameworks -----------------------------------------------------------------------------------------------------
def make_framework(plan: AnyContext) -> Framework:
    """The framework with its encoder, and with the labels if it reads them."""
    framework = _framework(plan)
    if plan.labels is not None:
        framework.read_labels(plan.labels)
    return framework


def _framework(plan: AnyContext) -> Framework:
    """The framework with its encoder; a copy of a custom object, connected to the encoder if it has none."""
    options = plan.options
    given = options.framework
    if isinstance(given, nn.Module):
        custom: Any = copy.deepcopy(given)
        if getattr(custom, "connected", True):
            freeze_layers(custom.encoder, options.freeze)
            keep_frozen_parts(custom.encoder)
            return custom
        context = framework_context(plan, make_encoder(plan))
        if isinstance(options.projector_dims, tuple):
            context = dataclasses.replace(context, simclr_dims=options.projector_dims)
        return custom.connect(context)
    check_given_again("framework", given, "framework")
    entry = find("framework", given)
    check_renamed(entry, options.framework_options)
    build = getattr(entry.build, "build", entry.build)
    return build(framework_context(plan, make_encoder(plan)), **options.framework_options)


def framework_context(plan: AnyContext, encoder: nn.Module) -> FrameworkContext:
    """The encoder and the default widths that a framework is built with."""
    options, modality = plan.options, modality_in(plan)
    name = text_of(options.encoder)
    published = not name.startswith(MODULE) and find("encoder", name, modality.name).tag("published", False)
    learned = options.n_components - skipped_columns(encoder)
    dims = tuple(modality.defaults.get("simclr_dims", (learned, 128)))
    return FrameworkContext(
        encoder, learned, published, dims, lambda head: on_learned(plan, encoder, with_noise(plan, head))
    )


def on_learned(plan: AnyContext, encoder: nn.Module, head: Any) -> nn.Module:
    """The head on the learned columns alone: the loss would leave to the others what they tell already."""
    skipped = skipped_columns(encoder)
    return FirstColumns(plan.options.n_components - skipped, head) if skipped else head


def with_noise(plan: AnyContext, head: Any) -> nn.Module:
    """The head, with noise on its input during training if the options have it."""
    strength = plan.options.representation_noise
    if not strength:
        return head
    noisy = nn.Sequential(RepresentationNoise(strength), head)
    noisy.n_components = head.n_components
    return noisy


def make_head(plan: AnyContext, encoder: nn.Module, dims: Any, **options: Any) -> nn.Module:
    """An MLP head with these widths ("auto": those of the modality) on the encoder's learned columns, with noise on its
    input if the options have it."""
    context = framework_context(plan, encoder)
    return context.wrap(MLP(context.n_components, context.simclr_dims if dims == "auto" else dims, **options))


def make_optimizer(plan: AnyContext, head_lr_scale: float = 1.0) -> Optimizer:
    """The encoder's optimizer and schedules."""
    options = plan.options  # their momentum is that of a framework
    same = ["learning_rate", "weight_decay", "final_weight_decay", "warmup", "schedule", "exclude_norm_and_bias"]
    same += ["trust_coefficient", "constant_predictor_rate", "freeze_last_layer"]
    given = {name: getattr(options, name) for name in same}
    return Optimizer(options.optimizer, clip=options.gradient_clip, head_lr_scale=head_lr_scale, **given)


# ---- view makers ----------------------------------------------------------------------------------------------------
def make_views(plan: AnyContext, encoder: nn.Module) -> PairMaker:
    """The view makers in order; a copy of a custom one; raises InputError if a loaded model lacks its custom one."""
    options, facts, modality = plan.options, plan.facts, modality_in(plan)
    refreshed = options.neighbor_space == "encoder"
    if isinstance(options.view_maker, nn.Module):
        custom: Any = copy.deepcopy(options.view_maker)
        return PairMaker([custom], refreshed=refreshed)
    check_given_again("view maker", options.view_maker, "view_maker")
    given = options.view_options
    if "noise_strength" in given:
        given = given | {"noise_strength": options.noise_strength}
    makers: list[ViewMaker] = []
    entries = view_entries(options.view_maker, modality)
    for name, entry in zip(options.view_maker.split("+"), entries, strict=True):
        context = ViewContext(
            facts.row_shape,
            channels_in(plan),
            modality,
            encoder,
            statistics=facts.statistics,
            space=_space(modality, facts.row_shape, encoder),
            refreshed=refreshed,
            name=name,
            derived=facts.view_derived,
            fresh=plan.fresh,
            graph=plan.neighbors,
            layer=plan.layer,
        )
        selected = {option: given[option] for option in entry.options if option in given}
        makers.append(entry.made(context, **selected))
    return PairMaker(makers, refreshed=refreshed, changes_shape=any(entry.tag("changes_shape") for entry in entries))


def _space(modality: Modality, row_shape: tuple[int, ...], encoder: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Space of the neighbor search: principal axes of pixels or k-mers; for vectors, those of the encoder, if any."""
    if modality.neighbor_features(modality.blank(row_shape)) is not None:
        return PrincipalSpace(modality.neighbor_features)  # type: ignore[arg-type]
    # A bound method, so that the module is registered only in the encoder.
    network = encoder.learned if isinstance(encoder, WithSkip) else encoder
    first = network[0] if isinstance(network, nn.Sequential) else None
    return first.forward if isinstance(first, PrincipalAxes) else None


#: Settings of a generator for which "auto" takes the value of the modality.
SETTINGS = ("generator_epochs", "generator_learning_rate", "predicts", "noise_schedule", "sampler", "sampler_steps")


def check_has_generator(modality: Modality) -> None:
    """Raise InputError if the modality has no generator."""
    if "generator_epochs" not in modality.defaults:
        raise InputError(f"there is no generator of views for {modality.name}: use another method")


def resolve_generator(options: Any, modality: Modality, epochs: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Settings by name, those of the modality for "auto" and for what is no option of the method; its
    `generator_epochs` is a fraction of `epochs`, those of the encoder."""
    check_has_generator(modality)
    defaults = dict(modality.defaults)
    defaults["generator_epochs"] = max(1, round(defaults["generator_epochs"] * epochs))
    given = {name: getattr(options, name, "auto") for name in names}
    return {name: defaults[name] if value == "auto" else value for name, value in given.items()}


def make_generator(
    plan: AnyContext,
    encoder: nn.Module,
    settings: Any,
    *,
    condition: int,
    strength: float,
    denoiser: str = "fast",
    **options: Any,
) -> ConditionalDiffusion:
    """The diffusion model of the modality, conditioned on `condition` numbers per sample; `settings` has what it
    predicts, its schedule and its sampler."""
    modality, facts = modality_in(plan), plan.facts
    latents = modality.latents(facts.row_shape, facts.statistics, encoder)
    return ConditionalDiffusion(
        modality.denoiser(denoiser, latents, facts.row_shape, condition),
        latents,
        condition=condition,
        schedule=settings.noise_schedule,
        prediction=settings.predicts,
        sampler=settings.sampler,
        steps=plan.options.sampler_steps,
        strength=strength,
        **options,
    )


def make_generator_optimizer(plan: AnyContext) -> Optimizer:
    """AdamW with `generator_learning_rate`, the weight decay and schedule of the encoder, gradients clipped at 1."""
    options, rate = plan.options, plan.options.generator_learning_rate
    return Optimizer("adamw", rate, weight_decay=options.weight_decay, schedule=options.schedule, clip=1.0)
