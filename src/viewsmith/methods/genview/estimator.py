"""GenView: generated views with noise adapted to each sample, and pairs weighted by their quality."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from viewsmith.core.errors import InputError, warn
from viewsmith.core.registry import Fraction, Weight, register
from viewsmith.core.samples import Rows
from viewsmith.core.schedule import Method
from viewsmith.core.tensors import stream
from viewsmith.data import Dataset
from viewsmith.data.options import ForegroundMap, check_noise
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimator import arguments, model
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.figures import cache_gallery
from viewsmith.estimator.options import Part
from viewsmith.estimator.plan import BuildContext, TrainingData, extent, fingerprint
from viewsmith.methods.genview import parts
from viewsmith.methods.genview.parts import ViewQuality
from viewsmith.methods.genview.training import GenViewMethod
from viewsmith.modalities.images.channels import check_photographs
from viewsmith.reports import Figure
from viewsmith.views.generated.noise_level import MAX_ROWS, strength_to_level

PRESETS: dict[str, dict[str, Any]] = {
    # Appendix 0.A, CIFAR-10 (table 5): MoCo v2 on views of Stable unCLIP, with quality by CLIP; see docs/genview.md.
    "paper-images": {
        "framework": "moco",
        "view_maker": "moco",
        "flip": 0.5,
        "encoder": "resnet18",
        "projector_dims": (512, 128),
        "temperature": 0.2,
        "momentum": 0.99,
        "queue_size": 4096,
        "crop_minimum": 0.2,
        "alpha": 1.0,
        "noise": "adaptive",
        "quality": True,
        "quality_features": "views",
        "features": "clip:laion/CLIP-convnext_base_w-laion2B-s13B-b82K-augreg",
        "gamma": 1.0,
        "batch_size": 512,
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "warmup": 0.02,
        "epochs": 500,
    }
}

#: Options that a preset has to be given, and what for.
PRESET_NEEDS: dict[str, dict[str, str]] = {
    "paper-images": {
        "view_cache": "views of Stable unCLIP: make them by `viewsmith generate DATA --generator "
        "unclip:stabilityai/stable-diffusion-2-1-unclip --out CACHE` (or unclip:FOLDER with its weights) and add "
        "--view-cache CACHE"
    }
}


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Source(Part, arguments.GeneratorArguments):
    """The generator of views, and the noise that it starts from."""

    slot = "generator"

    view_cache: str | None = None
    """Folder of a view cache of the training rows; None: train a generator."""
    alpha: Fraction = 1.0
    """Probability that one of the two sources of a pair is a generated view; 0: no generated views."""
    noise: str = "adaptive"
    """Without a view cache: adaptive, random or constant:L with L from 0 to 400, as in `viewsmith generate`."""
    foreground: ForegroundMap = "projection"
    """Without a view cache, adaptive noise of images: patches are foreground by their projection on the first component
    as it is, as in the authors' program, or by "min-max": scaled to 0 to 1 for each image, as in equation 7."""
    first_fraction: Fraction = 0.5
    """Fraction of the epochs before the encoder is copied for quality and, without a view cache, for the generator."""
    cached_views: arguments.Count = 1
    """Without a view cache: number of generated views of each sample."""
    candidates: arguments.Count = 1
    """Without a view cache: number of views generated for each one that is kept. If there are several, those outside
    the neighborhood of their sample are rejected, and the others are chosen by agreement in representation and novelty
    in input space."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Quality(Part):
    """The weights of pairs by the quality of their views."""

    slot = "quality"
    lead = "quality"

    quality: bool = True
    """Weight pairs by their quality: it is high if the foregrounds of the two views agree and their backgrounds differ,
    in the features of a copy of the encoder that is made after `first_fraction` of the epochs. Vectors and DNA have no
    background: their quality is the similarity of the two views."""
    quality_features: Literal["views", "encoder", "cached"] = "views"
    """Features from which quality is computed. "views": a frozen copy of the encoder processes every view, as
    published. "encoder": the feature maps of the views that the encoder computes in training. "cached": the copy
    processes every image once, and a view gets the part of the feature map that it covers, whatever its colors. Costs
    and agreement: docs, GenView. Vectors and DNA: always views."""
    features: str | nn.Module = parts.ENCODER
    """For images, the network whose features give foreground and quality. "encoder": a copy of the encoder, made after
    `first_fraction` of the epochs. Or a separate network, which is frozen and not saved: "clip:FOLDER" or, to download
    it from the hub, "clip:OWNER/NAME", the image network of CLIP (extra `unclip`); or a custom module from scaled
    images (B, C, H, W) to feature maps (B, D, h, w). With it, pairs are weighted from the first step."""
    quality_diversity: bool = False
    """For vectors and DNA, quality is the similarity of the two representations minus that of the two views, which
    rewards views that differ and mean the same. For images the background has this effect in any case."""
    gamma: Weight = 1.0
    """Sharpness of the weights, ``n softmax(gamma q)`` over the batch; 0: all weights are 1."""


@register(
    "method",
    "genview",
    help="learns a diffusion model with noise adapted to each sample, or reads a view cache; weights pairs by quality",
    source="GenView: Li et al. 2024, GenView: Enhancing view quality with pretrained generative model for "
    "self-supervised learning (arXiv 2403.12003)",
    generates=True,
    search=arguments.RECIPE_RANGES,
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class GenView(Source, Quality, ViewsmithEstimator):
    """Representations from pairs of a sample and a generated view of it, each pair weighted by its quality.

    Views come from a view cache that `viewsmith generate` made (with Stable unCLIP, with the library's diffusion model,
    or from precomputed views). Without a view cache, a generator is trained: first, the encoder learns from fixed views
    for a fraction of the epochs; then a diffusion model learns to generate samples from its representation; then the
    training of the encoder continues. The noise is adapted to each sample. Every framework and modality is supported.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import GenView
    >>> images = (load_digits().images[:400] * 15).astype("uint8")
    >>> model = GenView(epochs=2, random_state=0).fit(images)
    >>> model.transform(images).shape, model.views(images[:3], n_views=2).shape
    ((400, 256), (3, 2, 8, 8))
    """

    name = "genview"
    facts_type = parts.GenViewFacts
    trial_options: ClassVar[dict[str, Any]] = {"alpha": 0.0, "quality": False, "features": parts.ENCODER}
    presets, preset_needs = PRESETS, PRESET_NEEDS
    streams_views = False

    @property
    def generates(self) -> bool:
        """Whether `views` are generated: a generator was trained and did not diverge."""
        check_is_fitted(self)
        return self.method_.generates

    def generated_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None
    ) -> dict[str, np.ndarray] | None:
        """``views`` (n, n_views, ...) in units of the data, ``level`` (noise, 0 to 400; -1: unknown) and ``quality``.

        They do not depend on the other rows in `X`: levels come from statistics of the training rows, random streams
        from the values of a row. None if there is neither a generator nor a view cache of these rows.
        """
        check_is_fitted(self)
        x = self.samples(X)
        seed = self.facts_.seed if random_state is None else random_state
        if self.options_.view_cache is not None:
            cache = ViewCacheFolder(self.options_.view_cache)
            if not cache.exists() or cache.read_record()["data"]["fingerprint"] != fingerprint(self.checked_rows(X)):
                return None
            sources = cache.sources(n_views)
            views = np.stack([source[:] for source in sources], axis=1)
            views = views.reshape(*views.shape[:2], *self.checked_rows(X).shape[1:])
            level = cache.read("level")[:, : len(sources)].numpy()
        elif self.generates:
            views, level = self._generate(X, x, n_views or 4, seed)
        else:
            return None
        return {"views": views, "level": level, "quality": self._quality_of(x, views)}

    def _generate(self, X: Any, x: Rows, n_views: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Views (n, n_views, ...) of scaled rows and their levels (n, n_views), by seed, row and view number."""
        generated = self.method_.generated
        assert generated is not None and generated.strengths is not None
        names = [fingerprint(row) for row in self.checked_rows(X)]
        strength = generated.strengths(generated.encoder, x, [stream(seed, "level", name) for name in names])
        views = []
        for number in range(n_views):
            streams = [stream(seed, "view", name, number, device=x.device) for name in names]
            views.append(self.scaler_.inverse(generated.generate_each(x, streams, strength)).cpu())
        given = self.modality_.in_input_format(torch.stack(views, dim=1).numpy(), extent(X, self.facts_))
        return given, np.repeat(strength_to_level(strength).numpy()[:, None], n_views, axis=1)

    def _quality_of(self, x: Rows, views: np.ndarray) -> np.ndarray:
        """Quality of scaled rows and their views (n, K, ...), in the units of the data; float32 (n, K)."""
        quality = self.method_.quality
        q = np.full(views.shape[:2], np.nan, dtype=np.float32)
        if quality is None or not quality.ready:
            return q
        for number in range(views.shape[1]):
            scaled = self.samples(views[:, number])
            blocks = (slice(start, start + 256) for start in range(0, len(x), 256))
            q[:, number] = torch.cat([quality(x[block], scaled[block]).cpu() for block in blocks]).numpy()
        return q

    def _resolve(
        self, given: "GenView", options: "GenView", data: TrainingData
    ) -> tuple["GenView", dict[str, Any], parts.GenViewInputs]:
        epochs: Any = options.epochs
        check_noise(options.noise)
        parts.check_foreground(options.foreground, data.modality.name, options.noise)
        _check_fraction(options, epochs, parts.uses_extractor(options.features, data.modality.name))
        found, maps = model.resolve_generator(options, data.modality, epochs, model.SETTINGS), None
        if parts.uses_extractor(options.features, data.modality.name):
            if isinstance(options.features, str):
                channels, dtype = data.modality.channels(data.row_shape), data.rows.dtype
                check_photographs("features of CLIP are", channels, dtype, "leave features out")
            maps = parts.feature_maps(options.features, *parts.scaling_of(data.statistics), x=data.x[:1])
            weights = parts.digest(maps.network().state_dict())
            found |= {"feature_shape": maps.shape, "feature_weights": weights}
        views = [] if options.view_cache is None else _cached_views(options.view_cache, data)
        references = 0 if data.modality.is_image else min(len(data.rows), MAX_ROWS)
        options = dataclasses.replace(options, **{n: found.pop(n) for n in (*found,) if n in vars(options)})
        return options, found | {"level_references": references}, parts.GenViewInputs(maps, views)

    def _build(self, plan: BuildContext[parts.GenViewFacts]) -> Method:
        options, inputs = plan.options, plan.inputs
        framework, views = model.make_model(plan)
        maps = parts.make_extractor(plan)
        generated = None
        if options.view_cache is None and options.alpha > 0:
            generated = parts.make_generated(plan, framework.encoder, maps)
        quality = None
        if options.quality and options.gamma:
            blank = model.modality_in(plan).blank(plan.facts.row_shape)
            of_features: dict[str, Any] = {"source": options.quality_features, "diversity": options.quality_diversity}
            quality = ViewQuality(framework.encoder, blank, maps=maps, **of_features)
        return GenViewMethod(
            framework,
            views,
            generated,
            quality,
            on_top=model.modality_in(plan).on_top,
            optimizer=model.make_optimizer(plan),
            generator_optimizer=model.make_generator_optimizer(plan),
            precomputed=[] if inputs is None else inputs.views,
            alpha=options.alpha,
            gamma=options.gamma,
            first_fraction=options.first_fraction,
            epochs=options.epochs,
            generator_epochs=options.generator_epochs,
        )

    def described_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """Generated ``views`` with ``samples``, ``level`` and ``quality``, or fixed ``views`` if there are none."""
        generated = None if pool is not None else self.generated_views(X, n_views, random_state=random_state)
        if generated is not None:
            return {"samples": self.checked_rows(X)} | generated
        if pool is None and self.options_.view_cache is not None:
            line = f"no view cache of these rows at {self.options_.view_cache}: using fixed views"
            warn(line)
        return super().described_views(X, n_views, random_state=random_state, pool=pool)

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of all methods, and views of the view cache by noise level."""
        found = super().figures(dataset)
        if self.options_.view_cache is not None:
            transductive = bool(self.context_.get("data", {}).get("transductive"))
            gallery = cache_gallery(
                self.options_.view_cache,
                dataset.fit_rows(transductive),
                lambda rows, views: self._quality_of(self.samples(rows), views[:, None])[:, 0],
                self.modality_.picture,
                self.modality_.drawn_along(self.facts_.statistics),
            )
            found += [] if gallery is None else [gallery]
        return found


def _check_fraction(options: GenView, epochs: int, extractor: bool) -> None:
    """Raise InputError if the first phase leaves no epochs for the generated views or weights that it prepares."""
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
    """The views of a view cache of these rows, which are read and scaled batch by batch."""
    cache = ViewCacheFolder(path)
    record = cache.read_record()
    if record["rows"] != len(data.rows):
        raise InputError(
            f"the view cache {path} has views of {record['rows']} rows, but X has {len(data.rows)}: fit the rows it "
            "was made from, or generate a view cache of these rows"
        )
    if record["data"]["fingerprint"] != fingerprint(data.rows):
        raise InputError(
            f"the view cache {path} is of other rows, or of these rows in another order: fit the rows it was made "
            "from, or generate a view cache of these rows"
        )
    return [data.modality.scaled(source, data.layer) for source in cache.sources()]
