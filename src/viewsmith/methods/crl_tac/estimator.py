"""CRL-TAC: a trainable augmentation channel."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, register
from viewsmith.core.rows import RowSource
from viewsmith.core.samples import apply_in_blocks
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.data import Dataset
from viewsmith.estimator.arguments import ADAM, Auto, Count, Positive, Rate, Widths
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.figures import shared_figures
from viewsmith.estimator.model import make_encoder, make_head, make_optimizer, modality_in
from viewsmith.estimator.options import Part
from viewsmith.estimator.plan import BuildContext, TrainingData, probe
from viewsmith.estimator.resolve import default_epochs
from viewsmith.methods.crl_tac import building, families
from viewsmith.methods.crl_tac.channel import AugmentationChannel, ChosenViews, Predicate
from viewsmith.methods.crl_tac.figures import channel_figures, cut, locate
from viewsmith.methods.crl_tac.training import CRLTACMethod, Inference
from viewsmith.methods.crl_tac.transforms import Detrend
from viewsmith.modalities import Modality
from viewsmith.networks.features import name_of
from viewsmith.reports import Figure

PRESETS: dict[str, dict[str, Any]] = {
    # Sections 3, 5.2 and 5.3, which do not give optimizer, learning rates, batch size and epochs.
    "paper-images": {
        "encoder": "crl-cnn",
        "scaling": "none",
        "bias": True,
        "projector_dims": (200, 50),
        "beta": 0.5,
        "channel_beta": 0.5,
        "draws": 8,
        "encoder_step": "sampled",
        "channel_step": "sampled",
        "importance_weights": "plain",
        "start": "none",
        "start_steps": 0,
        "recurrence_weight": 0.0,
        "objective": "bound",
        "entropy_weight": 0.0025,
        "effective_target": None,
        "batch_size": 256,
        "channel_learning_rate": 1e-3,
        **ADAM,
        "epochs": 50,
    }
}

# Searched by `viewsmith tune`, see `default_space`.
_CHANNEL = {"learning_rate": "0.0003..0.005", "beta": "0.5..10.0"}  # a large beta fails at a larger rate
SEARCH: dict[str, dict[str, str]] = {
    "vectors": {**_CHANNEL, "mask_fraction": "0.2..0.8"},
    "dna": {**_CHANNEL, "window_fraction": "0.2..0.8"},
    "proteins": {**_CHANNEL, "window_fraction": "0.2..0.8"},
    "*": _CHANNEL,
}

Draws = Annotated[int, Bounds(ge=2)]
Steps = Annotated[int, Bounds(ge=0)]
Some = Annotated[float, Bounds(gt=0, lt=1)]
Effective = Annotated[float, Bounds(ge=1)]
STEPS = 2800  # of "auto" epochs for the encoder "crl-cnn" on a CPU: ten minutes on two cores (docs, CRL-TAC)
Scales = tuple[Annotated[float, Bounds(gt=0, le=4)], ...]


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Transforms(Part):
    """The transformations between which the channel chooses."""

    slot = "family"
    lead = "family"

    family: families.FamilyOption = "auto"
    """The transformations. "auto": crops, feature subsets or windows, with the options below. In Python also custom
    ones: at least two functions from scaled samples (B, ...) to a view of each sample, all views of one shape; or a
    `viewsmith.views.Family`. It is copied; `viewsmith.load` needs it again."""
    crop_size: Count | Auto | None = None
    """Side of the crops of images in pixels: about the size of the objects. None: 20, as published; 5/7 of a shorter
    side below 24 pixels. "auto": a quarter, a third or half of it, by three short trainings without labels."""
    crop_stride: Count | Auto = "auto"
    """Distance between the corners of crops in pixels. "auto": 4, as published; 1/8 of a shorter side below 24 pixels.
    Crops of at least 20 pixels at a multiple of 4 have the default encoder "crl-cnn": one pass encodes all."""
    crop_scales: Scales = (1.0,)
    """Scales of the images that crops are taken from: 0.5 halves height and width."""
    crop_flips: bool = False
    """Also take crops of the mirrored images."""
    masks: Draws = 64
    """Number of feature subsets (vectors)."""
    mask_fraction: Some = 0.5
    """Fraction of the features in each subset, more than 0 and less than 1."""
    windows: Draws = 16
    """Number of windows (sequences)."""
    window_fraction: Some = 0.5
    """Length of each window, as a fraction of the sequence, more than 0 and less than 1."""
    detrend: Detrend = "none"
    """Recordings: subtract its mean, or a line, from each channel of a window, so that level or drift is not used."""
    nonempty: str | Predicate | None = "auto"
    """Which views are not empty: the metrics then include their probability (`nonempty_mass`). "auto": those not all
    black, for images without scaling (mostly black ones). In Python also a function from scaled views to bool (n,)."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Channel(Part):
    """The augmentation channel and its training."""

    slot = "channel"
    lead = "channel"

    channel: Literal["learned", "uniform"] = "learned"
    """uniform: P(T|x) stays uniform (SimCLR with such views, for comparison)."""
    channel_beta: Positive = 0.5
    """Concentration of P(Z|T(x)), the inverse of a temperature, in the encoder step and in the channel step. Published:
    0.5 in both; a larger one in the encoder step gives better projections (docs, CRL-TAC)."""
    channel_step: Literal["exact", "sampled"] = "exact"
    """Whether a channel step uses all transformations or draws `draws` of them."""
    channel_rows: Count = 32
    """Number of samples of a batch that an exact channel step uses."""
    channel_learning_rate: Positive = 3e-3
    """Learning rate of the channel. That of the encoder, `learning_rate`, is 0.0005 by default for "crl-cnn" and for
    DNA."""
    draws: Draws = 8
    """Number of transformations drawn for each sample in a sampled step."""
    distinct: bool = False
    """In exact steps, only pairs of different transformations are positives."""
    importance_weights: Literal["plain", "normalized"] = "plain"
    """Weights of the transformations drawn in a sampled channel step."""
    start: Literal["auto", "discovery", "none"] = "auto"
    """Images with crops. "discovery": `viewsmith.Discovery` finds what recurs in the images, and where (in at most
    5,000 of them). P(T|x) and the encoder start from there in the first `start_steps` steps, and P(T|x) is held there
    with `place_weight`; crops have its size, if `crop_size` is None. "none": as published. "auto": discovery with the
    encoder "crl-cnn" for at least 100 images of 48 pixels or more; if nothing recurs, as published."""
    start_steps: Steps | Auto = "auto"
    """Images with crops: in so many first steps, positives are crops that overlap each other, and P(T|x) moves to where
    such crops agree. Later all crops that are drawn from P(T|x) are positives. "auto": 50, or 0 if black stays zero
    (`scaling`), where such a start can end beside the object."""
    place_weight: Rate = 1.0
    """Weight of E_Q log P(T|x), where Q is concentrated on the place that discovery found."""
    recurrence_weight: Rate | Auto = "auto"
    """Weight of `viewsmith.losses.recurrence` in the channel step: prefers what other samples show, too. "auto": 3 for
    crops of images whose black stays zero (`scaling`), otherwise 0, as published."""
    entropy_weight: Rate = 0.0025
    """Weight of the entropy of P(T|x)."""
    effective_target: Effective | Auto | None = "auto"
    """Soft lower limit of the effective number of transformations of a sample, the exponential of the entropy of
    P(T|x). "auto": 8, or 9/10 of the number of transformations if there are fewer than nine. None: no limit."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Averaging(Part):
    """How a sample is represented: by which transformations."""

    slot = "inference"
    lead = "inference"

    inference: Inference = "expectation"
    """Average that gives the representation: over P(T|x), over the most probable transformations with equal weights, or
    over all transformations with equal weights."""
    inference_count: Count | None = None
    """Number of most probable transformations (None: 8); for the expectation, of drawn ones (None: all are used)."""


@register(
    "method",
    "crl-tac",
    help="learns a distribution over transformations (crops, feature subsets, windows) for each sample",
    source="CRL-TAC: Koyama et al. 2021, Contrastive representation learning with trainable augmentation channel",
    part="transforms",
    compared=("images", "series"),
    search=SEARCH,
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class CRLTAC(Transforms, Channel, Averaging, ViewsmithEstimator):
    """Representations learned together with a distribution P(T|x) over transformations of each sample.

    The transformations are a finite family: crops of images on a grid, subsets of the features of vectors, windows of
    sequences. An augmentation channel learns which transformations are most informative about each sample; the
    representation is the expectation of the encoder's output over them. The defaults are measured (docs, CRL-TAC); with
    "crl-cnn" on a CPU, "auto" epochs are about 2,800 steps. ``presets["paper-images"]`` has the published settings.

    Examples
    --------
    >>> import numpy as np
    >>> from viewsmith import CRLTAC
    >>> X = np.random.default_rng(0).integers(0, 256, (64, 28, 28)).astype("uint8")
    >>> model = CRLTAC(epochs=2, random_state=0).fit(X)
    >>> model.distribution(X).shape, model.views(X[:3], n_views=5).shape
    ((64, 9), (3, 5, 20, 20))
    """

    name = "crl-tac"
    frameworks, presets = ("info-max",), PRESETS
    facts_type = building.CRLTACFacts
    reads_gaps: ClassVar[bool] = False

    projector_dims: Widths | Auto = "auto"
    """Widths of the head, after a ReLU; the last is the width of the projection. "auto": 128 with "crl-cnn", otherwise
    200 and 50, as published."""
    framework: str = "info-max"
    """The objective of CRL-TAC; see `viewsmith.losses.info_max`."""
    view_maker: str = "auto"
    """Views are drawn from the channel."""
    beta: Positive = 5.0
    """Concentration of P(Z|T(x)), the inverse of a temperature, in the encoder step and in the channel step. Published:
    0.5 in both; a larger one in the encoder step gives better projections (docs, CRL-TAC)."""
    encoder_step: Literal["exact", "sampled"] = "sampled"
    """Whether an encoder step uses all transformations or draws `draws` of them."""
    objective: Literal["bound", "information"] = "bound"
    """What training maximizes: the lower bound of the information, as published, or the information (equation 2)."""
    centered: bool | Auto = "auto"
    """Subtract the projection of an empty view from every projection; "auto": for every encoder but "crl-cnn". The
    channel leaves the uniform distribution only with centered projections or networks without biases."""
    bias: bool | Auto = "auto"
    """Biases of the encoder and of the head. "auto": only with `centered` projections, as an empty view has a
    projection of its own otherwise (docs, CRL-TAC). Custom encoders stay as they are."""

    def _adapt(
        self, options: "CRLTAC", modality: Modality, rows: np.ndarray | RowSource, signal: Mapping[str, Any]
    ) -> "CRLTAC":
        """Fill in the defaults of this method; raise InputError for options without effect."""
        return building.adapted(options, type(self), modality, rows)

    def _resolve(self, given: Any, options: Any, data: TrainingData) -> tuple[Any, dict[str, Any], Any]:
        modality, row_shape, device = data.modality, data.row_shape, data.device
        crop_cnn = options.encoder == "crl-cnn"
        custom, family_options = None, {}
        places, sentence = building.discovered(options, data)
        if places is not None and options.crop_size is None:
            options = dataclasses.replace(options, crop_size=places.side)
        if sentence and options.verbose and distributed.rank() == 0:
            enough = "" if places is None else "; if only places matter, `viewsmith discover` alone gives them"
            print(f"discovery: {sentence}{enough}", file=sys.stderr)
        options, scores = building.with_crop_size(self, options, data)
        if families.is_custom(options.family):
            custom = families.inspect_family(options, data)
        else:
            family_options = building.family_options_of(options, modality, row_shape)
            building.check_crop(family_options, options.encoder, data)
        if given.epochs == "auto" and crop_cnn and device.type == "cpu":
            options = dataclasses.replace(options, epochs=default_epochs(len(data.rows), options.batch_size, STEPS))
        columns = data.statistics.get("columns")
        family = families.make_family(
            modality, row_shape, data.seed, family_options, options.family, custom, columns
        ).to(device)
        two = data.x[:2].to(device)
        # Both calls raise InputError for unexpected outputs of custom parts.
        if callable(options.nonempty):
            AugmentationChannel(family).probability_of(two, options.nonempty)
        if isinstance(options.encoder, nn.Module):
            first = torch.zeros(len(two), 1, dtype=torch.int64, device=device)
            probe(options.encoder, name_of(options.encoder), family.take(two, first)[:, 0])
        dims = ((128,) if crop_cnn else (200, 50)) if options.projector_dims == "auto" else options.projector_dims
        centered = not crop_cnn if options.centered == "auto" else options.centered
        options = dataclasses.replace(
            options,
            projector_dims=dims,
            centered=centered,
            # By default empty views have the projection 0, either without biases or by `centered`.
            bias=centered if options.bias == "auto" else options.bias,
            effective_target=building.target_of(options, family),
            start_steps=building.start_steps_of(options, family, places),
            start="none" if places is None else "discovery",
            recurrence_weight=building.recurrence_weight_of(options, family),
        )
        facts = {"family_options": family_options, "crop_size_scores": scores, "custom_family": custom}
        return options, facts | {"discovered": sentence}, places

    def _build(self, plan: BuildContext[building.CRLTACFacts]) -> Method:
        options, facts, modality = plan.options, plan.facts, modality_in(plan)
        head, weight = make_head(plan, options.projector_dims, bias=options.bias), options.recurrence_weight
        row_shape, custom, columns = facts.row_shape, facts.custom_family, facts.statistics.get("columns")
        family = families.make_family(
            modality, row_shape, facts.seed, facts.family_options, options.family, custom, columns
        )
        return CRLTACMethod(
            make_encoder(plan, bias=options.bias),
            nn.Sequential(nn.ReLU(), head),
            families.make_channel(modality, row_shape, family, learned=options.channel == "learned"),
            weights=options.importance_weights,
            near=building.near_of(family),
            places=None if plan.inputs is None else building.known_places(plan.inputs, family),
            chosen_views=ChosenViews(options.projector_dims[-1], weight) if weight else None,
            nonempty=building.nonempty_of(options, modality),
            optimizer=make_optimizer(plan),
            channel_optimizer=Optimizer("adam", options.channel_learning_rate, schedule=options.schedule),
            centered=options.centered,
            beta=options.beta,
            channel_beta=options.channel_beta,
            draws=options.draws,
            encoder_step=options.encoder_step,
            channel_step=options.channel_step,
            objective=options.objective,
            channel_rows=options.channel_rows,
            distinct=options.distinct,
            entropy_weight=options.entropy_weight,
            effective_target=options.effective_target,
            start_steps=options.start_steps,
            place_weight=options.place_weight,
            inference=options.inference,
            inference_count=options.inference_count,
            epochs=options.epochs,
        )

    @property
    def views_like_samples(self) -> bool:
        """Whether views have as many features or channels as samples; with custom functions they may not."""
        known = self._facts.custom_family
        return known is None or families.like_samples(known["sample"], known["view"])

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        check_is_fitted(self)
        if known := self._facts.custom_family:
            families.check_like_samples(known["sample"], known["view"])
        return super().views(X, n_views, random_state=random_state, pool=pool)

    @property
    def _views_per_sample(self) -> int:
        # Blocks of images and DNA are small, and all views of an image may come from one pass.
        return self._channel.family.size if self.modality_.named_features else 1

    def distribution(self, X: Any) -> np.ndarray:
        """Compute P(T|x), float32 (n, M): the probability of each transformation for each sample.

        In the order of `method_.channel.family`: crops by scale, unmirrored before mirrored, row by row.
        """
        check_is_fitted(self)
        with torch.no_grad():
            return apply_in_blocks(lambda x: self._channel.log_p(x).exp(), self.samples(X), 256).cpu().numpy()

    def locate(self, X: Any, n: int = 1) -> np.ndarray:
        """Locations that P(T|x) selects in each sample: at most `n`, the most probable first.

        The first location is the view with the largest expected overlap with views drawn from P(T|x), refined between
        the positions of the grid. Other locations overlap it little (docs, CRL-TAC, "Locating objects"). A sample has
        no entry if its P(T|x) is near uniform, or much nearer to uniform than P(T|x) of training samples.

        Parameters
        ----------
        X : array-like, n samples
        n : int
            Largest number of locations in a sample; for vectors, number of features.

        Returns
        -------
        structured array, shape (k,)
            Sample by sample; ``pandas.DataFrame(found)`` is a table. Images: ``sample`` (row of `X`), ``top, left,
            height, width`` (pixels, not rounded), ``probability`` (that a view of the box's size that is apart from
            the boxes before overlaps half of its area). DNA: ``sample, start, end, probability``; bases ``start`` to
            ``end - 1``, from 0. Vectors: ``sample, feature`` (its column), ``probability`` (that a view keeps it).

        Raises
        ------
        InputError
            `n` is below 1, or the transformations are custom functions, which have no locations.
        """
        check_is_fitted(self)
        return locate(self, X, n)

    def crops(self, X: Any, n: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Crops at the k locations that `locate` finds, and the locations.

        Crops of images are uint8 (k, crop_size, crop_size[, C]), resized only if the box has another size. Windows of
        DNA are letters, uint8 (k, L), with 0 after their ends.
        """
        found = self.locate(X, n)
        return cut(self, X, found), found

    def transform(self, X: Any, *, output: str = "representation", inference: Inference | None = None) -> np.ndarray:
        """Representations, as for all methods; `inference` replaces the option of the model ("top": see there)."""
        return super(CRLTAC, building.with_inference(self, inference)).transform(X, output=output)

    def transform_blocks(
        self, X: Any, *, output: str = "representation", inference: Inference | None = None
    ) -> Iterator[np.ndarray]:
        """What `transform` returns, block by block in order."""
        return super(CRLTAC, building.with_inference(self, inference)).transform_blocks(X, output=output)

    def nonempty_mass(self, X: Any, nonempty: Predicate | None = None) -> np.ndarray:
        """Probability that a view of each sample is not empty, float32 (n,).

        Parameters
        ----------
        X : array-like, n samples
        nonempty : callable, optional
            From scaled views (n, ...) to bool (n,), True for views that are not empty; default: the model's option.
        """
        check_is_fitted(self)
        if (nonempty := nonempty or self._method.nonempty) is None:
            line = "the model has no function that tells which views are not empty"
            raise InputError(f"{line}: give nonempty, from views (n, ...) to bool (n,)")
        return self._channel.probability_of(self.samples(X), nonempty).cpu().numpy()

    def configuration(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        config = super().configuration(data)
        config["parameters"]["family"] = families.family_text(self.family)
        if callable(self.nonempty):
            config["parameters"]["nonempty"] = "function"
        return config

    configuration.__doc__ = ViewsmithEstimator.configuration.__doc__

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of all methods, and of P(T|x)."""
        views = self.views if self.views_like_samples else None
        return [*shared_figures(self, views, dataset), *channel_figures(self, dataset)]

    @property
    def _method(self) -> CRLTACMethod:
        assert isinstance(self.method_, CRLTACMethod)
        return self.method_

    @property
    def _channel(self) -> AugmentationChannel:
        return self._method.channel

    @property
    def _facts(self) -> building.CRLTACFacts:
        assert isinstance(self.facts_, building.CRLTACFacts)
        return self.facts_
