"""Contrastive learning with fixed view makers: the baseline for learned augmentations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from viewsmith.core.rows import Rows
from viewsmith.core.schedule import Batch, Method, Optimizer, Phase, Update
from viewsmith.frameworks import Framework
from viewsmith.views.pair import PairMaker


class ContrastiveMethod(Method):
    """A framework that is trained on pairs of fixed views.

    Parameters
    ----------
    framework : Framework
        Encoder, head and pair loss.
    views : PairMaker
    epochs : int
    optimizer : Optimizer
    """

    def __init__(self, framework: Framework, views: PairMaker, *, epochs: int, optimizer: Optimizer) -> None:
        super().__init__()
        self.framework, self.views = framework, views
        self.epochs, self.optimizer = epochs, optimizer

    def phases(self) -> list[Phase]:
        update = Update("encoder", self.encoder_step, (self.framework, self.views), self.optimizer)
        return [Phase("train", self.epochs, [update])]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses of two views of each sample; trains encoder, head and view makers."""
        return self.framework(self.views.for_batch(batch, self.framework), batch.progress), {}

    def prepare(self, x: Rows, seed: int) -> None:
        self.views.prepare(x)

    def describe(self) -> dict[str, Any]:
        return self.views.describe()

    def release(self) -> None:
        self.views.release()

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        return self.views.represent(lambda rows: self.framework.represent(rows, output), x)

    @property
    def needs_pool(self) -> bool:
        return self.views.needs_pool

    @property
    def takes_coordinates(self) -> bool:
        return self.views.mixes_rows

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.views.view(x, index=index, generator=generator, framework=self.framework)
