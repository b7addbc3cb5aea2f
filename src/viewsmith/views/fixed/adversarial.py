"""Adversarial views: the sample moved to where the contrastive loss grows fastest (CLAE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.registry import register
from viewsmith.views.base import Pair, ViewContext, ViewMaker, randn

#: From a pair to its losses, (B,): a framework, or a function that guards its own state.
PairLoss = Callable[[Pair], Tensor]


class AdversarialViews(ViewMaker):
    """One step up the pair loss: x + s * sign(g), g its gradient by x (CLAE: Ho and Vasconcelos 2020, section 3).

    The loss is an argument: ``maker.pair(pair, loss=framework)``, any function of a `Pair` that returns losses (B,).
    The gradient is that of the whole batch's loss at the pair as it comes, taken in float32 and with the framework in
    eval mode: BatchNorm uses its running statistics, and neither they nor queues and momentum copies move. Nothing is
    differentiated through the step.

    A single view (``maker(x, loss=framework)``) has no partner: it is the second view of a pair whose first view is the
    sample with Gaussian noise of standard deviation s.

    Parameters
    ----------
    strength : float
        s in scaled units: the step of every feature ("sign") or the root mean square over the features ("length").
    step : {"sign", "length"}
        "length": x + s * sqrt(d) * g / ||g||, which leaves features alone that the loss does not see.
    both : bool
        Move both views of a pair, each by its own gradient; otherwise the second alone.
    """

    needs_loss = True

    def __init__(self, strength: float = 0.1, step: Literal["sign", "length"] = "sign", *, both: bool = False) -> None:
        super().__init__()
        self.strength, self.views_made = strength, 2 if both else 1
        self.step: Literal["sign", "length"] = step

    def forward(
        self,
        x: Tensor,
        *,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
        loss: PairLoss | None = None,
    ) -> Tensor:
        noisy = torch.where(_real(x), x + self.strength * randn(x, generator), x)
        return self.pair(Pair(noisy, x, None if index is None else (index, index)), loss=loss).second

    def pair(self, pair: Pair, *, generator: torch.Generator | None = None, loss: PairLoss | None = None) -> Pair:
        """The pair with its second view (or both) moved up the loss.

        Raises
        ------
        RuntimeError
            There is no loss.
        """
        if loss is None:
            raise RuntimeError("adversarial views climb a pair loss: give the framework, as loss=framework")
        views = [pair.first, pair.second]
        inputs = [view.detach().requires_grad_() for view in views]
        with _probing(loss), torch.enable_grad(), torch.autocast(pair.first.device.type, enabled=False):
            # The sum, not the mean: signs do not care, and small gradients stay further from zero.
            total = loss(Pair(inputs[0], inputs[1], pair.ids, pair.local)).sum()
            gradients = torch.autograd.grad(total, inputs, allow_unused=True)
        # A loss that only reads the second views (MoCo's keys) is climbed by the first.
        sides = (0, 1) if self.views_made == 2 else (1,) if gradients[1] is not None else (0,)
        for side in sides:
            if (gradient := gradients[side]) is not None:
                views[side] = views[side] + self._move(gradient, views[side])
        return Pair(views[0], views[1], pair.ids, pair.local)

    def _move(self, gradient: Tensor, x: Tensor) -> Tensor:
        gradient = torch.where(_real(x), gradient, 0)
        if self.step == "sign":
            return self.strength * gradient.sign()
        mean_square = gradient.flatten(1).square().mean(1).view(-1, *[1] * (x.ndim - 1))
        return self.strength * gradient / torch.where(mean_square > 0, mean_square, 1).sqrt()


def _real(x: Tensor) -> Tensor:
    """Where there is something to move: positions after the end of a sequence, (B, 4, L), must stay zero."""
    return (x != 0).any(1, keepdim=True) if x.ndim == 3 else torch.ones((), dtype=torch.bool, device=x.device)


@contextmanager
def _probing(loss: PairLoss) -> Iterator[None]:
    """Eval mode for all parts of a framework, and afterwards the mode each of them had."""
    training = [part for part in loss.modules() if part.training] if isinstance(loss, nn.Module) else []
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@register("view maker", "adversarial", help="a step that raises the loss (CLAE)", source="Ho and Vasconcelos 2020")
def _adversarial(context: ViewContext, *, adversarial_strength: float = 0.1) -> AdversarialViews:
    return AdversarialViews(adversarial_strength)
