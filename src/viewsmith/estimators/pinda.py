"""PiNDA: learned noise, alone or on top of fixed views."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from viewsmith.core.method import Method
from viewsmith.core.random import stream
from viewsmith.core.samples import in_blocks
from viewsmith.estimators.arguments import Auto, Positive, Rate, Share, Widths
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build import model as parts
from viewsmith.estimators.rows import block_size
from viewsmith.methods.pinda import PiNDAMethod


@dataclass(kw_only=True, eq=False, repr=False)
class PiNDA(ViewsmithEstimator):
    """Representations learned together with the noise that augments them (pi-noise), alone or on fixed views.

    A generator predicts the standard deviation of Gaussian (or uniform) noise for every feature, pixel or base of every
    sample and is trained with the encoder on the contrastive loss. The defaults keep the noise level at `strength` and
    hold the noise on all features by a log barrier; ``PiNDA(**PiNDA.presets["paper"])`` is the published form for
    vectors, ``presets["paper-images"]`` that for images.

    Parameters
    ----------
    strength : float or "auto"
        Noise level in scaled units: kept on average when `level` is "fixed", else where training starts. "auto"
        chooses from 0.25, 0.5, 1 and 2 without labels.
    level : {"fixed", "free"}
        Whether only the shape of the noise is learned, or its level too (as published).
    distribution : {"gaussian", "uniform"}
    learn_mean : bool
        Learn a shift mu too; the authors recommend mu = 0.
    two_sided : bool
        Noise on both views of a pair, or on one.
    penalty : {"log_barrier", "inverse_norm", "none"}
        Against collapse: on noise leaving features, or (published) on small noise.
    penalty_weight : float
    objective : {"cooperative", "adversarial"}
        The generator lowers the loss (published), or raises it.
    random_fraction : float
        Share of the noise power spread evenly over all features, with a fixed level.
    generator : {"auto", "mlp", "low-resolution", "unet", "resnet18", "shared", "sequence"}
        Network of the generator. Vectors: mlp. Images: low-resolution (a small map, enlarged), unet, resnet18 (its
        trunk, as published), shared (a light head on the encoder's own first stage). DNA: sequence, shared.
        "auto": mlp, low-resolution, sequence.
    generator_hidden : tuple of int
        Widths of the mlp generator's hidden layers.
    [shared]

    Attributes
    ----------
    [attributes]

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import PiNDA
    >>> model = PiNDA(epochs=2, random_state=0).fit(load_digits().data)
    >>> model.views(load_digits().data[:3], n_views=4).shape
    (3, 4, 64)
    """

    name = "pinda"
    strength_option = "strength"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Section 4.2, Algorithm 1 and appendix B; the penalty is published for images alone, its weight nowhere.
        "paper": {
            "view_maker": "identity",
            "kernel": "cosine",
            "temperature": 0.1,
            "level": "free",
            "penalty": "inverse_norm",
            "penalty_weight": 1.0,
            "two_sided": False,
            "strength": 0.5,
            "generator_hidden": (1024, 1024),
            "hidden": (1024, 1024),
            "norm": "none",
            "projection": (256, 128),
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "schedule": "constant",
            "epochs": 100,
        },
        # Table 3, appendix B: on top of SimCLR, with a second ResNet-18.
        "paper-images": {
            "view_maker": "simclr",
            "kernel": "cosine",
            "temperature": 0.1,
            "level": "free",
            "penalty": "inverse_norm",
            "penalty_weight": 1.0,
            "two_sided": False,
            "strength": 0.5,
            "generator": "resnet18",
            "encoder": "resnet18",
            "projection": (256, 128),
            "batch_size": 256,
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "schedule": "constant",
            "epochs": 1000,
        },
    }

    strength: Positive | Auto = 0.25
    level: Literal["fixed", "free"] = "fixed"
    distribution: Literal["gaussian", "uniform"] = "gaussian"
    learn_mean: bool = False
    two_sided: bool = False
    penalty: Literal["log_barrier", "inverse_norm", "none"] = "log_barrier"
    penalty_weight: Rate = 1.0
    objective: Literal["cooperative", "adversarial"] = "cooperative"
    random_fraction: Share = 0.0
    generator: Literal["auto", "mlp", "low-resolution", "unet", "resnet18", "shared", "sequence"] = "auto"
    generator_hidden: Widths = (64,)
    # Of the two strengths only the learned noise's is searched for.
    noise_strength: Positive = 1.0

    def _build(self, settings: SimpleNamespace) -> Method:
        framework, views = parts.make_model(settings)
        return PiNDAMethod(
            framework,
            views,
            parts.make_noise(settings, framework.encoder),
            two_sided=settings.two_sided,
            penalty=settings.penalty,
            penalty_weight=settings.penalty_weight,
            epochs=settings.epochs,
            optimizer=parts.make_optimizer(settings),
        )

    def noise_profile(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over the samples of `X` of the learned noise per feature.

        Returns
        -------
        mean, spread : ndarray, shape of a scaled sample: (d,), (C, H, W) or (4, L)
            Of sigma(x), in the units of each feature (of pixels / 255 for images).
        """
        check_is_fitted(self)
        noise = self._method().noise
        with torch.no_grad():
            sigma = in_blocks(lambda x: noise.parameters_of_noise(x)[0], self._samples(X), 256)
        if self.fitted_["domain"] == "vectors":
            sigma = sigma * self.scaler_.scale * self.scaler_.varies
        elif self.fitted_["domain"] == "images":
            sigma = sigma * self.scaler_.scale[:, None, None]
        return sigma.mean(0).cpu().numpy(), sigma.std(0, correction=0).cpu().numpy()

    def noise_parts(self, X: Any, *, random_state: int | None = None) -> dict[str, np.ndarray]:
        """For each sample the predicted standard deviation, a draw of the noise, and the sample with it.

        Returns
        -------
        dict
            ``sigma`` and ``noise`` in scaled units, float32 of the shape of a scaled sample; ``view`` in the units and
            dtype of the data: the first of `views`.
        """
        check_is_fitted(self)
        x = self._samples(X)
        seed = self.fitted_["seed"] if random_state is None else random_state
        generator, size = stream(seed, "views", 0, device=x.device), block_size(x[:1])
        made: dict[str, list[np.ndarray]] = {"sigma": [], "noise": [], "view": []}
        with torch.no_grad():
            for start in range(0, len(x), size):
                parts = self._method().noise_parts(x[start : start + size], generator)
                parts["view"] = self.scaler_.inverse(parts["view"])
                for name, part in parts.items():
                    made[name].append(part.cpu().numpy())
        joined = {name: np.concatenate(part) for name, part in made.items()}
        if self.fitted_["domain"] == "images":
            joined["view"] = joined["view"].reshape(np.shape(X))
        return joined

    def _method(self) -> PiNDAMethod:
        assert isinstance(self.method_, PiNDAMethod)
        return self.method_
