"""GenView: generated views with noise that each sample can bear, and pairs weighted by their quality."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Method
from viewsmith.core.random import stream
from viewsmith.core.registry import register
from viewsmith.core.samples import Rows
from viewsmith.data import Dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimators import presets
from viewsmith.estimators.arguments import Auto, Count, Fraction, Positive, Rate
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.diffusion import (
    GeneratorSettings,
    make_generator,
    make_generator_optimizer,
    resolve_generator,
)
from viewsmith.estimators.build.feature_extractor import ENCODER, digest, feature_maps, uses_extractor
from viewsmith.estimators.build.model import domain_in, make_model, make_optimizer
from viewsmith.estimators.build.plan import Plan, Resolved, TrainingData
from viewsmith.estimators.figures import Figures
from viewsmith.estimators.figures.generated import cache_gallery
from viewsmith.estimators.rows import fingerprint
from viewsmith.methods.genview import GenViewMethod
from viewsmith.networks.feature_maps import FeatureMap, FrozenMaps
from viewsmith.training.generation import check_noise
from viewsmith.views.generated.diffusion_views import GeneratedViews
from viewsmith.views.generated.noise_level import MAX_ROWS, AdaptiveStrength, NoiseTolerance, strength_to_level
from viewsmith.views.generated.quality import ViewQuality

GENERATOR = ("generator_epochs", "generator_learning_rate", "predicts", "noise_schedule", "sampler", "sampler_steps")


@dataclass(frozen=True, kw_only=True)
class GenViewResolved(Resolved, GeneratorSettings):
    """With the generator's settings.

    Attributes
    ----------
    feature_shape, feature_weights
        Shape and digest of a feature extractor, where there is one.
    level_references : int
        Rows with which the density of others is compared to find their noise level.
    """

    feature_shape: tuple[int, int, int] | None = None
    feature_weights: str | None = None
    level_references: int = 0


@dataclass(frozen=True)
class GenViewInputs:
    """The feature extractor as it was found, and the views of a view cache, scaled: each list entry one of each row."""

    maps: FrozenMaps | None
    views: list[Rows]


@register(
    "method",
    "genview",
    help="learns a diffusion model with noise adapted to each sample, or takes a view cache; weighs pairs by quality",
    source="GenView: Li et al. 2024, GenView: Enhancing view quality with pretrained generative model for "
    "self-supervised learning (arXiv 2403.12003)",
)
@dataclass(kw_only=True, eq=False, repr=False)
class GenView(ViewsmithEstimator):
    """Representations from pairs of a sample and a generated view of it, each pair weighted by its quality.

    Views come from a view cache that `viewsmith generate` made (by Stable unCLIP, by the library's own diffusion model,
    or from precomputed views). Without one a generator is trained in between: the encoder learns from fixed views for a
    fraction of the epochs, a diffusion model learns to make samples from its representation, and then the encoder
    continues. The noise is adapted to each sample. Any framework and any domain.

    Parameters
    ----------
    view_cache : str or None
        Folder of a view cache of the rows that fit is given.
    alpha : float
        Probability that one of the two sources of a pair is generated; 0: the framework alone.
    quality : bool
        Weigh pairs by their quality: the foregrounds of the two views should agree and their backgrounds differ, seen
        by a copy of the encoder from after `first_fraction` of the epochs. Vectors and DNA have no background: there
        quality is the similarity of the two views.
    quality_features : {"views", "encoder", "cached"}
        What quality is seen in. "views": a frozen copy of the encoder looks at every view, as published. "encoder":
        the maps that the encoder makes of the views anyway as it trains. "cached": the copy looks at every image once,
        and what a view shows is cut from its map, blind to the view's colors. What each costs and how well they agree:
        docs, GenView. Vectors and DNA: always views.
    features : str or torch.nn.Module
        Of images: the network that sees foreground and quality. "encoder": a copy of the encoder, from after
        `first_fraction` of the epochs. Or a network of its own, frozen and never saved: CLIP's of images through
        transformers (extra `unclip`), "clip:FOLDER" or "clip:OWNER/NAME" on the hub, which is fetched; or a module of
        yours from scaled images (B, C, H, W) to maps (B, D, h, w). With it pairs are weighed from the first step on.
    quality_diversity : bool
        Of vectors and DNA: quality is the similarity of the two representations less that of the two views themselves,
        which rewards views that differ and mean the same. Images always have it so, by their background.
    gamma : float
        Of the weights, ``n softmax(gamma q)`` over the batch; 0 makes them 1.
    noise : str
        Without a view cache: adaptive, random or constant:L with L from 0 to 400, as of `viewsmith generate`.
    first_fraction : float
        Fraction of the epochs before the encoder is copied, for quality and, without a view cache, for the generator.
    cached_views : int
        Without a view cache: views of each sample.
    candidates : int
        Without a view cache: views generated for each one that is kept. If there are several, those outside their
        sample's neighborhood are rejected, and the others chosen by agreement in representation and novelty in looks.
    generator_epochs : int or "auto"
        Without a view cache; "auto": a fraction of the encoder's, by domain.
    generator_learning_rate : float or "auto"
    sampler_steps : int or "auto"
    [shared]

    Attributes
    ----------
    metrics_ : list of dict
        Loss, quality and label-free diagnostics through training.
    [attributes]

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import GenView
    >>> images = (load_digits().images * 15).astype("uint8")
    >>> model = GenView(epochs=2, random_state=0).fit(images)
    >>> model.transform(images).shape, model.views(images[:3], n_views=2).shape
    ((1797, 256), (3, 2, 8, 8))
    """

    name = "genview"
    resolved_type = GenViewResolved
    trial_options: ClassVar[dict[str, Any]] = {"alpha": 0.0, "quality": False, "features": ENCODER}
    presets, preset_needs = presets.GENVIEW, presets.GENVIEW_NEEDS

    view_cache: str | None = None
    alpha: Fraction = 1.0
    quality: bool = True
    quality_features: Literal["views", "encoder", "cached"] = "views"
    features: str | nn.Module = ENCODER
    quality_diversity: bool = False
    gamma: Rate = 1.0
    noise: str = "adaptive"
    first_fraction: Fraction = 0.5
    cached_views: Count = 1
    candidates: Count = 1
    generator_epochs: Count | Auto = "auto"
    generator_learning_rate: Positive | Auto = "auto"
    sampler_steps: Count | Auto = "auto"

    @property
    def generates(self) -> bool:
        """Whether `views` are generated: a generator was trained and did not diverge."""
        check_is_fitted(self)
        assert isinstance(self.method_, GenViewMethod)
        return self.method_.generates

    def generated_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None
    ) -> dict[str, np.ndarray] | None:
        """Generated views, each with the noise its sample can bear, and their quality.

        Those of a row do not depend on the rows given with it: what the levels follow from was fitted to the training
        rows, and random streams follow from the row's content.

        Parameters
        ----------
        X : array-like, n samples
        n_views : int, optional
            Of a view cache as many as it has, else 4.
        random_state : int, optional
            Default: the seed of the fit.

        Returns
        -------
        dict or None
            ``views`` (n, n_views, ...) in the units of the data; ``level``, int (n, n_views), from 0 to 400, -1:
            unknown; ``quality`` (n, n_views), q of sample and view, seen by the copy of the encoder (NaN: there is
            none). None: there is no generator, and no view cache of these rows.

        Raises
        ------
        InputError
            The view cache has fewer views.
        """
        check_is_fitted(self)
        x = self.samples(X)
        seed = self.resolved_.seed if random_state is None else random_state
        if self.options_.view_cache is not None:
            cache = ViewCacheFolder(self.options_.view_cache)
            if not cache.exists() or cache.read_record()["data"]["fingerprint"] != fingerprint(self.known_rows(X)):
                return None
            views, level = cache.read_first(n_views)
            views = views.reshape(*views.shape[:2], *self.known_rows(X).shape[1:])
        elif self.generates:
            views, level = self._made(X, x, n_views or 4, seed)
        else:
            return None
        return {"views": views, "level": level, "quality": self._quality_of(x, views)}

    def _made(self, X: Any, x: Rows, n_views: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Views of scaled rows by the generator, and their levels, (n, n_views) both.

        Random streams follow from seed, row and number of the view: those of a row do not depend on the other rows.
        """
        generated: Any = self.method_.generated
        names = [fingerprint(row) for row in self.known_rows(X)]
        strength = generated.strengths(generated.encoder, x, [stream(seed, "level", name) for name in names])
        views = []
        for number in range(n_views):
            streams = [stream(seed, "view", name, number, device=x.device) for name in names]
            views.append(self.scaler_.inverse(generated.generate_each(x, streams, strength)).cpu())
        given = self.domain_.in_given_form(torch.stack(views, dim=1).numpy(), np.shape(X))
        return given, np.repeat(strength_to_level(strength).numpy()[:, None], n_views, axis=1)

    def _quality_of(self, x: Rows, views: np.ndarray) -> np.ndarray:
        """q of scaled rows and their views, (n, K, ...) in the units of the data; float32 (n, K)."""
        seen: Any = self.method_.quality
        q = np.full(views.shape[:2], np.nan, dtype=np.float32)
        if seen is None or not seen.ready:
            return q
        for number in range(views.shape[1]):
            shown = self.samples(views[:, number])
            blocks = (slice(start, start + 256) for start in range(0, len(x), 256))
            q[:, number] = torch.cat([seen(x[block], shown[block]).cpu() for block in blocks]).numpy()
        return q

    def _resolve(
        self, options: GenView, shared: dict[str, Any], data: TrainingData
    ) -> tuple[GenViewResolved, GenViewInputs]:
        check_noise(options.noise)
        _check_fraction(options, shared["epochs"], uses_extractor(options.features, data.domain.name))
        found, maps = resolve_generator(options, data.domain, shared["epochs"], GENERATOR), None
        if uses_extractor(options.features, data.domain.name):
            maps = feature_maps(options.features, *_scaling(data.stats), x=data.x[:1])
            weights = digest(maps.network().state_dict())
            found |= {"feature_shape": maps.shape, "feature_weights": weights}
        views = [] if options.view_cache is None else _cached_views(options.view_cache, data)
        references = 0 if data.domain.picture == "pixels" else min(len(data.rows), MAX_ROWS)
        return GenViewResolved(**shared, **found, level_references=references), GenViewInputs(maps, views)

    def _build(self, plan: Plan[GenView, GenViewResolved]) -> Method:
        options, resolved, inputs = plan.options, plan.resolved, plan.inputs
        framework, views = make_model(plan)
        maps = _extractor(plan)
        generated = None
        if options.view_cache is None and options.alpha > 0:
            generated = _generated(plan, framework.encoder, maps)
        quality = None
        if options.quality and options.gamma:
            blank = domain_in(plan).blank(resolved.row_shape)
            quality = ViewQuality(
                framework.encoder,
                blank,
                source=options.quality_features,
                maps=maps,
                diversity=options.quality_diversity,
            )
        method = GenViewMethod(
            framework,
            views,
            generated,
            quality,
            alpha=options.alpha,
            gamma=options.gamma,
            on_top=domain_in(plan).on_top,
            first_fraction=options.first_fraction,
            epochs=resolved.epochs,
            generator_epochs=resolved.generator_epochs,
            optimizer=make_optimizer(plan),
            generator_optimizer=make_generator_optimizer(plan, resolved),
        )
        method.precomputed = [] if inputs is None else inputs.views
        return method

    def described_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """Generated views of training rows, with ``samples``, ``level`` and ``quality``; else fixed ``views``."""
        generated = None if pool is not None else self.generated_views(X, n_views, random_state=random_state)
        if generated is not None:
            return {"samples": np.asarray(X)} | generated
        if pool is None and self.options_.view_cache is not None:
            line = f"no view cache of these rows at {self.options_.view_cache}: fixed views are made"
            warnings.warn(line, UserWarning, stacklevel=3)
        return super().described_views(X, n_views, random_state=random_state, pool=pool)

    def figures(self, dataset: Dataset) -> Figures:
        """Those of all methods, and views of the view cache by noise level."""
        found = super().figures(dataset)
        if self.options_.view_cache is not None:
            transductive = bool(self.context_.get("data", {}).get("transductive"))
            gallery = cache_gallery(
                self.options_.view_cache, dataset.fit_rows(transductive), self._quality_of_one, self.domain_.picture
            )
            found.galleries += [] if gallery is None else [gallery]
        return found

    def _quality_of_one(self, rows: np.ndarray, views: np.ndarray) -> np.ndarray:
        """q of rows and one view of each, (n,); NaN where nothing tells it."""
        return self._quality_of(self.samples(rows), views[:, None])[:, 0]


def _check_fraction(options: GenView, epochs: int, extractor: bool) -> None:
    """Refuse a first part of the training that leaves no epoch for what is prepared in it."""
    generator = options.view_cache is None and options.alpha > 0
    copied = options.quality and options.gamma > 0 and not extractor
    if (generator or copied) and round(options.first_fraction * epochs) >= epochs:
        wasted = " and ".join(["generated views"] * generator + ["weights"] * copied)
        unused = ", ".join(["alpha=0"] * generator + ["quality=False"] * copied)
        raise InputError(
            f"first_fraction is {options.first_fraction}, which leaves none of the {epochs} epochs for {wasted}: "
            f"give a smaller one, or {unused}"
        )


def _cached_views(path: str, data: TrainingData) -> list[Rows]:
    """The views of a view cache of these rows, scaled.

    Raises
    ------
    InputError
        There is none, it is not complete, or of other rows.
    """
    cache = ViewCacheFolder(path)
    record = cache.read_record()
    if record["rows"] != len(data.rows):
        raise InputError(
            f"the view cache {path} has views of {record['rows']} rows, and {len(data.rows)} are given: fit the rows "
            "it was made of, or generate a view cache of these"
        )
    if record["data"]["fingerprint"] != fingerprint(data.rows):
        raise InputError(
            f"the view cache {path} is of other rows, or of these in another order: fit the rows it was made of, or "
            "generate a view cache of these"
        )
    views = cache.read_views()
    with torch.no_grad():
        each = (views[:, number].contiguous() for number in range(views.shape[1]))
        return [data.domain.scaled(one, data.layer) for one in each]


def _extractor(plan: Plan[GenView, GenViewResolved]) -> FrozenMaps | None:
    """The network that sees foreground and quality; in a model that is loaded it is found when somebody asks."""
    options, resolved = plan.options, plan.resolved
    if not uses_extractor(options.features, resolved.domain):
        return None
    if plan.inputs is not None:
        found: FrozenMaps | None = plan.inputs.maps
        return found
    return feature_maps(
        options.features, *_scaling(resolved.stats), shape=resolved.feature_shape, weights=resolved.feature_weights
    )


def _scaling(stats: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """How images are scaled: what is taken from pixels, and what they are divided by, (C,) both."""
    return torch.tensor(stats["pixel_mean"]), torch.tensor(stats["pixel_scale"])


def _generated(plan: Plan[GenView, GenViewResolved], encoder: nn.Module, maps: FrozenMaps | None) -> GeneratedViews:
    """The domain's diffusion model, with a strength adapted to each row."""
    options, resolved, n = plan.options, plan.resolved, plan.resolved.n_components
    # The strength is of samples whose level nobody asked for.
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


def _tolerance(plan: Plan[GenView, GenViewResolved], encoder: nn.Module, maps: FrozenMaps | None) -> NoiseTolerance:
    """The noise tolerance that adaptive noise is fitted to, with room for what is saved of it."""
    resolved = plan.resolved
    if plan.options.noise != "adaptive":
        return NoiseTolerance()
    if domain_in(plan).picture == "pixels":
        blank = domain_in(plan).blank(resolved.row_shape)
        return NoiseTolerance(maps, width=(maps or FeatureMap(encoder, blank)).shape[2])
    return NoiseTolerance(references=(resolved.level_references, resolved.n_components))
