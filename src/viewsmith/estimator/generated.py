"""Diffusion models of DiffAug and GenView, built from a context, and figures of what they generate."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.random import stream
from viewsmith.core.registry import get
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.data import Dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimator.figures import COMPARED
from viewsmith.estimator.model import AnyContext, modality_in
from viewsmith.estimator.plan import Facts
from viewsmith.estimator.rows import fingerprint
from viewsmith.losses.nt_xent import unit
from viewsmith.modalities import Modality
from viewsmith.modalities.base import Picture
from viewsmith.reports import Figure, draw_gallery, draw_map, draw_similarities, draw_violins
from viewsmith.reports.maps import sample_of_rows
from viewsmith.views.base import ViewContext, ViewMaker
from viewsmith.views.generated.diffusion import ConditionalDiffusion

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


#: Common augmentations, for comparison with generated views, and their options; used in modalities that have them.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixup": ("mixup", {"mixup_minimum": 0.5}),
    "corruption": ("corruption", {"corruption_rate": 0.2}),
    "neighbors": ("neighbors", {}),
    "crops": ("simclr", {"color_strength": 0.0}),
    "edits": ("dna", {}),
}


class GeneratingModel(Protocol):
    """Interface of a model that generates views."""

    method_: Method
    facts_: Facts
    views: Callable[..., np.ndarray]

    @property
    def modality_(self) -> Modality: ...
    def samples(self, X: Any) -> Rows: ...


def learned_map(transform: Callable[..., np.ndarray], x: np.ndarray, y: np.ndarray | None, split: str) -> Figure:
    """The two-dimensional map that the model learned, of the rows that are in the other maps."""
    index = sample_of_rows(len(x))
    caption = f"The learned map of the same {len(index)} {split} rows"
    return draw_map("map", transform(x[index], output="map"), None if y is None else y[index], caption)


def generated_figures(model: GeneratingModel, dataset: Dataset, x: np.ndarray) -> list[Figure]:
    """Distributions of features of samples and generated views, and the similarity of views to their samples."""
    similarities = _similarities(model, dataset, x)
    if not model.modality_.named_features:
        return [similarities]
    samples, names = np.asarray(x[:COMPARED], dtype=np.float32), model.facts_.feature_names or None
    caption = f"{len(samples)} rows and one generated view of each"
    return [draw_violins("Generated features", samples, model.views(samples, 1)[:, 0], names, caption), similarities]


def _similarities(model: GeneratingModel, dataset: Dataset, x: np.ndarray) -> Figure:
    """Similarity of samples and views in the representation, for generated and common views (DiffAug: figure 5)."""
    samples = model.samples(x[:COMPARED])
    pool, scaled = model.samples(dataset.x_train), samples[:]
    generator = stream(model.facts_.seed, "similarities", device=scaled.device)

    def represented(rows: torch.Tensor) -> torch.Tensor:
        return unit(apply_in_blocks(lambda block: model.method_.represent(block).float(), rows, 64))

    found = {}
    with torch.no_grad():
        h = represented(scaled)
        views = apply_in_blocks(lambda block: model.method_.view(block, generator=generator), scaled, 64)
        found["generated"] = (h * represented(views)).sum(1).cpu().numpy()
        for name, maker in _others(model).items():
            if maker.needs_pool:
                maker.prepare(pool)
            found[name] = (h * represented(maker(scaled, generator=generator))).sum(1).cpu().numpy()
    caption = "Cosine similarity of a sample and its view in the representation"
    return draw_similarities("Similarity of samples and views", found, caption)


def _others(model: GeneratingModel) -> dict[str, ViewMaker]:
    """Common augmentations of the modality, by label."""
    facts, found = model.facts_, {}
    for label, (name, options) in OTHERS.items():
        entry = get("view maker", name, facts.modality)
        if entry is not None:
            shape, modality = facts.row_shape, model.modality_
            context = ViewContext(shape, modality.channels(shape), modality, nn.Identity(), facts.statistics)
            found[label] = entry.build(context, **options)
    return found


def cache_gallery(
    path: str, rows: np.ndarray, quality: Callable[[np.ndarray, np.ndarray], np.ndarray], picture: Picture
) -> Figure | None:
    """Training rows of every noise level beside their views in a view cache; None if it is gone or of other rows."""
    try:
        cache = ViewCacheFolder(path)
        if cache.read_record()["data"]["fingerprint"] != fingerprint(rows):
            return None
        known, sources = cache.read_levels(), cache.sources()
    except InputError:
        return None
    assert known is not None
    fraction, level = known[0], known[1][:, 0]
    each = [(level == value).nonzero()[:, 0] for value in level.unique()]
    index = torch.cat([found[: max(1, 8 // len(each))] for found in each])
    selected = np.stack([source[index.numpy()] for source in sources], axis=1)
    q = quality(rows[index], selected[:, 0])
    names = ("noise level", "fraction", "quality")
    numbers = zip(index.tolist(), level[index].tolist(), fraction[index].tolist(), q.tolist(), strict=True)
    lines = (
        f"row {row}: " + ", ".join(f"{name} {value:.3g}" for name, value in zip(names, found, strict=True))
        for row, *found in numbers
    )
    caption = "Training rows and their views in the view cache; " + "; ".join(lines)
    views = selected.reshape(*selected.shape[:2], *rows.shape[1:])
    return draw_gallery("Generated views", rows[index], views, picture, caption)
