"""Contrastive learning with fixed views."""

from __future__ import annotations

from dataclasses import dataclass

from viewsmith.core.method import Method
from viewsmith.core.registry import register
from viewsmith.estimators import presets
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.model import make_model, make_optimizer
from viewsmith.estimators.build.plan import Plan, Resolved
from viewsmith.methods.contrastive import ContrastiveMethod


@register(
    "method",
    "contrastive",
    help="fixed views: by default nearest neighbors (vectors), SimCLR's crops and colors (images) or edits (dna)",
    source="SimCLR: Chen et al. 2020, A simple framework for contrastive learning of visual representations",
)
@dataclass(kw_only=True, eq=False, repr=False)
class Contrastive(ViewsmithEstimator):
    """Contrastive representations of vectors, images and DNA with fixed views.

    The default views are, for vectors, nearest neighbors: a sample and one of its nearest rows are positives, under
    the heavy-tailed Cauchy kernel; for images, SimCLR's crops and color jitter; for DNA, a recipe of edits. The
    representation is the output of the encoder, before the projection head.

    Parameters
    ----------
    [shared]

    Attributes
    ----------
    [attributes]

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import Contrastive
    >>> X = load_digits().data
    >>> Contrastive(epochs=2, random_state=0).fit_transform(X).shape
    (1797, 256)
    """

    name = "contrastive"
    presets = presets.CONTRASTIVE

    def _build(self, plan: Plan[Contrastive, Resolved]) -> Method:
        framework, views = make_model(plan)
        return ContrastiveMethod(framework, views, epochs=plan.resolved.epochs, optimizer=make_optimizer(plan))
