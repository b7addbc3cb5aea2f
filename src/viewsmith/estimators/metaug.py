"""MetAug: features augmented by generators that are trained through the encoder's next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from viewsmith.core.method import Method
from viewsmith.core.registry import register
from viewsmith.data import Dataset
from viewsmith.estimators import presets
from viewsmith.estimators.arguments import Auto, Count, Fraction, Positive, Rate, Widths
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.metaug import (
    MetAugResolved,
    has_encoders,
    make_feature_optimizer,
    make_features,
    make_metaug_framework,
    resolve_features,
)
from viewsmith.estimators.build.model import make_optimizer, make_views
from viewsmith.estimators.build.plan import Plan, TrainingData
from viewsmith.estimators.figures import COMPARED, Figures, figure_rows, shared_figures
from viewsmith.estimators.figures.features import feature_similarities
from viewsmith.estimators.rows import collected, view_blocks
from viewsmith.methods.metaug import MetAugMethod

AtLeastTwo = Annotated[int, Field(ge=2)]


@register(
    "method",
    "metaug",
    help="learns augmented features in the projection space, through the encoder's next step",
    source="MetAug: Li et al. 2022, MetAug: Contrastive learning via meta feature augmentation",
    search=presets.SEARCH["metaug"],
)
@dataclass(kw_only=True, eq=False, repr=False)
class MetAug(ViewsmithEstimator):
    """Representations trained with augmented features, which learned generators make from projections.

    Views of a sample are contrasted with a memory of earlier features in one unified loss (OUCL), with and without
    augmented features; the generators are trained to improve the encoder's next step. They can be combined with other
    frameworks: ``MetAug(framework="simclr")``. The paper's "MetAug (only OUCL)" is ``meta="none"``, its "MetAug (only
    MAG)" is ``united=False``; ``MetAug(**MetAug.presets["paper-images"])`` has the published settings,
    ``presets["paper"]`` those for vectors. The defaults are measured (docs, MetAug).

    Parameters
    ----------
    framework : str or viewsmith.frameworks.Framework
        Objective of the encoder besides the augmented features: oucl, MetAug's unified loss, or another framework.
    n_views : int
        Number of views of each sample, at least 2 (oucl).
    encoders : {"shared", "per-view"}
        One encoder for all views, or one for each (oucl), whose representations are then concatenated.
    split : {"none", "color", "ydbdr"}
        The views are parts of the colors of one augmented image, with one encoder each (oucl). "color": RGB, L and ab;
        "ydbdr": Y, Db and Dr, as in one of the paper's trials (table 6).
    meta : {"second-order", "first-order", "frozen", "none"}
        Training of the generators: through the encoder's step; without the gradient through that step; not at all; or
        no generators.
    feature_weight : float
        delta, the weight of the losses with augmented features.
    inner_rate : float
        ell, the learning rate of the encoder's step in the objective of the generators.
    margin : {"large", "medium", "small"}
        Size of the margins that keep augmented features from being copies of the features.
    margin_weight : float
        alpha / delta, the weight of the margins in the objective of the generators; 0: no margins.
    margin_scope : {"batch", "sample"}
        Whether margins are computed from the pairs of the batch or of each sample.
    feature_hidden : tuple of int
        Widths of a generator's hidden layers.
    residual : bool
        Generators add to a projection; otherwise they replace it, as published.
    feature_learning_rate : float or "auto"
        "auto": the learning rate of the encoder.
    feature_every : int
        Steps from one update of the generators to the next.
    united : bool
        All pairs of views share one loss; otherwise each has its own (the standard contrast).
    form : {"linear", "circle", "squared"}
        Form of the exponent of the loss; see `viewsmith.losses.Logits`.
    beta : float or "auto"
        Sharpness of the loss; 2 / temperature in the linear form. "auto": 2 / temperature if oucl is given a
        temperature, otherwise 16.
    loss_margin : float
        lambda of the linear form.
    gamma : float
        Margin of the circle and squared forms.
    detach_weights : bool
        No gradient through the weights of the circle form.
    attenuation : float
        phi_dec, the divisor of the weights of the circle form.
    memory : {"queue", "bank"}
        Negatives are the most recent features, or are drawn from running averages of the features of all training rows.
    memory_size : int or "auto"
        Features of each view in a queue; "auto": 256, but at least a batch. A bank has one feature for each row.
    negatives : int or "auto"
        Features of each view drawn in a step; "auto": 256 of a queue, 4,096 of a bank, but at most all.
    negative_draws : {"batch", "sample"}
        One draw of negatives for the batch, or one for each sample, as published.
    positives : {"views", "memory"}
        The projections of the other views, or earlier projections from a bank without gradient, as published.
    memory_momentum : float
        Momentum of the running averages of a bank.
    [shared]

    Attributes
    ----------
    metrics_ : list of dict
        Loss and label-free diagnostics during training; ``feature_cosine`` is the cosine similarity of augmented
        features and projections.
    [attributes]

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import MetAug
    >>> X = load_digits().data
    >>> model = MetAug(epochs=2, random_state=0).fit(X)
    >>> model.transform(X).shape, model.views(X[:3], n_views=4).shape
    ((1797, 256), (3, 4, 64))
    """

    name = "metaug"
    frameworks = ("oucl", "*")
    resolved_type = MetAugResolved
    presets = presets.METAUG
    streams_views = False

    framework: str = "oucl"
    n_views: AtLeastTwo = 2
    encoders: Literal["shared", "per-view"] = "shared"
    split: Literal["none", "color", "ydbdr"] = "none"
    meta: Literal["second-order", "first-order", "frozen", "none"] = "second-order"
    feature_weight: Positive = 0.3
    inner_rate: Rate = 0.1
    margin: Literal["large", "medium", "small"] = "large"
    margin_weight: Rate = 1.0
    margin_scope: Literal["batch", "sample"] = "batch"
    feature_hidden: Widths = (256,)
    residual: bool = True
    feature_learning_rate: Positive | Auto = "auto"
    feature_every: Count = 2
    united: bool = True
    form: Literal["linear", "circle", "squared"] = "linear"
    beta: Positive | Auto = "auto"
    loss_margin: Rate = 0.0
    gamma: Rate = 0.4
    detach_weights: bool = True
    attenuation: Positive = 1.0
    memory: Literal["queue", "bank"] = "queue"
    memory_size: Count | Auto = "auto"
    negatives: Count | Auto = "auto"
    negative_draws: Literal["batch", "sample"] = "batch"
    positives: Literal["views", "memory"] = "views"
    memory_momentum: Fraction = 0.5

    def _resolve(self, options: MetAug, shared: dict[str, Any], data: TrainingData) -> tuple[MetAugResolved, None]:
        return MetAugResolved(**shared, **resolve_features(options, shared, len(data.rows))), None

    def _build(self, plan: Plan[MetAug, MetAugResolved]) -> Method:
        options, resolved = plan.options, plan.resolved
        framework = make_metaug_framework(plan)
        generators, contrast = make_features(plan, framework)
        return MetAugMethod(
            framework,
            make_views(plan, framework.encoder),
            generators,
            contrast,
            n_views=resolved.n_views,
            meta=options.meta,
            feature_weight=options.feature_weight,
            inner_rate=options.inner_rate,
            margin=options.margin,
            margin_weight=options.margin_weight,
            margin_per_sample=options.margin_scope == "sample",
            epochs=resolved.epochs,
            optimizer=make_optimizer(plan),
            feature_optimizer=make_feature_optimizer(plan),
            every=options.feature_every,
        )

    @property
    def outputs_(self) -> tuple[str, ...]:
        """Values of ``output`` that `transform` accepts; with one encoder per view also ``view-1`` and so on."""
        single = [f"view-{view + 1}" for view in range(self._encoders)] if self._encoders > 1 else []
        return ("representation", "projection", *single)

    @property
    def _encoders(self) -> int:
        return self.resolved_.n_views if has_encoders(self.options_) else 1

    @property
    def _n_features_out(self) -> int:
        return self._encoders * super()._n_features_out

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Draw augmented features of samples, float32 (n, n_views, M d): those of M views, concatenated.

        The features of each view have length 1. They are projections, not samples. Arguments are those of the other
        estimators.
        """
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
                assert isinstance(self.method_, MetAugMethod)
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

    def figures(self, dataset: Dataset) -> Figures:
        """Figures of all methods, with views before the encoder, and the similarity of features."""
        found = shared_figures(self, self.input_views, dataset)  # augmented features cannot be drawn
        if self.options_.meta != "none":
            x = figure_rows(dataset)[0]
            made = self.feature_views(x[:COMPARED], 1, pool=dataset.x_train)
            found.histograms.append(feature_similarities(made, self.resolved_.n_views))
        return found
