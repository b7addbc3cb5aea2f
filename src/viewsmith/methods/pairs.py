"""What methods share that train a framework on pairs from view makers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from viewsmith.core.rows import Rows
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.frameworks import Framework
from viewsmith.views.pair import PairMaker


class PairMethod(Method):
    """A method with a framework and view makers: what it forwards to them, unless it overrides it.

    Parameters
    ----------
    framework : Framework
        Encoder, head and pair loss.
    views : PairMaker
    epochs : int
    optimizer : Optimizer
        Of encoder and head.
    """

    def __init__(self, framework: Framework, views: PairMaker, *, epochs: int, optimizer: Optimizer) -> None:
        super().__init__()
        self.framework, self.views = framework, views
        self.epochs, self.optimizer = epochs, optimizer

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

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.views.view(x, index=index, generator=generator, framework=self.framework)
