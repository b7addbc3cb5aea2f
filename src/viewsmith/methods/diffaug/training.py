"""DiffAug: an encoder and a conditional diffusion model train in turn (Zang et al. 2024, DiffAug: Enhance Unsupervised
Contrastive Learning with Domain-Knowledge-Free Diffusion-based Data Augmentation).

Symbols: x a sample, y = Enc(x) its representation, z its projection, Gen the diffusion model, lambda the probability
that a positive is replaced by a generated one. Step A trains the encoder with the soft contrastive loss (equation 5).
Positives are fixed views and, when the generator is trained, x+ = Gen(y). Step B trains the generator with the
denoising loss, conditioned on a copy of the encoder (equation 6, with the gradient and the products missing there). The
optimizers of encoder and generator live as long as the training, as in the authors' program.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.schedule import Batch, Optimizer, Phase, Update
from viewsmith.frameworks.soft import SoftContrastive
from viewsmith.methods.contrastive.training import PairMethod
from viewsmith.training.callbacks import left_the_data
from viewsmith.views.base import PairMaker, PositivePair
from viewsmith.views.generated.diffusion_views import GeneratedViews, generator_update

#: Warn if more than this fraction of generated views are outliers.
MANY_OUTLIERS = 0.5


class DiffAugMethod(PairMethod):
    """The soft contrastive framework, with some generated positives; options as in `viewsmith.DiffAug`."""

    framework: SoftContrastive
    generated: GeneratedViews

    def __init__(
        self,
        framework: SoftContrastive,
        views: PairMaker,
        generated: GeneratedViews,
        *,
        schedule: str,
        epochs: int,
        generator_epochs: int,
        optimizer: Optimizer,
        generator_optimizer: Optimizer,
        replacement: float,
        refresh: int,
        fresh: bool,
        on_top: bool,
    ) -> None:
        super().__init__(framework, views, generated, epochs=epochs, optimizer=optimizer)
        self.schedule = parse_phases(schedule)
        self.generator_epochs, self.generator_optimizer = generator_epochs, generator_optimizer
        self.replacement, self.refresh, self.fresh, self.on_top = replacement, refresh, fresh, on_top

    def phases(self) -> list[Phase]:
        learn = iter(_split(self.epochs, [n for letter, n in self.schedule if letter != "B"]))
        generate = iter(_split(self.generator_epochs, [n for letter, n in self.schedule if letter == "B"]))
        phases: list[Phase] = []
        done = 0
        for position, (letter, _) in enumerate(self.schedule):
            name = f"{letter}{1 + sum(letter == before for before, _ in self.schedule[:position])}"
            step_b = generator_update(self.generated, self.generator_step, self.generator_optimizer, continues=True)
            if letter == "B":
                phases.append(Phase(name, next(generate), [step_b], start=self._begin_b))
                continue
            epochs = next(learn)
            lr_span = done / self.epochs, (done + epochs) / self.epochs
            done += epochs
            optimizer = replace(self.optimizer, lr_span=lr_span)
            step_a = Update("encoder", self.encoder_step, (self.framework,), optimizer, continues=True)
            if letter == "J":
                phases.append(Phase(name, epochs, [step_a, step_b], start=self._begin_b))
            else:
                phases.append(Phase(name, epochs, [step_a], start=self._begin_a if position else None))
        return phases

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """A: the soft contrastive loss, with x+ = Gen(y) with probability lambda (equation 5); trains the encoder."""
        return self.framework(self.pair(batch), batch.progress), {}

    def generator_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """B: the denoising loss, conditioned on y of the copied encoder (equation 6); trains the generator."""
        return self.generated.loss(batch), {}

    def _begin_a(self, seed: int) -> None:
        self.generated.clear_cache()
        self.generated.check_learning()
        if self.fresh and self.replacement:
            self.generated.measure_drift()

    def _begin_b(self, seed: int) -> None:
        self.generated.copy_encoder(self.framework.encoder, self.framework.map_network)
        self.generated.fit_scales(seed)

    def pair(self, batch: Batch) -> PositivePair:
        """Two views of each sample; some of the second views are generated."""
        generated = self.positives(batch)
        if generated is None:
            return self.views.for_batch(batch, self.framework)
        new, replaced = generated
        where = replaced.view(-1, *[1] * (batch.x.ndim - 1))
        if self.on_top:
            return self.views.for_batch(batch, self.framework, second=torch.where(where, new, batch.x))
        pair = self.views.for_batch(batch, self.framework)
        ids = None if pair.ids is None else (pair.ids[0], torch.where(replaced, batch.index, pair.ids[1]))
        return replace(pair, second=torch.where(where, new, pair.second), ids=ids)

    def positives(self, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """Generated views of the batch, and which of them replace second views; None before there is a generator."""
        joint = self.schedule[0][0] == "J"
        if joint and self.generated.rounds <= batch.epoch:  # copy the encoder once per epoch
            self.generated.copy_encoder(self.framework.encoder, self.framework.map_network)
            self.generated.check_learning()
            self.generated.measure_drift()
        return self.generated.for_batch(batch, self.replacement, refresh=self.refresh, fresh=self.fresh or joint)

    def view_of_training(self, x: Tensor, index: Tensor, generator: torch.Generator) -> Tensor:
        """Fixed views where no positive is generated, so that they alone are measured, and none is sampled for it."""
        if self.replacement:
            return super().view_of_training(x, index, generator)
        return self.views.view(x, index=index, generator=generator, framework=self.framework)

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        y: Tensor = self.framework.encoder(x)
        if output == "representation":
            return y
        return (self.framework.map_network if output == "map" else self.framework.head)(y)

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        found = self.generated.warnings() + left_the_data(rows)
        if float(self.generated.drift) > MANY_OUTLIERS:
            found.append(
                f"generated views drift from their samples: the nearest row of {float(self.generated.drift):.0%} of "
                "them is not in the sample's neighborhood; use a smaller strength, or keep_outliers=False"
            )
        return found


def parse_phases(text: str) -> list[tuple[str, int]]:
    """Phases with their relative numbers of epochs, from "A200 B400 A800" or "ABA" (equal to "A1 B1 A1")."""
    found = re.findall(r"([ABJ])(\d*)", text)
    written = re.fullmatch(r"\s*(?:[ABJ]\d*\s*)+", text) is not None
    ordered = re.fullmatch("A(BA)*B?|J", "".join(letter for letter, _ in found)) is not None
    numbers = [number for _, number in found]
    if not (written and ordered and (not any(numbers) or (all(numbers) and all(map(int, numbers))))):
        raise InputError(
            f"phases is {text!r}, expected A, AB, ABA, ABABA and so on, or J for joint training, without numbers or "
            "with the epochs of each phase, as 'A200 B400 A800'"
        )
    return [(letter, int(number or 1)) for letter, number in found]


def _split(total: int, numbers: Sequence[int]) -> list[int]:
    """Divide `total` into integers in proportion to `numbers`."""
    ends = [total * end // sum(numbers) for end in itertools.accumulate(numbers)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
