"""LARS: stochastic gradient descent with a learning rate for each layer, scaled by the norm of its weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, algorithm 1 and equation 7).

    For each tensor w with gradient g::

        trust = eta |w| / (|g| + decay |w|)
        v <- momentum v + lr trust (g + decay w)
        w <- w - v

    The trust ratio is 1 where |w| or the denominator is 0, and in groups with ``excluded=True``: biases and the weights
    of normalization layers (SimCLR: Chen et al. 2020, appendix B.7; BYOL, Barlow Twins). A step does not synchronize
    with the device.

    Parameters
    ----------
    params : iterable
        Parameters or parameter groups. A group may override the arguments below.
    lr : float
        Learning rate.
    momentum : float
    weight_decay : float
        decay.
    trust_coefficient : float
        eta.
    excluded : bool
        Whether the trust ratio is always 1.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        trust_coefficient: float = 1e-3,
        excluded: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
            "excluded": excluded,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            weights: list[Any] = [p for p in group["params"] if p.grad is not None]
            if not weights:
                continue
            velocities, gradients = [self._velocity(p) for p in weights], [p.grad for p in weights]
            torch._foreach_mul_(velocities, group["momentum"])
            if group["excluded"]:
                torch._foreach_add_(velocities, gradients, alpha=group["lr"])
                if group["weight_decay"]:
                    torch._foreach_add_(velocities, weights, alpha=group["lr"] * group["weight_decay"])
            else:
                rates = _rates(weights, gradients, group)
                torch._foreach_addcmul_(velocities, gradients, rates)
                if group["weight_decay"]:
                    torch._foreach_addcmul_(velocities, weights, rates, value=group["weight_decay"])
            torch._foreach_sub_(weights, velocities)

    def _velocity(self, p: Tensor) -> Tensor:
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        found: Tensor = state["momentum_buffer"]
        return found


def _rates(weights: list[Any], gradients: list[Any], group: dict[str, Any]) -> list[Tensor]:
    """The learning rate times the trust ratio of each tensor, on the device."""
    norm = torch.stack(torch._foreach_norm(weights))
    denominator = torch.stack(torch._foreach_norm(gradients)) + group["weight_decay"] * norm
    trust = torch.where((norm > 0) & (denominator > 0), group["trust_coefficient"] * norm / denominator, 1.0)
    return list((group["lr"] * trust).unbind())
