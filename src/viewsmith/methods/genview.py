"""GenView: generated views with noise that each sample can bear, and pairs weighted by their quality (Li et al. 2024,
GenView: Enhancing View Quality with Pretrained Generative Model for Self-Supervised Learning).

Symbols: X a sample, X+ its generated view, t and t+ fixed augmentations, P = t(X) and P+ = t+(X+) a pair of views, q
its quality, w its weight, L the loss of any framework. One of the two sources of a pair is X+ with probability alpha,
the other stays X (equation 6); the loss is the mean of w L (equations 10 to 14). X+ comes from a bank made beforehand
(equation 9), or from a generator that is trained in between.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.core.samples import Rows
from viewsmith.frameworks import Framework
from viewsmith.losses.quality import quality_weights
from viewsmith.methods.diffaug import GeneratorStep
from viewsmith.views.generated import GeneratedViews
from viewsmith.views.pair import Pair, ViewPair
from viewsmith.views.quality import ViewQuality


class GenViewMethod(Method):
    """A framework with generated views, and weights for its pairs.

    Parameters
    ----------
    framework : Framework
        Encoder, head and pair loss.
    views : ViewPair
        The fixed augmentations t and t+.
    generated : GeneratedViews, optional
        A generator to train in between, and the views it makes. Without it, views come from `bank`.
    quality : ViewQuality, optional
        Weighs pairs; without it all weights are 1.
    alpha : float
        Probability that one of the two sources of a pair is generated; 0: the framework alone.
    gamma : float
        Of the weights, ``n softmax(gamma q)``.
    on_top : bool
        Fixed views are applied to generated samples too (crops of a generated image), not instead of them.
    first_share : float
        Share of the epochs before anything is made of the encoder: the copy that sees quality, the generator.
    epochs, generator_epochs : int
    optimizer, generator_optimizer : Optimizer
        The encoder's schedule runs once over all its phases.

    Attributes
    ----------
    bank : sequence of Tensor or Samples
        One view of each training row in each, scaled; to be set before training where there is no generator.
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
        first_share: float,
        epochs: int,
        generator_epochs: int,
        optimizer: Optimizer,
        generator_optimizer: Optimizer,
    ) -> None:
        super().__init__()
        self.framework, self.views = framework, views
        self.generated, self.quality = generated, quality
        self.alpha, self.gamma, self.on_top, self.first_share = alpha, gamma, on_top, first_share
        self.epochs, self.generator_epochs = epochs, generator_epochs
        self.optimizer, self.generator_optimizer = optimizer, generator_optimizer
        self.bank: list[Rows] = []
        self.rows: Rows | None = None
        views.bind(framework)

    def phases(self) -> list[Phase]:
        later = self.quality is not None or self.generated is not None
        first = round(self.first_share * self.epochs) if later else 0
        phases = [self._encoder_phase("first", 0, first, None)] if first else []
        if self.generated is not None:
            step = Update("generator", GeneratorStep(self.generated), optimizer=self.generator_optimizer)
            phases.append(Phase("generator", self.generator_epochs, [step], start=self._begin_generator))
        return [*phases, self._encoder_phase("train", first, self.epochs, self._begin_training if later else None)]

    def _encoder_phase(self, name: str, begin: int, end: int, start: object) -> Phase:
        span = begin / self.epochs, end / self.epochs
        step = Update("encoder", _EncoderStep(self, span), optimizer=replace(self.optimizer, span=span))
        return Phase(name, end - begin, [step], start=start)  # type: ignore[arg-type]

    def _begin_generator(self, seed: int) -> None:
        assert self.generated is not None
        self.generated.follow(self.framework.encoder, self.framework.head)
        self.generated.begin(seed)

    def _begin_training(self, seed: int) -> None:
        if self.generated is not None:
            self.generated.forget_bank()
            self.generated.judge()
        if self.quality is not None:
            assert self.rows is not None
            self.quality.follow(self.framework.encoder, self.rows)

    def pair(self, batch: Batch, progress: float) -> Pair:
        """Two views of each sample, one of them perhaps of a generated one (equation 6)."""
        views = partial(self.views, index=batch.index, generator=batch.generator, progress=progress)
        generated = self._generated(batch)
        if generated is None:
            return views(batch.x)
        made, taken = generated
        side = torch.rand(len(taken), generator=batch.generator, device=taken.device) < 0.5
        first, second = taken & side, taken & ~side
        here = [which.view(-1, *[1] * (batch.x.ndim - 1)) for which in (first, second)]
        if self.on_top:
            return views(torch.where(here[0], made, batch.x), second=torch.where(here[1], made, batch.x))
        pair = views(batch.x)
        ids = None
        if pair.ids is not None:
            ids = (torch.where(first, batch.index, pair.ids[0]), torch.where(second, batch.index, pair.ids[1]))
        return replace(
            pair,
            first=torch.where(here[0], made, pair.first),
            second=torch.where(here[1], made, pair.second),
            ids=ids,
        )

    def _generated(self, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """Generated views of the batch, and which of them to take; None: there are none (yet)."""
        if self.generated is not None:
            return self.generated.for_batch(batch, self.alpha, refresh=0, fresh=False)
        if not self.bank or not self.alpha:
            return None
        taken = torch.rand(len(batch.x), generator=batch.generator, device=batch.x.device) < self.alpha
        number = torch.randint(len(self.bank), taken.shape, generator=batch.generator, device=batch.x.device)
        return self._from_bank(batch.index, number), taken

    def _from_bank(self, index: Tensor, number: Tensor) -> Tensor:
        found = self.bank[0][index]
        for position, kept in enumerate(self.bank[1:], start=1):
            here = (number == position).nonzero()[:, 0]
            found[here] = kept[index[here]]
        return found

    def weights(self, pair: Pair) -> tuple[Tensor, dict[str, Tensor]] | None:
        """Weights of the pairs by their quality among those of all processes, and what to log; None: all are 1."""
        if self.quality is None or not self.quality.ready:
            return None
        q = self.quality(pair.first, pair.second)
        weights = quality_weights(q, self.gamma, everywhere=gather(q))
        return weights, {"quality": q.mean(), "largest_weight": weights.max()}

    # ---- Method ---------------------------------------------------------------------------------------------------

    def prepare(self, x: Rows, seed: int) -> None:
        self.rows = x
        self.bank = [kept.to(x.device) for kept in self.bank]
        self.views.prepare(x)
        if self.generated is not None:
            self.generated.prepare(x, seed)

    def release(self) -> None:
        self.rows, self.bank = None, []
        self.views.release()
        if self.generated is not None:
            self.generated.release()

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        h: Tensor = self.framework.encoder(x)
        return h if output == "representation" else self.framework.head(h)

    @property
    def generates(self) -> bool:
        """Whether there is a generator that learned something."""
        return self.generated is not None and bool(self.generated.usable)

    @property
    def borrows(self) -> bool:
        return self.views.borrows and not self.generates

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """A generated view of each sample; a fixed one where there is no generator."""
        if self.generated is not None and self.generates:
            return self.generated.view(x, index, generator)
        if self.bank and index is not None:
            return self._from_bank(index, torch.zeros_like(index))
        return self.views.view(x, index=index, generator=generator)

    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Of the generator's bank: the share of views that have left their sample's neighbourhood, and similarity."""
        made = self.generated
        if made is None or not (made.drift or made.similarity):
            return {}
        return {"drift": float(made.drift), "generated_similarity": float(made.similarity)}

    def warnings(self) -> list[str]:
        if self.generated is None or not self.generated.start_loss or self.generated.usable:
            return []
        return [
            "the generator diverged (its denoising loss is not finite, or above its start): training went on with "
            "fixed views; lower generator_learning_rate"
        ]


class _EncoderStep(nn.Module):
    """The framework's losses of a batch, each times its weight (equation 14)."""

    def __init__(self, method: GenViewMethod, span: tuple[float, float]) -> None:
        super().__init__()
        self.framework, self.span = method.framework, span
        self.method = [method]  # in a list: its other parts do not belong to this update

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        method = self.method[0]
        progress = self.span[0] + batch.progress * (self.span[1] - self.span[0])
        pair = method.pair(batch, progress)
        losses = self.framework(pair, progress)
        found = method.weights(pair)
        if found is None:
            return losses, {}
        weights, logs = found
        return weights.to(losses.dtype) * losses, logs
