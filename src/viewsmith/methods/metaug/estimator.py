"""MetAug: features augmented by generators that are trained through the encoder's next step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import Bounds, Fraction, Positive, Weight, register
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.data import Dataset
from viewsmith.estimator import model
from viewsmith.estimator.arguments import ADAM, RATE_RANGES, Auto, Count
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.figures import COMPARED, figure_rows, shared_figures
from viewsmith.estimator.options import Part
from viewsmith.estimator.plan import BuildContext, Facts, TrainingData, collected, view_blocks
from viewsmith.frameworks import FeatureContrast, FeatureMemory, Framework, Unified
from viewsmith.frameworks.base import head_width
from viewsmith.losses.oucl import Logits
from viewsmith.methods.metaug.networks import SPACES, ColorSplit, MetaFeatures, Space
from viewsmith.methods.metaug.objective import Features
from viewsmith.methods.metaug.training import MetAugMethod
from viewsmith.modalities.images.channels import check_photographs
from viewsmith.networks.base import ViewEncoders, ViewHeads
from viewsmith.reports import Figure, draw_similarities

# Sections 3.3 and 4.1, appendices A.4 and B; settings that are missing there are those of the authors' program.
_METAUG: dict[str, Any] = {
    "projector_dims": (128,),
    "inner_rate": 1e-3,
    "feature_hidden": (2048, 2048),
    "residual": False,
    "feature_every": 1,
    "augmented_contrast": "joint",
    "feature_weight": 1e-5,
    "margin_weight": 1e-8,
    "form": "squared",
    "beta": 64.0,
    "memory": "bank",
    "negative_draws": "sample",
    "positives": "memory",
    "batch_size": 64,
    **ADAM,
    "epochs": 300,
}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {**_METAUG, "encoders": "per-view"},
    "paper-images": {
        **_METAUG,
        "split": "color",
        "encoder": "split-alexnet",
        "n_components": 2048,
        "view_maker": "crop",
        "flip": 0.5,
        "crop_minimum": 0.2,
    },
}


def feature_similarities(made: Mapping[str, np.ndarray], views: int) -> Figure:
    """Similarity of features of two views, of the same sample and of different samples (MetAug: figure 2)."""
    z, a = (part[:, 0].reshape(len(part), views, -1) for part in (made["features"], made["augmented"]))
    apart = ~np.eye(len(z), dtype=bool)
    found = {}
    for kind, first in (("augmented", a), ("original", z)):
        cosines = first[:, 0] @ z[:, 1].T  # the first view's features with the second's originals
        found[f"same sample, {kind}"] = np.diagonal(cosines)
        if len(z) > 1:
            found[f"others, {kind}"] = cosines[apart]
    caption = f"Features of two views of {len(z)} rows: of the same row, and of different ones"
    return draw_similarities("Similarity of features", found, caption, of="features")


DEFAULT_BETA = 16.0
SPLITS: dict[str, Space] = {"color": "lab", "l-ab": "l-ab", "ydbdr": "ydbdr"}

#: Default number of negatives; the number for a bank is published, a queue has more recent features.
DEFAULT_NEGATIVES = {"queue": 256, "bank": 4096}


def resolved_features(given: Any, options: Any, data: TrainingData) -> Any:
    """MetAug's options without "auto"."""
    _check(given, data)
    n_rows = len(data.rows)
    batch = min(options.batch_size, n_rows)
    if options.memory == "bank":
        size = n_rows
        if options.memory_size not in ("auto", n_rows):
            raise InputError(
                f"memory_size is {options.memory_size}, but a bank has one for each of the {n_rows} rows: leave it out"
            )
    else:
        size = max(DEFAULT_NEGATIVES["queue"], batch) if options.memory_size == "auto" else options.memory_size
        expected = f"at least the {batch} rows of a batch: raise it, or lower batch_size"
        check(size >= batch, "memory_size", size, expected)
    negatives = (
        min(max(DEFAULT_NEGATIVES[options.memory], batch), size) if options.negatives == "auto" else options.negatives
    )
    expected = f"at most the {size} features of each view in the memory: lower it, or raise memory_size"
    check(negatives <= size, "negatives", negatives, expected)
    rate, beta = options.feature_learning_rate, options.beta
    if beta == "auto":
        has_temperature = options.framework == "oucl" and options.temperature is not None
        beta = 2 / options.temperature if has_temperature else DEFAULT_BETA
    return replace(
        options,
        memory_size=size,
        negatives=negatives,
        n_views=options.n_views if options.split == "none" else len(SPACES[SPLITS[options.split]][1]),
        feature_learning_rate=options.learning_rate if rate == "auto" else rate,
        beta=beta,
    )


def _check(options: Any, data: TrainingData) -> None:
    several = has_encoders(options)
    if options.augmented_contrast == "joint" and not options.united:
        raise InputError(
            "augmented_contrast is 'joint', one loss of all features, but with united=False each pair has its own: "
            "set augmented_contrast='mean', or leave united out"
        )
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
        shape = data.row_shape
        if len(shape) != 3 or shape[2] != 3:
            raise InputError(
                f"split is {options.split!r}, which needs images with three color channels, but the data are "
                f"{data.modality.name} of shape {tuple(shape)}: use 'none'"
            )
        if isinstance(options.encoder, nn.Module):
            views, channels = SPACES[SPLITS[options.split]]
            raise InputError(
                f"split is {options.split!r}, whose views {views} have {', '.join(map(str, channels))} channels: name "
                "an encoder instead of a module"
            )
    if options.positives == "memory" and options.memory != "bank":
        raise InputError("positives is 'memory', which needs a memory bank: set memory='bank', or positives='views'")
    if options.representation_noise and options.meta == "second-order":
        raise InputError(
            "representation_noise is random in every pass, so that meta='second-order' has no derivative: set "
            "meta='first-order', or leave it out"
        )


def make_metaug_framework(plan: model.AnyContext) -> Framework:
    """`Unified` with its encoders and heads, or another framework."""
    options, facts = plan.options, plan.facts
    if options.framework != "oucl":
        return model.make_framework(plan)
    if not has_encoders(options):
        encoder = model.make_encoder(plan)
        head = model.make_head(plan, encoder, options.projector_dims)
        return Unified(encoder, head, make_contrast(plan, head_width(head, None)))
    if options.split != "none":
        space, statistics = SPLITS[options.split], facts.statistics
        dtype = statistics.get("dtype", model.modality_in(plan).samples.dtype)
        channels = len(statistics["pixel_mean"])
        check_photographs(f"split={options.split!r} is", channels, dtype, "set split='none'")
        split = ColorSplit(statistics["pixel_mean"], statistics["pixel_scale"], space)
        shape = facts.row_shape[:2]
        encoders = [model.make_encoder(plan, (*shape, channels)) for channels in split.channels]
        network = ViewEncoders(encoders, split)
    else:
        network = ViewEncoders([model.make_encoder(plan) for _ in range(options.n_views)])
    heads = ViewHeads([model.make_head(plan, encoder, options.projector_dims) for encoder in network.networks])
    return Unified(network, heads, make_contrast(plan, head_width(heads, None)))


def has_encoders(options: Any) -> bool:
    """Whether every view has a separate encoder."""
    return bool(options.encoders == "per-view" or options.split != "none")


def make_contrast(plan: model.AnyContext, width: int) -> FeatureContrast:
    """Memory and unified loss for projections with this width."""
    options = plan.options
    memory = FeatureMemory(
        options.n_views,
        options.memory_size,
        width,
        negatives=options.negatives,
        kind=options.memory,
        per_sample=options.negative_draws == "sample",
        momentum=options.memory_momentum,
    )
    logits = Logits(
        form=options.form,
        beta=options.beta,
        margin=options.loss_margin,
        gamma=options.gamma,
        attenuation=options.attenuation,
        detach=options.detach_weights,
    )
    kinds = {"stored_positives": options.positives == "memory", "joint": options.augmented_contrast == "joint"}
    return FeatureContrast(memory, logits, united=options.united, **kinds)


def make_features(plan: model.AnyContext, framework: Framework) -> tuple[MetaFeatures | None, FeatureContrast | None]:
    """The generators, and their memory and loss if the framework has none."""
    options = plan.options
    if options.meta == "none":
        return None, None
    width = head_width(framework.head, None)
    features = MetaFeatures(
        options.n_views, width, hidden=options.feature_hidden, norm=options.norm, residual=options.residual
    )
    return features, None if isinstance(framework, Unified) else make_contrast(plan, width)


def make_feature_optimizer(plan: model.AnyContext) -> Optimizer:
    """The encoder's optimizer with the generators' learning rate, without gradient clipping or parts treated apart."""
    rate = plan.options.feature_learning_rate
    changes = {"learning_rate": rate, "clip": None, "constant_predictor_rate": False, "freeze_last_layer": 0.0}
    return replace(model.make_optimizer(plan), **changes)


AtLeastTwo = Annotated[int, Bounds(ge=2)]


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class UnifiedLoss(Part):
    """The unified contrastive loss (OUCL)."""

    slot = "loss"

    united: bool = True
    """All pairs of views share one loss; otherwise each has its own (the standard contrast)."""
    form: Literal["linear", "circle", "squared"] = "linear"
    """Form of the exponent of the loss; see `viewsmith.losses.Logits`."""
    beta: Positive | Auto = "auto"
    """Sharpness of the loss; 2 / temperature in the linear form. "auto": 2 / temperature if oucl is given a
    temperature, otherwise 16."""
    loss_margin: Weight = 0.0
    """lambda of the linear form."""
    gamma: Weight = 0.4
    """Margin of the circle and squared forms."""
    detach_weights: bool = True
    """No gradient through the weights of the circle form."""
    attenuation: Positive = 1.0
    """phi_dec, the divisor of the weights of the circle form."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Memory(Part):
    """The memory of earlier features."""

    slot = "memory"
    lead = "memory"

    memory: Literal["queue", "bank"] = "queue"
    """Negatives are the most recent features, or drawn from running averages of the features of all training rows."""
    memory_size: Count | Auto = "auto"
    """Features of each view in a queue; "auto": 256, but at least a batch. A bank has one feature for each row."""
    negatives: Count | Auto = "auto"
    """Features of each view drawn in a step; "auto": 256 of a queue, 4,096 of a bank, but at most all."""
    negative_draws: Literal["batch", "sample"] = "batch"
    """One draw of negatives for the batch, or one for each sample, as in the authors' program."""
    memory_momentum: Fraction = 0.5
    """Momentum of the running averages of a bank."""
    positives: Literal["views", "memory"] = "views"
    """The projections of the other views, or earlier projections from a bank without gradient, as in the authors'
    program."""


@register(
    "method",
    "metaug",
    help="learns augmented features in the projection space, through the encoder's next step",
    source="MetAug: Li et al. 2022, MetAug: Contrastive learning via meta feature augmentation",
    search={"*": {**RATE_RANGES, "feature_weight": "0.1..10.0", "margin_weight": "0.1..10.0"}},
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class MetAug(Features, UnifiedLoss, Memory, ViewsmithEstimator):
    """Representations trained with augmented features, which learned generators make from projections.

    Views of a sample are contrasted with a memory of earlier features in one unified loss (OUCL), with and without
    augmented features; the generators are trained to improve the encoder's next step. They can be combined with other
    frameworks: ``MetAug(framework="simclr")``. The paper's "MetAug (only OUCL)" is ``meta="none"``, its "MetAug (only
    MAG)" is ``united=False``; ``MetAug(**MetAug.presets["paper-images"])`` has the published settings,
    ``presets["paper"]`` those for vectors. The defaults are measured (docs, MetAug). ``feature_cosine`` in ``metrics_``
    is the cosine similarity of augmented features and projections.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import MetAug
    >>> X = load_digits().data[:400]
    >>> model = MetAug(epochs=2, random_state=0).fit(X)
    >>> model.transform(X).shape, model.views(X[:3], n_views=4).shape
    ((400, 256), (3, 4, 64))
    """

    name = "metaug"
    frameworks = ("oucl", "*")
    presets = PRESETS
    streams_views = False

    framework: str = "oucl"
    """Objective of the encoder besides the augmented features: oucl, MetAug's unified loss, or another framework."""
    n_views: AtLeastTwo = 2
    """Number of views of each sample, at least 2 (oucl)."""
    encoders: Literal["shared", "per-view"] = "shared"
    """One encoder for all views, or one for each (oucl), whose representations are then concatenated."""
    split: Literal["none", "color", "l-ab", "ydbdr"] = "none"
    """The views are parts of the colors of one augmented image, with one encoder each (oucl). "color": RGB, L and ab
    (section 4.1); "l-ab": L and ab, "ydbdr": Y, Db and Dr, as in the paper's trials with ResNet-50 (table 6)."""

    def _resolve(self, given: "MetAug", options: "MetAug", data: TrainingData) -> tuple["MetAug", dict[str, Any], None]:
        return resolved_features(given, options, data), {}, None

    def _build(self, plan: BuildContext[Facts]) -> Method:
        options, framework = plan.options, make_metaug_framework(plan)
        generators, contrast = make_features(plan, framework)
        return MetAugMethod(
            framework,
            model.make_views(plan, framework.encoder),
            generators,
            contrast,
            options=Features.of(options),
            n_views=options.n_views,
            epochs=options.epochs,
            optimizer=model.make_optimizer(plan),
            feature_optimizer=make_feature_optimizer(plan),
        )

    @property
    def outputs_(self) -> tuple[str, ...]:
        """Values of ``output`` that `transform` accepts; with one encoder per view also ``view-1`` and so on."""
        single = [f"view-{view + 1}" for view in range(self._encoders)] if self._encoders > 1 else []
        return ("representation", "projection", *single)

    @property
    def _encoders(self) -> int:
        return self.options_.n_views if has_encoders(self.options_) else 1

    @property
    def _n_features_out(self) -> int:
        return self._encoders * super()._n_features_out

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Draw augmented features (projections, not samples) of samples, float32 (n, n_views, M d): those of M views,
        of length 1, concatenated."""
        return self.feature_views(X, n_views, random_state=random_state, pool=pool)["augmented"]

    def input_views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Draw views of samples before the encoder, (n, n_views, ...), in the units and dtype of the data."""
        return super().views(X, n_views, random_state=random_state, pool=pool)

    def feature_views(
        self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """Draw augmented features, with the features they were made from.

        Returns
        -------
        dict
            ``features``, normalized projections of M views, and ``augmented``; both float32 (n, n_views, M d).

        Raises
        ------
        InputError
            The model has no generators (``meta="none"``).
        """
        check_is_fitted(self)
        with self._prepared(X, n_views, random_state, pool) as (x, index, seed):

            def pair(block: Tensor, part: slice, generator: torch.Generator) -> Tensor:
                positions = None if index is None else index[part]
                made = self.method_.feature_views(block, index=positions, generator=generator)
                return torch.stack(made).permute(2, 0, 1, 3).flatten(2)  # (rows, 2, M d)

            both = collected(view_blocks(pair, x, n_views, seed), len(x))
        return {"features": both[:, :, 0], "augmented": both[:, :, 1]}

    def described_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """Augmented features as ``views`` (default: 4 of each sample), and ``features`` they were made from."""
        made = self.feature_views(X, n_views or 4, random_state=random_state, pool=pool)
        return {"views": made["augmented"], "features": made["features"]}

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of all methods, with views before the encoder, and the similarity of features."""
        found = shared_figures(self, self.input_views, dataset)  # augmented features cannot be drawn
        if self.options_.meta != "none":
            x = figure_rows(dataset)[0]
            made = self.feature_views(x[:COMPARED], 1, pool=dataset.x_train)
            found.append(feature_similarities(made, self.options_.n_views))
        return found
