"""CRL-TAC: a trainable augmentation channel."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.core.rows import RowSource
from viewsmith.core.samples import apply_in_blocks
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.data import Dataset
from viewsmith.estimator.arguments import ADAM, Auto, Widths
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.figures import shared_figures
from viewsmith.estimator.model import make_encoder, make_head, make_optimizer, modality_in
from viewsmith.estimator.plan import BuildContext, TrainingData, probe
from viewsmith.estimator.resolve import default_epochs, with_batch_size
from viewsmith.methods.crl_tac import building, families
from viewsmith.methods.crl_tac.channel import AugmentationChannel, ChosenViews, Predicate
from viewsmith.methods.crl_tac.figures import channel_figures, cut, locate
from viewsmith.methods.crl_tac.options import CRLTACOptions, Inference, Transforms
from viewsmith.methods.crl_tac.training import CRLTACMethod
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

STEPS = 2800  # of "auto" epochs for the encoder "crl-cnn" on a CPU: ten minutes on two cores (docs, CRL-TAC)


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
class CRLTAC(Transforms, CRLTACOptions, ViewsmithEstimator):
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
    bias: bool | Auto = "auto"
    """Biases of the encoder and of the head. "auto": only with `centered` projections, as an empty view has a
    projection of its own otherwise (docs, CRL-TAC). Custom encoders stay as they are."""

    def _adapt(
        self, options: "CRLTAC", modality: Modality, rows: np.ndarray | RowSource, signal: Mapping[str, Any]
    ) -> "CRLTAC":
        """Fill in the defaults of this method; raise InputError for options without effect."""
        return with_batch_size(building.adapted(options, type(self), modality, rows), modality, rows.shape[1:])

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
        of_family = family_options, options.family, custom, data.statistics.get("columns")
        family = families.make_family(modality, row_shape, data.seed, *of_family).to(device)
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
        # The weights of the head are drawn before those of the encoder, so that one more tells its learned columns.
        with torch.random.fork_rng(devices=[]):
            like = make_encoder(plan, bias=options.bias)
        head, weight = make_head(plan, like, options.projector_dims, bias=options.bias), options.recurrence_weight
        row_shape = facts.row_shape
        given = facts.family_options, options.family, facts.custom_family, facts.statistics.get("columns")
        family = families.make_family(modality, row_shape, facts.seed, *given)
        return CRLTACMethod(
            make_encoder(plan, bias=options.bias),
            nn.Sequential(nn.ReLU(), head),
            families.make_channel(modality, row_shape, family, learned=options.channel == "learned"),
            options=CRLTACOptions.of(options),
            near=building.near_of(family),
            places=None if plan.inputs is None else building.known_places(plan.inputs, family),
            chosen_views=ChosenViews(options.projector_dims[-1], weight) if weight else None,
            nonempty=building.nonempty_of(options, modality),
            optimizer=make_optimizer(plan),
            channel_optimizer=Optimizer("adam", options.channel_learning_rate, schedule=options.schedule),
            epochs=options.epochs,
        )

    @property
    def views_like_samples(self) -> bool:
        """Whether views have as many features or channels as samples; with custom functions they may not."""
        known = self.facts_.custom_family
        return known is None or families.like_samples(known["sample"], known["view"])

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        check_is_fitted(self)
        if known := self.facts_.custom_family:
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
        if (nonempty := nonempty or self.method_.nonempty) is None:
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
    def _channel(self) -> AugmentationChannel:
        return self.method_.channel
