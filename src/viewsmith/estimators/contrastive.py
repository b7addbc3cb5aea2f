"""Contrastive learning with fixed views."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from viewsmith.core.method import Method
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build import model as parts
from viewsmith.methods.contrastive import ContrastiveMethod


@dataclass(kw_only=True, eq=False, repr=False)
class Contrastive(ViewsmithEstimator):
    """Contrastive representations of vectors, images and DNA with fixed views.

    On vectors the default is the neighbor recipe: a sample and one of its nearest rows attract, under the
    heavy-tailed Cauchy kernel. On images it is SimCLR's crops and colors, on DNA a recipe of edits. The representation
    is read before the projection.

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
    strength_option = "noise_strength"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # SimCLR as the noise papers run it on vectors (PiNDA, section 4.2 and appendix B).
        "paper": {
            "view_maker": "noise",
            "kernel": "cosine",
            "hidden": (1024, 1024),
            "norm": "none",
            "projection": (256, 128),
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "schedule": "constant",
            "epochs": 100,
        },
        # SimCLR as the same paper runs it on images (section 4.2, table 3, appendix B).
        "paper-images": {
            "view_maker": "simclr",
            "kernel": "cosine",
            "temperature": 0.1,
            "encoder": "resnet18",
            "projection": (256, 128),
            "batch_size": 256,
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "schedule": "constant",
            "epochs": 1000,
        },
    }

    def _build(self, settings: SimpleNamespace) -> Method:
        framework, views = parts.make_model(settings)
        return ContrastiveMethod(framework, views, epochs=settings.epochs, optimizer=parts.make_optimizer(settings))
