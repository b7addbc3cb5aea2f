"""What methods share that train a framework on pairs from view makers; and the plain one, contrastive learning with
fixed view makers, the baseline for learned augmentations."""

from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows, evenly_spaced
from viewsmith.core.schedule import Batch, Method, Optimizer, Phase, Update
from viewsmith.core.tensors import derive_seed
from viewsmith.frameworks import Framework
from viewsmith.methods.linear_contrast.training import LinearContrastMethod
from viewsmith.networks.base import eval_mode, is_static
from viewsmith.views.base import PairMaker
from viewsmith.views.generated.diffusion_views import GeneratedViews

#: Squared length of the columns of the closed form, as a multiple of that of the trained ones, by so many rows.
RATIO, MEASURED = 3.0, 1000


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


class ContrastiveMethod(PairMethod):
    """A framework that is trained on pairs of fixed views; beside it, maybe, the contrast in closed form."""

    def __init__(
        self,
        framework: Framework,
        views: PairMaker,
        closed: LinearContrastMethod | None = None,
        *,
        epochs: int,
        optimizer: Optimizer,
    ) -> None:
        super().__init__(framework, views, epochs=epochs, optimizer=optimizer)
        self.closed = closed
        self.rows: Rows | None = None
        if closed is not None:
            self.length = nn.Buffer(torch.ones(()))

    def phases(self) -> list[Phase]:
        update = Update(
            "encoder",
            self.encoder_step,
            (self.framework, self.views),
            self.optimizer,
            static=is_static(self.framework, self.views),
            network=self.framework.encoder,
        )
        return [Phase("train", self.epochs, [update])]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses of two views of each sample; trains encoder, head and view makers."""
        return self.framework(self.views.for_batch(batch, self.framework), batch.progress), {}

    @property
    def takes_coordinates(self) -> bool:
        return self.views.mixes_rows and self.closed is None

    def initialize(self, x: Rows, seed: int) -> None:
        if self.closed is not None:
            self.closed.initialize(x, seed)
            self.closed.prepare(x, seed)
            self.closed.solve_for(derive_seed(seed, "phase", 0))  # as `LinearContrast` of this seed
            self.closed.sums = None
            self.closed.release()

    def prepare(self, x: Rows, seed: int) -> None:
        super().prepare(x, seed)
        self.rows = x

    def release(self) -> None:
        super().release()
        self.rows = None

    def describe(self) -> dict[str, Any]:
        return super().describe() | ({} if self.closed is None else {"closed_form": self.closed.facts["chosen"]})

    @torch.no_grad()
    def finish(self) -> None:
        """Set the length of the columns of the closed form by that of the trained ones."""
        super().finish()
        if self.closed is not None and self.rows is not None:
            with eval_mode(self):
                x = self.rows[evenly_spaced(len(self.rows), MEASURED, self.rows.device)]
                trained, closed = (
                    torch.cat([represent(part) for part in x.split(256)]).square().sum(1).mean()
                    for represent in (self.represent_trained, self.closed.represent)
                )
            self.length.copy_((RATIO * trained / closed.clamp_min(1e-12)).sqrt())

    def represent_trained(self, x: Tensor) -> Tensor:
        """The trained columns alone, (B, k)."""
        return super().represent(x)

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        found = super().represent(x, output)
        if self.closed is None or output != "representation":
            return found
        return torch.cat([found, self.length * self.closed.represent(x)], dim=1)
