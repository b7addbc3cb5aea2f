"""Contrastive learning with fixed views."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from torch import nn

from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import Positive, register
from viewsmith.core.rows import RowSource, too_large_for_memory
from viewsmith.core.schedule import Method
from viewsmith.estimator import arguments
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.model import make_model, make_optimizer
from viewsmith.estimator.options import with_role
from viewsmith.estimator.plan import BuildContext, Facts, TrainingData, text_of
from viewsmith.estimator.resolve import default_epochs, default_skip
from viewsmith.methods.contrastive.training import ContrastiveMethod
from viewsmith.methods.linear_contrast.estimator import default_method, default_settings
from viewsmith.modalities import Modality
from viewsmith.networks.scaling import are_sparse_and_equal, variance_kept

PRESETS: dict[str, dict[str, Any]] = {
    # SimCLR as the noise papers run it on vectors (PiNDA, section 4.2 and appendix B).
    "paper": {
        "view_maker": "noise",
        "kernel": "cosine",
        "hidden": (1024, 1024),
        "norm": "none",
        "projector_dims": (256, 128),
        "epochs": 100,
        **arguments.ADAM,
    },
    # SimCLR as the same paper runs it on images (section 4.2, table 3, appendix B).
    "paper-images": {
        "view_maker": "simclr",
        "flip": 0.5,
        "kernel": "cosine",
        "temperature": 0.1,
        "encoder": "resnet18",
        "projector_dims": (256, 128),
        "batch_size": 256,
        "epochs": 1000,
        **arguments.ADAM,
    },
}


# The short training of the neighbor recipe: the most rows it is for, its steps and learning rate (for few rows, and for
# others), and the head's rate as a multiple of that. A head that learns slowly leaves it to the representation to form
# clusters (benchmarks/results/short_training.jsonl).
SHORT_ROWS, FEW_ROWS = 10_000, 1000
SHORTEST, SHORT = (500, 6e-3), (1000, 4.5e-3)
HEAD_RATE = 0.3

# If the axes that the encoder of wide vectors reads hold less of the variance, the representation has further ones.
KEPT = 0.5
# So it has on few rows of more features than these, of which training loses what a linear probe uses: 50 axes hold much
# of the variance of few rows.
MANY_FEATURES = 100
# Coordinates of rows that all have one length, such as tf-idf, where cosines tell most.
UNIT_ROWS = {"appended_length": 24.0, "appended_unit": True}

# The batch of the shorter one and its rate, unless a batch size is given.
FEW_BATCH_SIZE, FEW_RATE = 128, 4.5e-3


@dataclass(frozen=True, kw_only=True)
class ContrastiveFacts(Facts):
    """Facts, with the settings of the closed form, if it has columns."""

    closed_settings: dict[str, Any] = field(default_factory=dict)


@register(
    "method",
    "contrastive",
    help="fixed views: by default nearest neighbors (vectors), SimCLR's crops and colors (images) or edits (dna)",
    source="SimCLR: Chen et al. 2020, A simple framework for contrastive learning of visual representations",
    search=arguments.RECIPE_RANGES,
    compared=("vectors", "images", "dna", "proteins", "series", "spectra"),
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Contrastive(ViewsmithEstimator):
    """Contrastive representations of vectors, images and DNA with fixed views.

    The default views are, for vectors, nearest neighbors: a sample and one of its nearest rows are positives, under
    the heavy-tailed Cauchy kernel; for images, SimCLR's crops and color jitter; for DNA, a recipe of edits. The
    representation is the output of the encoder, before the projection head. With the default views and encoder, further
    columns are not learned. If there are more than 200 features, in memory, and the 50 principal axes that the encoder
    reads hold less than half of their variance, or up to 1,000 rows of more than 100 features: coordinates on up to 256
    axes, which have one length for all rows if the rows are sparse and have one length (tf-idf). Images (`cnn`): 64 of
    pixels. DNA (`cnn`): 96 of bases and 4-mers. ``encoder_options={"appended_pca": 0}`` leaves them out.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import Contrastive
    >>> X = load_digits().data
    >>> Contrastive(epochs=2, random_state=0).fit_transform(X).shape
    (1797, 256)
    """

    epochs: arguments.Count | arguments.Auto = "auto"
    """"auto": on up to 10,000 vectors with the default views, framework, encoder, projection and optimizer as many as
    1,000 training steps take, on up to 1,000 as many as 500 take; otherwise 2,000 steps (images and DNA: 1,500; more on
    a GPU)."""
    learning_rate: Positive | arguments.Auto = "auto"
    """"auto": 0.0045 in those 1,000 or 500 steps (0.006 in those 500 if `batch_size` is given), otherwise 0.003; with
    lars 0.3 for every 256 rows of a batch."""
    batch_size: arguments.BatchSize | arguments.Auto = "auto"
    """Rows in a training step, at least 2: the other rows of a batch are the negatives. "auto": 128 in those 500 steps,
    otherwise 256; of images above 128 x 128 pixels as many as take the memory of 256 of that size, at least 32."""
    head_learning_rate: Positive | arguments.Auto = "auto"
    """Learning rate of the projection head of simclr. "auto": in those 1,000 or 500 steps 0.3 times that of the
    encoder, otherwise the same."""

    closed_form: bool = False
    """Solve the contrast in closed form before the training, and append the columns of `LinearContrast`, with its
    defaults, at three times the squared length of the trained ones. They take the place of columns of the input that
    are appended by default."""

    name = "contrastive"
    presets = PRESETS
    facts_type: ClassVar[type[Facts]] = ContrastiveFacts

    def _adapt(
        self, options: "Contrastive", modality: Modality, rows: np.ndarray | RowSource, signal: Mapping[str, Any]
    ) -> "Contrastive":
        """Choose the batch size, and the learning rate that goes with it."""
        adapted: Contrastive = super()._adapt(options, modality, rows, signal)
        if options.batch_size != "auto" or len(rows) > FEW_ROWS or not _is_short(adapted, modality, len(rows)):
            return adapted
        rate = FEW_RATE if adapted.learning_rate == "auto" else adapted.learning_rate
        return replace(adapted, batch_size=FEW_BATCH_SIZE, learning_rate=rate)

    def _skip(self, given: Any, options: Any, data: TrainingData) -> dict[str, Any]:
        # Measured to keep what crops, edits and principal axes of wide vectors lose (results/do_no_harm.jsonl).
        skip: dict[str, Any] = default_skip(given, options, data, with_default_views=True)
        if not skip or options.closed_form:
            return {}
        if not data.modality.named_features:
            return skip
        axes, d = options.input_components, data.row_shape[0]
        if given.input_components != "auto" or too_large_for_memory(data.rows):
            return {}
        table, few = "columns" in data.statistics, len(data.rows) <= FEW_ROWS and d > MANY_FEATURES
        if not few and (not axes or variance_kept(data.x, int(axes), weighted=not table) >= KEPT):
            return {}
        of_unit = not table and are_sparse_and_equal(data.rows)
        return {"appended_pca": min(skip["appended_pca"], d)} | (UNIT_ROWS if of_unit else {})

    def _resolve(self, given: Any, options: Any, data: TrainingData) -> tuple[Any, dict[str, Any], None]:
        head, rate, heads = options.head_learning_rate, options.learning_rate, with_role("head")
        if head != "auto" and text_of(options.framework) not in heads:
            raise InputError(
                f"head_learning_rate is {head}, but the framework {text_of(options.framework)!r} has no head of its "
                f"own rate: take {join_names(heads)}, or leave it out"
            )
        if short := _is_short(given, data.modality, len(data.x)):
            steps, fast = SHORTEST if len(data.x) <= FEW_ROWS else SHORT
            rate = fast if given.learning_rate == "auto" else rate
            epochs = default_epochs(len(data.x), options.batch_size, steps)
            options = replace(options, epochs=epochs, learning_rate=rate)
        if head == "auto":
            options = replace(options, head_learning_rate=HEAD_RATE * rate if short else rate)
        return options, {"closed_settings": default_settings(data) if options.closed_form else {}}, None

    def _build(self, plan: BuildContext[ContrastiveFacts]) -> Method:
        options, (framework, views) = plan.options, make_model(plan)
        optimizer = make_optimizer(plan, head_lr_scale=options.head_learning_rate / options.learning_rate)
        closed = default_method(plan.facts.closed_settings, plan) if options.closed_form else None
        return ContrastiveMethod(framework, views, closed, epochs=options.epochs, optimizer=optimizer)

    @property
    def _n_features_out(self) -> int:
        closed = getattr(self.method_, "closed", None)
        return super()._n_features_out + (0 if closed is None else closed.framework.encoder.n_components)


def _is_short(options: Contrastive, modality: Modality, n_rows: int) -> bool:
    """Whether a training is the neighbor recipe on few vectors: its short form was measured with no other."""
    views = modality.default_views if options.view_maker == "auto" else options.view_maker
    encoder = modality.default_encoder if options.encoder == "auto" else options.encoder
    parts = (views, options.framework, encoder)
    kernel = (options.framework_options or {}).get("kernel", options.kernel)
    return (
        options.epochs == "auto"
        and n_rows <= SHORT_ROWS
        and modality.named_features
        and options.projector_dims == "auto"  # a chosen width means that the projection is used (a map)
        and not any(isinstance(part, nn.Module) for part in parts)
        and parts == ("neighbors", "simclr", "mlp")
        and kernel in ("auto", "cauchy")
        and (options.norm, options.optimizer, options.schedule) == ("batch", "adamw", "cosine")
    )
