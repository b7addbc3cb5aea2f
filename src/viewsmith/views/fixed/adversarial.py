"""Adversarial views: the sample moved in the direction in which the contrastive loss grows fastest (CLAE)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import check_choice, check_weight
from viewsmith.core.registry import register
from viewsmith.networks.eval_mode import eval_mode
from viewsmith.views.base import Pair, ViewContext, ViewMaker, randn

#: Maps a pair to its losses, (B,): a framework, or a function that does not change its state.
PairLoss = Callable[[Pair], Tensor]


class AdversarialViews(ViewMaker):
    """A gradient step that raises the pair loss: x + s * sign(g) (CLAE: Ho and Vasconcelos 2020, section 3).

    The loss is an argument, ``maker.pair(pair, loss=framework)``: any function of a `Pair` that returns losses (B,). g
    is the gradient of the loss of the whole batch with respect to x, computed without autocast and with the framework
    in evaluation mode: BatchNorm uses its running statistics, and neither these nor queues and momentum copies change.
    The step itself is not differentiated.

    A single view (``maker(x, loss=framework)``) is the second view of a pair whose first view is the sample with
    Gaussian noise of standard deviation s.

    Parameters
    ----------
    strength : float
        s in scaled units: the step of each feature ("sign") or its root mean square over the features ("length").
    step : {"sign", "length"}
        "sign": as above. "length": x + s * sqrt(d) * g / ||g||, which does not change features without gradient.
    both : bool
        Move both views of a pair, each by its own gradient. Default: only the second.
    """

    needs_loss = True

    def __init__(self, strength: float = 0.1, step: Literal["sign", "length"] = "sign", *, both: bool = False) -> None:
        super().__init__()
        check_weight("strength", strength)
        check_choice("step", step, Literal["sign", "length"])
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
        """The pair with its second view (or both) moved, so that the loss grows.

        Raises
        ------
        RuntimeError
            `loss` is not given.
        """
        if loss is None:
            raise RuntimeError("adversarial views need a pair loss: give the framework, as loss=framework")
        views = [pair.first, pair.second]
        inputs = [view.detach().requires_grad_() for view in views]
        parts = [loss] if isinstance(loss, nn.Module) else []
        with eval_mode(*parts), torch.enable_grad(), torch.autocast(pair.first.device.type, enabled=False):
            # The sum instead of the mean: the sign is the same, and small gradients do not underflow.
            total = loss(Pair(inputs[0], inputs[1], pair.ids, pair.local)).sum()
            gradients = torch.autograd.grad(total, inputs, allow_unused=True)
        # If the loss has no gradient with respect to the second views (MoCo's keys), the first views are moved.
        moved = (0, 1) if self.views_made == 2 else (1,) if gradients[1] is not None else (0,)
        for i in moved:
            if (gradient := gradients[i]) is not None:
                views[i] = views[i] + self._step(gradient, views[i])
        return Pair(views[0], views[1], pair.ids, pair.local)

    def _step(self, gradient: Tensor, x: Tensor) -> Tensor:
        gradient = torch.where(_real(x), gradient, 0)
        if self.step == "sign":
            return self.strength * gradient.sign()
        mean_square = gradient.flatten(1).square().mean(1).view(-1, *[1] * (x.ndim - 1))
        return self.strength * gradient / torch.where(mean_square > 0, mean_square, 1).sqrt()


def _real(x: Tensor) -> Tensor:
    """The positions that may change: the padding of sequences, (B, 4, L), must stay zero."""
    return (x != 0).any(1, keepdim=True) if x.ndim == 3 else torch.ones((), dtype=torch.bool, device=x.device)


@register(
    "view maker", "adversarial", help="a gradient step that raises the loss (CLAE)", source="Ho and Vasconcelos 2020"
)
def _adversarial(context: ViewContext, *, adversarial_strength: float = 0.1) -> AdversarialViews:
    return AdversarialViews(adversarial_strength)
