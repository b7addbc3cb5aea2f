"""GenView: generated views with noise that each sample can bear, and pairs weighted by their quality (Li et al. 2024,
GenView: Enhancing View Quality with Pretrained Generative Model for Self-Supervised Learning).

Symbols: X a sample, X+ its generated view, t and t+ fixed augmentations, P = t(X) and P+ = t+(X+) a pair of views, q
its quality, w its weight, L the loss of any framework. One of the two sources of a pair is X+ with probability alpha,
the other stays X (equation 6); the loss is the mean of w L (equations 10 to 14). X+ is precomputed (equation 9), or
comes from a generator that is trained between two phases of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.distributed import gather
from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.core.samples import Rows
from viewsmith.frameworks import Framework
from viewsmith.losses.quality import quality_weights
from viewsmith.methods.generator_step import generator_update
from viewsmith.views.generated.cache import take
from viewsmith.views.generated.diffusion_views import GeneratedViews
from viewsmith.views.generated.quality import Passes, ViewQuality
from viewsmith.views.pair import Pair, ViewPair

#: For either view of each sample, int64 (B,): 0 for the sample itself, k for its generated view k - 1.
Sources = tuple[Tensor, Tensor]
Start = Callable[[int], None]


class GenViewMethod(Method):
    """A framework with generated views, and weights for its pairs.

    Parameters
    ----------
    framework : Framework
        Encoder, head and pair loss.
    views : ViewPair
        The fixed augmentations t and t+.
    generated : GeneratedViews, optional
        A generator to train between two phases, and the views it makes. Without it, views come from `precomputed`.
    quality : ViewQuality, optional
        Weighs pairs; without it all weights are 1.
    alpha : float
        Probability that one of the two sources of a pair is generated; 0: the framework alone.
    gamma : float
        Of the weights, ``n softmax(gamma q)``.
    on_top : bool
        Fixed views are applied to generated samples too (crops of a generated image), not instead of them.
    first_fraction : float
        Fraction of the epochs before the encoder is copied for the quality of pairs and for the generator. Where a
        pretrained network measures the quality, pairs are weighted from the first step on.
    epochs, generator_epochs : int
    optimizer, generator_optimizer : Optimizer
        The encoder's schedule runs once over all its phases.

    Attributes
    ----------
    precomputed : sequence of Tensor or Samples
        Each holds one view of each training row, scaled; to be set before training where there is no generator.
    """

    def __init__(
        self,
        framework: Framework,
        views: ViewPair,
        generated: GeneratedViews | None,
        quality: ViewQuality | None,
        *,
        alpha: float,
        gamma: float,
        on_top: bool,
        first_fraction: float,
        epochs: int,
        generator_epochs: int,
        optimizer: Optimizer,
        generator_optimizer: Optimizer,
    ) -> None:
        super().__init__()
        self.framework, self.views = framework, views
        self.generated, self.quality = generated, quality
        self.alpha, self.gamma, self.on_top, self.first_fraction = alpha, gamma, on_top, first_fraction
        self.epochs, self.generator_epochs = epochs, generator_epochs
        self.optimizer, self.generator_optimizer = optimizer, generator_optimizer
        self.precomputed: list[Rows] = []
        self.rows: Rows | None = None

    def phases(self) -> list[Phase]:
        later = self.generated is not None or (self.quality is not None and self.quality.needs_trained_encoder)
        first = round(self.first_fraction * self.epochs) if later else 0
        phases = [self._encoder_phase("first", 0, first, self._begin_first)] if first else []
        if self.generated is not None:
            update = generator_update(self.generated, self.generator_step, self.generator_optimizer)
            phases.append(Phase("generator", self.generator_epochs, [update], start=self._begin_generator))
        return [*phases, self._encoder_phase("train", first, self.epochs, self._begin_training)]

    def _encoder_phase(self, name: str, begin: int, end: int, start: Start) -> Phase:
        span = begin / self.epochs, end / self.epochs
        update = Update("encoder", self.encoder_step, (self.framework,), replace(self.optimizer, span=span))
        return Phase(name, end - begin, [update], start=start)

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The framework's losses of the pairs, each times its weight (equation 14); moves encoder and head."""
        pair, sources = self.pair(batch)
        losses, passes = self.losses(pair, batch.progress)
        found = self.weights(batch, pair, sources, passes)
        if found is None:
            return losses, {}
        weights, logs = found
        return weights.to(losses.dtype) * losses, logs

    def generator_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The denoising loss of the samples; moves the generator."""
        assert self.generated is not None
        return self.generated.loss(batch), {}

    def _begin_first(self, seed: int) -> None:
        if self.quality is not None and not self.quality.needs_trained_encoder:
            self._start_quality()

    def _begin_generator(self, seed: int) -> None:
        assert self.generated is not None
        self.generated.copy_encoder(self.framework.encoder, self.framework.head)
        self.generated.fit_scales(seed)

    def _begin_training(self, seed: int) -> None:
        if self.generated is not None:
            self.generated.clear_cache()
            self.generated.check_learning()
        if self.quality is not None:
            self._start_quality()

    def _start_quality(self) -> None:
        """Measure quality from now on: by the encoder as it is now, or by a pretrained network."""
        assert self.quality is not None and self.rows is not None
        if self.quality.needs_trained_encoder or not self.quality.ready:
            self.quality.copy_encoder(self.framework.encoder, self.rows)
        self.quality.release()  # its maps may lack views that were made since

    def pair(self, batch: Batch) -> tuple[Pair, Sources | None]:
        """Two views of each sample, one of them perhaps of a generated one (equation 6), and where both come from."""
        made = self.made()
        if not made or not self.alpha:
            return self.views.for_batch(batch, self.framework), None
        draws = torch.rand((2, len(batch.x)), generator=batch.generator, device=batch.x.device)
        number = torch.randint(len(made), draws.shape[1:], generator=batch.generator, device=batch.x.device)
        taken, side = draws[0] < self.alpha, draws[1] < 0.5
        first, second = taken & side, taken & ~side
        sources = torch.where(first, number + 1, 0), torch.where(second, number + 1, 0)
        new = take(made, batch.index, number)
        here = [which.view(-1, *[1] * (batch.x.ndim - 1)) for which in (first, second)]
        if self.on_top:
            shown = [torch.where(each, new, batch.x) for each in here]
            return self.views.for_batch(replace(batch, x=shown[0]), self.framework, second=shown[1]), sources
        pair = self.views.for_batch(batch, self.framework)
        ids = None
        if pair.ids is not None:
            ids = (torch.where(first, batch.index, pair.ids[0]), torch.where(second, batch.index, pair.ids[1]))
        shown = [torch.where(*each) for each in ((here[0], new, pair.first), (here[1], new, pair.second))]
        return replace(pair, first=shown[0], second=shown[1], ids=ids, crops=None), sources

    def made(self) -> list[Rows]:
        """Generated views of the training rows; an empty list where there are none (yet)."""
        return self.precomputed if self.generated is None else self.generated.cached_views()

    def losses(self, pair: Pair, progress: float) -> tuple[Tensor, Passes | None]:
        """The framework's losses, (B,), and the feature maps of its pass where quality is computed from them."""
        if self.quality is None or not self.quality.ready or self.quality.source != "encoder":
            return self.framework(pair, progress), None
        with self.quality.record_passes(self.framework) as passes:
            return self.framework(pair, progress), passes

    def weights(
        self, batch: Batch, pair: Pair, sources: Sources | None, passes: Passes | None = None
    ) -> tuple[Tensor, dict[str, Tensor]] | None:
        """Weights of the pairs by their quality, over the pairs of all processes, and what to log; None: all are 1."""
        if self.quality is None or not self.quality.ready:
            return None
        if passes is not None:
            q = self.quality.from_passes(passes, len(batch.x))
        elif self.quality.source == "cached" and pair.crops is not None:
            if not self.quality.cached_maps:
                assert self.rows is not None
                self.quality.cache_maps([self.rows, *self.made()])
            nowhere = torch.zeros_like(batch.index)
            q = self.quality.from_cached_maps(batch.index, sources or (nowhere, nowhere), pair.crops)
        else:
            q = self.quality(pair.first, pair.second)
        weights = quality_weights(q, self.gamma, gathered=gather(q))
        return weights, {"quality": q.mean(), "largest_weight": weights.max()}

    # ---- Method ---------------------------------------------------------------------------------------------------

    def prepare(self, x: Rows, seed: int) -> None:
        self.rows = x
        self.precomputed = [views.to(x.device) for views in self.precomputed]
        self.views.prepare(x)
        if self.generated is not None:
            self.generated.prepare(x, seed)

    def finish(self) -> None:
        """Judge the generator, which may have been stopped in the middle of its phase."""
        if self.generated is not None:
            self.generated.check_learning()

    def describe(self) -> dict[str, Any]:
        return self.views.describe()

    def release(self) -> None:
        self.rows, self.precomputed = None, []
        self.views.release()
        if self.quality is not None:
            self.quality.release()
        if self.generated is not None:
            self.generated.release()

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        return self.framework.represent(x, output)

    @property
    def generates(self) -> bool:
        """Whether there is a generator that learned something."""
        return self.generated is not None and bool(self.generated.trained)

    @property
    def needs_pool(self) -> bool:
        return self.views.needs_pool and not self.generates

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """A generated view of each sample; a fixed one where there is no generator."""
        if self.generated is not None and self.generates:
            return self.generated.view(x, index, generator)
        if self.precomputed and index is not None:
            return self.precomputed[0][index]
        return self.views.view(x, index=index, generator=generator, framework=self.framework)

    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Of the cache of generated views (`GeneratedViews.diagnose`)."""
        return {} if self.generated is None else self.generated.diagnose()

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        return [] if self.generated is None else self.generated.warnings()
