"""A few labels in the training of any method that has a framework: a supervised contrastive term on labeled rows.

Symbols: z the projection of a view, y its class, S a draw of labeled rows, w the weight. Every update that trains the
encoder has the loss ``L + w L_sup``. L_sup is the supervised contrastive loss (Khosla et al. 2020, equation 2) of two
views of each row in S: positives are all views of rows of the same class. Where y is a number, L_sup is Rank-N-Contrast
(Zha et al. 2023, equations 1 and 2): views attract by the order of the distances of their numbers.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows, Samples
from viewsmith.core.schedule import Batch, Method, Phase, Update
from viewsmith.frameworks.base import Framework
from viewsmith.losses.sup_con import rank_n_contrast, sup_con
from viewsmith.networks.base import batch_norm_momentum
from viewsmith.views.base import PairMaker, PositivePair

#: Labeled rows of a draw; a training step with the default batch then takes about a quarter more time.
DRAWN = 128
TEMPERATURE = 0.1


@dataclass(frozen=True)
class FewLabels:
    """Labels of some of the training rows, (n,): class numbers from 0 and -1 for none; or a continuous target, float64,
    and NaN."""

    codes: Tensor
    weight: float = 1.0

    @property
    def rows(self) -> Tensor:
        """Rows with a label, int64 (m,)."""
        known = ~self.codes.isnan() if self.codes.is_floating_point() else self.codes >= 0
        return known.nonzero()[:, 0]


def draw_weights(codes: Tensor) -> Tensor:
    """Weights of rows in a draw, (m,): 1 / (rows of the class), so that classes are equally likely; for numbers 1."""
    if codes.is_floating_point():
        return torch.ones_like(codes)
    return 1.0 / codes.bincount()[codes].double()


class SupervisedTerm:
    """L_sup of a draw of labeled rows.

    All labeled rows are in the draw if there are at most `drawn`; otherwise `drawn` of them without repetition, every
    class, or every number, with the same probability. Second views show the class of their first view, also where they
    are other rows (neighbors).
    """

    def __init__(
        self,
        framework: Framework,
        views: PairMaker,
        x: Rows,
        labels: FewLabels,
        device: torch.device,
        drawn: int = DRAWN,
    ) -> None:
        self.framework, self.views, self.drawn = framework, views, drawn
        index = labels.rows.to(x.device)
        labeled: Rows = Samples(torch.as_tensor(x.rows[index]), x.scale) if isinstance(x, Samples) else x[index]
        self.x, self.index = labeled.to(device), index.to(device)
        self.codes = labels.codes.to(device)[self.index]
        self.weights = draw_weights(self.codes)

    def __call__(self, batch: Batch, loss: nn.Module | None = None) -> Tensor:
        """The mean of L_sup over the draw, a scalar; `loss` is the framework for views that need its losses."""
        chosen = torch.arange(len(self.index), device=self.index.device)
        if len(chosen) > self.drawn:
            chosen = torch.multinomial(self.weights, self.drawn, generator=batch.generator)
        pair = self.views(
            self.x[chosen],
            index=self.index[chosen],
            generator=batch.generator,
            progress=batch.progress,
            framework=loss or self.framework,
        )
        y = self.codes[chosen]
        # Few labeled rows would shift the running statistics.
        with batch_norm_momentum([m for m in self.framework.modules() if isinstance(m, _BatchNorm)], 0.0):
            z = self.framework.project_pair(PositivePair(pair.first, pair.second))
        with torch.autocast(z.device.type, enabled=False):
            z0, z1 = z.chunk(2)
            if y.is_floating_point():
                return rank_n_contrast(z0, z1, y).mean()
            return sup_con(z0, z1, (y, y), temperature=TEMPERATURE).mean()


def supervised_phases(method: Method, x: Rows, labels: FewLabels, device: torch.device) -> list[Phase]:
    """The schedule of a method, with the supervised term in every update that trains the encoder."""
    framework, views = getattr(method, "framework", None), getattr(method, "views", None)
    if not isinstance(framework, nn.Module) or not isinstance(views, PairMaker):
        raise InputError(
            f"supervision is 'labels', but {type(method).__name__} has no framework: expected a method with one; "
            "leave supervision out"
        )
    term = SupervisedTerm(framework, views, x, labels, device)  # type: ignore[arg-type]
    loss = getattr(method, "view_framework", framework)
    trained = {id(parameter) for parameter in framework.get_submodule("encoder").parameters()}

    def with_term(update: Update) -> Update:
        if not any(id(parameter) in trained for parameter in update.parameters()):
            return update

        def step(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:  # the mean of l_i + w L_sup is L + w L_sup
            losses, logs = update.step(batch)
            value = term(batch, loss)
            return losses + labels.weight * value, {**logs, "supervised": value.detach()}

        return replace(update, step=step, static=False)

    return [replace(phase, updates=[with_term(update) for update in phase.updates]) for phase in method.phases()]
