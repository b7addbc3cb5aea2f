"""MetAug: features augmented by generators that learn through the encoder's next step."""

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
from viewsmith.estimators.rows import draw_views
from viewsmith.methods.metaug import MetAugMethod

AtLeastTwo = Annotated[int, Field(ge=2)]


@register(
    "method",
    "metaug",
    help="learns augmented features in the projection space, through the encoder's next step",
    source="MetAug: Li et al. 2022, MetAug: Contrastive learning via meta feature augmentation",
)
@dataclass(kw_only=True, eq=False, repr=False)
class MetAug(ViewsmithEstimator):
    """Representations that learn from augmented features, made in the projection space by generators that learn, too.

    Views of a sample are contrasted with a memory of earlier features under one unified loss (OUCL), with and without
    the generators' features; the generators learn by how much they help the encoder's next step. They are an addition
    to other frameworks, too: ``MetAug(framework="simclr")``. "MetAug (only OUCL)" is ``meta="none"``, "MetAug (only
    MAG)" is ``united=False``; ``MetAug(**MetAug.presets["paper-images"])`` is the published form, ``presets["paper"]``
    its settings for vectors. The defaults are measured (docs, MetAug).

    Parameters
    ----------
    framework : str or viewsmith.frameworks.Framework
        What trains the encoder besides augmented features: oucl, MetAug's own, or any other framework.
    n_views : int
        Views of each sample, 2 or more (oucl).
    encoders : {"shared", "per-view"}
        One encoder for all views, or one each (oucl); the representation is then all of theirs side by side.
    split : {"none", "color"}
        "color": the views are RGB, L and ab of one augmented image, with an encoder each (oucl).
    meta : {"second-order", "first-order", "frozen", "none"}
        How generators learn: through the encoder's step, with its outcome taken as given, not at all; or there are
        none.
    feature_weight : float
        delta, weight of the losses with augmented features.
    inner_rate : float
        ell, rate of the encoder's step that generators look through.
    margin : {"large", "medium", "small"}
        Margins that keep augmented features from being copies.
    margin_weight : float
        alpha over delta: weight of those margins among the generators' objectives; 0: none.
    margin_scope : {"batch", "sample"}
        Whose pairs make the margins.
    feature_hidden : tuple of int
        Widths of a generator's hidden layers.
    residual : bool
        Generators add to an projection; otherwise they replace it, as published.
    feature_learning_rate : float or "auto"
        "auto": that of the encoder.
    feature_every : int
        Steps from one update of the generators to the next.
    united : bool
        All pairs of views share one loss; otherwise each has its own (the standard contrast).
    form : {"linear", "circle", "squared"}
        What stands in the exponent of the loss; see `viewsmith.losses.Logits`.
    beta : float or "auto"
        Its sharpness; of the linear form 2 over the temperature. "auto": that, where oucl is given a temperature, or
        16.
    loss_margin : float
        lambda of the linear form.
    gamma : float
        Of the other forms.
    detach_weights : bool
        No gradient through the circle's weights.
    attenuation : float
        phi_dec, by which the circle's weights are divided.
    memory : {"queue", "bank"}
        Negatives are the newest features, or drawn from running averages of all training rows.
    memory_size : int or "auto"
        Features of each view in a queue; "auto": 256, at least a batch. A bank has a place for each row.
    negatives : int or "auto"
        Features of each view drawn at a step; "auto": 256 of a queue, 4,096 of a bank, at most all.
    negative_draws : {"batch", "sample"}
        One draw for the batch, or one for each sample, as published.
    positives : {"views", "memory"}
        The other views' projections, or, of a bank, earlier ones without gradient, as published.
    memory_momentum : float
        Of a bank's averages.
    [shared]

    Attributes
    ----------
    metrics_ : list of dict
        Loss and label-free diagnostics through training; ``feature_cosine`` is how close augmented features are to
        their projections.
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

    framework: str = "oucl"
    n_views: AtLeastTwo = 2
    encoders: Literal["shared", "per-view"] = "shared"
    split: Literal["none", "color"] = "none"
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
            margin_each=options.margin_scope == "sample",
            epochs=resolved.epochs,
            optimizer=make_optimizer(plan),
            feature_optimizer=make_feature_optimizer(plan),
            every=options.feature_every,
        )

    @property
    def outputs_(self) -> tuple[str, ...]:
        """Names that ``transform(output=...)`` takes; with an encoder a view, ``view-1`` and so on."""
        single = [f"view-{view + 1}" for view in range(self._encoders)] if self._encoders > 1 else []
        return ("representation", "projection", *single)

    @property
    def _encoders(self) -> int:
        return self.resolved_.n_views if has_encoders(self.options_) else 1

    @property
    def _n_features_out(self) -> int:
        return self._encoders * super()._n_features_out

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Augmented features of samples, float32 (n, n_views, M d): of each of M views' projections, side by side.

        Rows of length 1 for each view. They are no samples: units and width are those of projections. Arguments are
        those of the other estimators.
        """
        return self.feature_views(X, n_views, random_state=random_state, pool=pool)["augmented"]

    def input_views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """The views of samples, (n, n_views, ...), in the units and dtype of the data, before they are embedded."""
        return super().views(X, n_views, random_state=random_state, pool=pool)

    def feature_views(
        self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """Augmented features and what they were made from.

        Returns
        -------
        dict
            ``features``, directions of the projections of M views, and ``augmented``; both float32 (n, n_views, M d).

        Raises
        ------
        InputError
            The model has no generators (``meta="none"``).
        """
        check_is_fitted(self)
        with self._prepared(X, n_views, random_state, pool) as (x, index, seed):

            def pair(part: slice, generator: torch.Generator) -> Tensor:
                assert isinstance(self.method_, MetAugMethod)
                own = None if index is None else index[part]
                made = self.method_.feature_views(x[part], index=own, generator=generator)
                return torch.stack(made).permute(2, 0, 1, 3).flatten(2)  # (rows, 2, M d)

            both = draw_views(pair, x, n_views, seed)
        return {"features": both[:, :, 0], "augmented": both[:, :, 1]}

    def described_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """Augmented features as ``views`` (4 unless told otherwise), and the ``features`` they were made from."""
        made = self.feature_views(X, n_views or 4, random_state=random_state, pool=pool)
        return {"views": made["augmented"], "features": made["features"]}

    def figures(self, dataset: Dataset) -> Figures:
        """Those of all methods, with the views that are embedded, and how similar features are."""
        found = shared_figures(self, self.input_views, dataset)  # augmented features cannot be drawn
        if self.options_.meta != "none":
            x = figure_rows(dataset)[0]
            made = self.feature_views(x[:COMPARED], 1, pool=dataset.x_train)
            found.histograms.append(feature_similarities(made, self.resolved_.n_views))
        return found
