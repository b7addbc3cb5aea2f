"""GenView: generated views with a noise level for each sample, and pairs weighted by quality (Li et al. 2024,
GenView: Enhancing View Quality with Pretrained Generative Model for Self-Supervised Learning).

Symbols: X a sample, X+ its generated view, t and t+ fixed augmentations, P = t(X) and P+ = t+(X+) a pair of views, q
its quality, w its weight, L the loss of any framework. With probability alpha, one of the two sources of a pair is
X+ and the other is X (equation 6). The loss is the mean of w L (equations 10 to 14). X+ is precomputed (equation 9), or
comes from a generator that is trained between two phases of the encoder.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.distributed import gather
from viewsmith.core.samples import Rows
from viewsmith.core.schedule import Batch, Optimizer, Phase, Update
from viewsmith.frameworks import Framework
from viewsmith.losses.quality import quality_weights
from viewsmith.methods.contrastive.training import PairMethod
from viewsmith.methods.genview.parts import Passes, ViewQuality
from viewsmith.training.callbacks import left_the_data
from viewsmith.views.base import PairMaker, PositivePair
from viewsmith.views.generated.diffusion_views import GeneratedViews, generator_update, take

#: Source of the first and of the second views, int64 (B,) each: 0 is the sample, k is its generated view k - 1.
Sources = tuple[Tensor, Tensor]
Start = Callable[[int], None]


class GenViewMethod(PairMethod):
    """A framework with views `generated` (trained between two phases) or `precomputed` (one of each row in each
    element), and weights for its pairs after `first_fraction`; options as in `viewsmith.GenView`."""

    def __init__(
        self,
        framework: Framework,
        views: PairMaker,
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
        precomputed: Sequence[Rows] = (),
    ) -> None:
        super().__init__(framework, views, generated, epochs=epochs, optimizer=optimizer)
        self.quality = quality
        self.alpha, self.gamma, self.on_top, self.first_fraction = alpha, gamma, on_top, first_fraction
        self.generator_epochs, self.generator_optimizer = generator_epochs, generator_optimizer
        self.precomputed = list(precomputed)
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
        lr_span = begin / self.epochs, end / self.epochs
        update = Update("encoder", self.encoder_step, (self.framework,), replace(self.optimizer, lr_span=lr_span))
        return Phase(name, end - begin, [update], start=start)

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses of the pairs, multiplied by their weights (equation 14); trains encoder and head."""
        pair, sources = self.pair(batch)
        losses, passes = self.losses(pair, batch.progress)
        found = self.weights(batch, pair, sources, passes)
        if found is None:
            return losses, {}
        weights, logs = found
        return weights.to(losses.dtype) * losses, logs

    def generator_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The denoising loss of the samples; trains the generator."""
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
        """Start to measure quality, with a copy of the current encoder or with a pretrained network."""
        assert self.quality is not None and self.rows is not None
        if self.quality.needs_trained_encoder or not self.quality.ready:
            self.quality.copy_encoder(self.framework.encoder, self.rows)
        self.quality.release()  # its cached maps do not contain new views

    def pair(self, batch: Batch) -> tuple[PositivePair, Sources | None]:
        """Two views of each sample, one of them possibly of a generated sample (equation 6), and their sources."""
        generated = self.generated_views()
        if not generated or not self.alpha:
            return self.views.for_batch(batch, self.framework), None
        draws = torch.rand((2, len(batch.x)), generator=batch.generator, device=batch.x.device)
        number = torch.randint(len(generated), draws.shape[1:], generator=batch.generator, device=batch.x.device)
        use_generated, in_first = draws[0] < self.alpha, draws[1] < 0.5
        first, second = use_generated & in_first, use_generated & ~in_first
        sources = torch.where(first, number + 1, 0), torch.where(second, number + 1, 0)
        new = take(generated, batch.index, number)
        masks = [mask.view(-1, *[1] * (batch.x.ndim - 1)) for mask in (first, second)]
        if self.on_top:
            samples = [torch.where(mask, new, batch.x) for mask in masks]
            return self.views.for_batch(replace(batch, x=samples[0]), self.framework, second=samples[1]), sources
        pair = self.views.for_batch(batch, self.framework)
        ids = None
        if pair.ids is not None:
            ids = (torch.where(first, batch.index, pair.ids[0]), torch.where(second, batch.index, pair.ids[1]))
        views = torch.where(masks[0], new, pair.first), torch.where(masks[1], new, pair.second)
        return replace(pair, first=views[0], second=views[1], ids=ids, crops=None), sources

    def generated_views(self) -> list[Rows]:
        """Generated views of the training rows; an empty list if there are none."""
        return self.precomputed if self.generated is None else self.generated.cached_views()

    def losses(self, pair: PositivePair, progress: float) -> tuple[Tensor, Passes | None]:
        """The framework's losses, (B,), and the feature maps of its passes if quality is computed from them."""
        if self.quality is None or not self.quality.ready or self.quality.source != "encoder":
            return self.framework(pair, progress), None
        with self.quality.record_passes(self.framework) as passes:
            return self.framework(pair, progress), passes

    def weights(
        self, batch: Batch, pair: PositivePair, sources: Sources | None, passes: Passes | None = None
    ) -> tuple[Tensor, dict[str, Tensor]] | None:
        """Weights of the pairs by quality, over all processes, and values to log; None: all weights are 1."""
        if self.quality is None or not self.quality.ready:
            return None
        if passes is not None:
            q = self.quality.from_passes(passes, len(batch.x))
        elif self.quality.source == "cached" and pair.crops is not None:
            if not self.quality.cached_maps:
                assert self.rows is not None
                self.quality.cache_maps([self.rows, *self.generated_views()])
            zeros = torch.zeros_like(batch.index)
            q = self.quality.from_cached_maps(batch.index, sources or (zeros, zeros), pair.crops)
        else:
            q = self.quality(pair.first, pair.second)
        weights = quality_weights(q, self.gamma, gathered=gather(q))
        return weights, {"quality": q.mean(), "largest_weight": weights.max()}

    def prepare(self, x: Rows, seed: int) -> None:
        self.rows = x
        self.precomputed = [views.to(x.device) for views in self.precomputed]
        super().prepare(x, seed)

    def release(self) -> None:
        self.rows, self.precomputed = None, []
        super().release()
        if self.quality is not None:
            self.quality.release()

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        if self.precomputed and index is not None:
            return self.precomputed[0][index]
        return super().view(x, index=index, generator=generator)

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        return [] if self.generated is None else self.generated.warnings() + left_the_data(rows)
