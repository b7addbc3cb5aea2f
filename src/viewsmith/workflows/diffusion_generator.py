"""The diffusion model of a DiffAug run as a generator of view caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.row_source import RowSource
from viewsmith.core.samples import apply_in_blocks, take_rows
from viewsmith.core.version import __version__
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.feature_extractor import (
    ENCODER,
    FeatureExtractor,
    FeaturesOption,
    describe_extractor,
    digest,
    uses_extractor,
)
from viewsmith.estimators.diffaug import DiffAug
from viewsmith.methods.diffaug import DiffAugMethod
from viewsmith.views.generated.noise_level import level_to_strength, noise_tolerance
from viewsmith.views.generated.quality import ViewQuality
from viewsmith.views.generated.selection import choose_among


class DiffusionGenerator:
    """The conditional diffusion model of a DiffAug run as a generator of views, for any domain.

    Parameters
    ----------
    model : DiffAug
        Fitted, with a generator that did not diverge.
    steps : int, optional
        Steps of the sampler; default: those of the run.
    features : str or nn.Module
        Source of foreground and quality of images: the encoder of the model, or as in `feature_maps`.

    Raises
    ------
    InputError
        The model has no usable generator, or the features are invalid.
    """

    def __init__(self, model: ViewsmithEstimator, steps: int | None = None, features: FeaturesOption = ENCODER) -> None:
        if not isinstance(model, DiffAug) or not isinstance(model.method_, DiffAugMethod) or not model.generates:
            if model.status_ != "finished":
                raise InputError(
                    f"the training of the run was not finished ({model.status_}): finish it with `viewsmith fit ... "
                    "--resume`"
                )
            raise InputError(
                f"the run is of {type(model).__name__} and has no generator, or one that diverged: give a run of "
                "`viewsmith fit --method diffaug`"
            )
        self.model, self.generated = model, model.method_.generated
        self._quality: ViewQuality | None = None
        self._pool: Tensor | None = None
        if steps is not None:
            self.generated.generator.steps = steps
        self.weights = digest(model.weights())
        self._extractor: FeatureExtractor | None = None
        if uses_extractor(features, model.resolved_.domain):
            one = torch.zeros(1, *model.resolved_.row_shape, dtype=torch.uint8)
            self._extractor = FeatureExtractor(features, model.scaler_, one, self.device)

    @property
    def device(self) -> torch.device:
        return next(self.generated.parameters()).device

    def describe(self) -> dict[str, Any]:
        core = self.generated.generator
        return {
            "name": "diffusion",
            "version": __version__,
            "weights": self.weights,
            "sampler": core.sampler,
            "steps": core.steps,
            "guidance": core.guidance,
        } | describe_extractor(self._extractor)

    def noise_tolerance(self, rows: Tensor | RowSource) -> tuple[Tensor, Tensor]:
        if self._extractor is not None:
            return self._extractor.noise_tolerance(rows)
        return noise_tolerance(self.generated.encoder, self.model.samples(_given(rows)))

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        if self._extractor is not None:
            return self._extractor.quality(rows, views, axis)
        x = self.model.scale_rows(rows)
        if self._quality is None:
            self._quality = ViewQuality(self.generated.encoder, x)
        self._quality.axis.copy_(axis)
        return self._quality(x, self.model.scale_rows(views))

    @torch.no_grad()
    def choose(self, rows: Tensor | RowSource, index: Tensor, views: Tensor, n_views: int) -> Tensor:
        """Choose among generated views by quality and novelty.

        Parameters
        ----------
        rows : Tensor or RowSource, shape (n, ...)
            All samples, the same ones in each call.
        index : Tensor of int64, shape (B,)
        views : Tensor, shape (B, C, ...)
            Candidates for some of the samples.
        n_views : int

        Returns
        -------
        Tensor of int64, shape (B, n_views)
            See `viewsmith.views.generated.selection.choose_views`.
        """
        encoder, scale = self.generated.encoder, self.model.scale_rows
        if self._pool is None:
            self._pool = apply_in_blocks(lambda x: encoder(x).float(), self.model.samples(_given(rows)), 256)
        candidates = [scale(view) for view in views.unbind(1)]
        x = scale(take_rows(rows, index))
        return choose_among(x, candidates, index.to(self.device), self._pool, encoder, n_views).cpu()

    @torch.no_grad()
    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        x = self.model.scale_rows(rows)
        made = self.generated.generate(x, None, streams, level_to_strength(level).to(self.device))
        views: Tensor = self.model.scaler_.inverse(made)
        return views.cpu().reshape(rows.shape)


def _given(rows: Tensor | RowSource) -> np.ndarray | RowSource:
    """Samples as estimators take them."""
    return rows.numpy() if isinstance(rows, Tensor) else rows
