"""An update at work: the parameters it trains, the rest of the method frozen, its step in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer as TorchOptimizer

from viewsmith.core import distributed
from viewsmith.core.device import on_host
from viewsmith.core.errors import InputError, TrainingError
from viewsmith.core.method import Batch, Method, Optimizer, Step, Update
from viewsmith.training.optimizers import make_optimizer


@dataclass
class RunningUpdate:
    """An update with its optimizer, and its sums of the epoch.

    Attributes
    ----------
    name, every, after, may_diverge
        Of the update.
    step : callable
        The update's step, wrapped where there are several processes.
    parameters, others : list of Parameter
        Those that move, and those to freeze during the step.
    spec, optimizer
        The optimizer's specification, and torch's optimizer.
    loss, logs, count
        Sums over the steps of the epoch, on the device, and the number of steps.
    """

    name: str
    every: int
    step: Step
    parameters: list[nn.Parameter]
    others: list[nn.Parameter]
    spec: Optimizer
    optimizer: TorchOptimizer
    after: Callable[[], None] | None = None
    may_diverge: bool = False
    loss: Tensor | None = None
    logs: dict[str, Tensor] = field(default_factory=dict)
    count: int = 0

    def clear_gradients(self) -> None:
        """What ``optimizer.zero_grad(set_to_none=True)`` does, without its profiler hooks."""
        for parameter in self.parameters:
            parameter.grad = None

    def drop_divergence(self, loss: Tensor) -> Tensor:
        """Make all gradients zero if one is not finite; returns the loss, or 0 if it is not finite.

        In several processes the gradients are averages by now, so that all decide alike.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        finite = torch.stack(torch._foreach_norm(gradients)).norm().isfinite()
        if not (on_host(finite) and finite):
            for gradient in gradients:
                gradient.copy_(torch.where(finite, gradient, 0))
        return torch.where(loss.isfinite(), loss, 0)

    def add(self, loss: Tensor, logs: dict[str, Tensor]) -> None:
        """Add a step to the sums of the epoch; nothing here waits for the device."""
        self.loss = loss.detach() if self.loss is None else self.loss + loss.detach()
        for name, value in logs.items():
            self.logs[name] = self.logs[name] + value.detach() if name in self.logs else value.detach()
        self.count += 1

    def clear(self) -> None:
        """Start the sums of the next epoch."""
        self.loss, self.logs, self.count = None, {}, 0


def begin(update: Update, method: Method) -> RunningUpdate:
    """Make an update ready to run.

    Raises
    ------
    InputError
        No parameter of what it trains requires a gradient, or one is no part of the method; or its optimizer asks for
        a predictor or a last layer, and no module names one.
    """
    parameters, everything = update.parameters(), list(method.parameters())
    label = f"update {update.name!r} of {type(method).__name__}"
    if not parameters:
        raise InputError(f"{label} trains nothing: none of the parameters in its trains requires a gradient")
    moving, known = {id(p) for p in parameters}, {id(p) for p in everything}
    if not moving <= known:
        raise InputError(
            f"{label} trains parameters that are not part of the method and would not be saved: "
            "make their module an attribute of the method"
        )
    others = [p for p in everything if p.requires_grad and id(p) not in moving]
    step = _averaging(update.step, method, others) if distributed.is_distributed() else update.step
    spec = update.optimizer or Optimizer()
    roles = {role: update.parameters_of(role) for role in spec.roles}
    if missing := [role for role, found in roles.items() if not found]:
        raise InputError(f"{label} has no {missing[0]} to treat apart: name it in training_roles of the framework")
    optimizer = make_optimizer(spec, parameters, roles)
    return RunningUpdate(
        update.name, update.every, step, parameters, others, spec, optimizer, update.after, update.may_diverge
    )


class frozen:
    """While it is entered, parameters require no gradient; afterwards they require one again.

    A plain class, because it is entered in every step: a generator would cost more than the step of a small method.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters

    def __enter__(self) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(False)

    def __exit__(self, *error: object) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(True)


def synchronize_batch_norm(module: nn.Module) -> None:
    """Replace BatchNorm layers, in place, by layers that take their statistics over the batches of all processes.

    Subclasses, which compute statistics in another way (`viewsmith.networks.encoders.sequence.SequenceBatchNorm`), stay
    as they are: `torch.nn.SyncBatchNorm` would forget what they do, and each process keeps statistics of its own batch.
    """
    for name, child in module.named_children():
        if type(child) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
            module.add_module(name, nn.SyncBatchNorm.convert_sync_batchnorm(child))
        else:
            synchronize_batch_norm(child)


class _StepModule(nn.Module):
    """A method's step as the forward of a module, because DistributedDataParallel wraps modules.

    It holds the whole method, so that everything the step reads starts out equal in all processes.
    """

    def __init__(self, step: Step, method: Method) -> None:
        super().__init__()
        self.step, self.method = step, method

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        return self.step(batch)


def _averaging(step: Step, method: Method, others: Sequence[nn.Parameter]) -> Step:
    """The step of an update whose gradients are averaged over the processes.

    DistributedDataParallel averages the gradients of the parameters that require one when it wraps, and waits for all
    of them in every backward pass; so everything but what the update trains is frozen meanwhile. It copies the weights
    of the first process to all others once, now, and no buffers: each process keeps its own BatchNorm statistics (on
    GPUs `SyncBatchNorm` makes them equal), queues are filled from gathered rows, and frozen copies are broadcast when
    they are made (`viewsmith.core.distributed.broadcast_module`).
    """
    with frozen(others):
        return DistributedDataParallel(_StepModule(step, method), broadcast_buffers=False)


def check_result(found: Any, run: RunningUpdate, batch: Batch, method: Method) -> None:
    """Check that a step returned pair losses (B,) that depend on what is trained, and a dict to log.

    Raises
    ------
    TrainingError
    """
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
        losses = found[0]
        if isinstance(losses, Tensor) and losses.shape == batch.index.shape and losses.requires_grad:
            return
    label, n = f"the step of update {run.name!r} of {type(method).__name__}", len(batch.index)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], dict):
        given = "(" + ", ".join(type(part).__name__ for part in found) + ")" if isinstance(found, tuple) else None
        raise TrainingError(
            f"{label} returns {given or type(found).__name__}, expected (losses, logs): a tensor and a dict"
        )
    if not isinstance(losses, Tensor) or losses.shape != batch.index.shape:
        given = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else f"type {type(losses).__name__}"
        raise TrainingError(f"{label} returns losses of {given}, expected one per sample, ({n},)")
    raise TrainingError(f"{label} returns losses that depend on none of the parameters in its trains")


def check_weights(run: RunningUpdate, step: int) -> None:
    """Check that all weights an update trains are finite.

    Raises
    ------
    TrainingError
    """
    if not torch.stack(torch._foreach_norm([p.detach() for p in run.parameters])).isfinite().all():
        raise TrainingError(
            f"the weights that update {run.name!r} trains are no longer finite after step {step}: lower the learning "
            f"rate ({run.spec.learning_rate}), or clip the gradients"
        )
