"""What methods share that train a framework on pairs from view makers."""

from typing import Any

import torch
from torch import Tensor

from viewsmith.core.samples import Rows
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.frameworks import Framework
from viewsmith.views.base import PairMaker
from viewsmith.views.generated.diffusion_views import GeneratedViews


class PairMethod(Method):
    """A method with a framework, view makers, and maybe generated views: what it forwards to them by default."""

    def __init__(
        self,
        framework: Framework,
        views: PairMaker,
        generated: GeneratedViews | None = None,
        *,
        epochs: int,
        optimizer: Optimizer,
    ) -> None:
        super().__init__()
        self.framework, self.views, self.generated = framework, views, generated
        self.epochs, self.optimizer = epochs, optimizer

    def prepare(self, x: Rows, seed: int) -> None:
        self.views.prepare(x)
        if self.generated is not None:
            self.generated.prepare(x, seed)

    def finish(self) -> None:
        """Check the generator, because training can stop in the middle of its phase."""
        if self.generated is not None:
            self.generated.check_learning()

    def describe(self) -> dict[str, Any]:
        return self.views.describe()

    def release(self) -> None:
        self.views.release()
        if self.generated is not None:
            self.generated.release()

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        return self.views.represent(lambda rows: self.framework.represent(rows, output), x)

    @property
    def generates(self) -> bool:
        """Whether there is a trained generator."""
        return self.generated is not None and self.generated.trained

    @property
    def needs_pool(self) -> bool:
        return self.views.needs_pool and not self.generates

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample, generated if there is a trained generator."""
        if self.generated is not None and self.generates:
            return self.generated.view(x, index, generator)
        return self.views.view(x, index=index, generator=generator, framework=self.framework)

    def diagnose(self, x: Tensor, generator: torch.Generator, index: Tensor | None = None) -> dict[str, float]:
        """Diagnostics of generated views, see `GeneratedViews.diagnose`."""
        return {} if self.generated is None else self.generated.diagnose()
