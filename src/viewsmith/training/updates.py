"""Updates while they run: torch's optimizers and LARS, learning rates, the step in one or several processes,
and its replay as a CUDA graph."""

import contextlib
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer as TorchOptimizer

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, TrainingError
from viewsmith.core.schedule import Batch, Method, Optimizer, Phase, Role, Step, Update
from viewsmith.core.tensors import on_host
from viewsmith.training.run import pack_optimizer, unpack_optimizer

#: Forward and backward pass of a batch: the loss, a scalar, and scalars to log, without gradient.
Passes = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]
Result = TypeVar("Result")

#: Steps before the recording, in which libraries choose algorithms and allocate memory.
WARM_UP = 2


def record(work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
    """Record the kernels that `work` launches, without running them; return a function that launches them again, with
    the seed and the position that `generator` has then."""
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # torch's own stream stays on the first device it was for
        work()
    return graph.replay


def beside(work: Callable[[], Result]) -> Result:
    """The result of `work` on another stream than the current one, as a recording needs it."""
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        found = work()
    current.wait_stream(stream)
    return found


class ReplayedPasses:
    """Passes that launch the same kernels at every step (`Update.static`), recorded as a CUDA graph after the first
    steps, and replayed with their own random numbers; replays write the gradients of `parameters` to the same
    memory."""

    def __init__(self, passes: Passes, parameters: Sequence[nn.Parameter]) -> None:
        self.passes, self.parameters = passes, parameters
        self.steps = 0
        self.replay: Callable[[], None] | None = None

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.cuda.device_of(batch.x):  # streams are those of the current device, which may be another GPU
            return self._step(batch)

    def _step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if self.steps < WARM_UP:
            self.steps += 1
            return beside(lambda: self.passes(batch))
        if self.replay is None:
            self.batch = Batch(batch.x.clone(), batch.index.clone(), batch.generator)
            self.replay = record(self._run, batch.generator)
            self.gradients = [parameter.grad for parameter in self.parameters]
        self.batch.x.copy_(batch.x)
        self.batch.index.copy_(batch.index)
        self.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        # Copies, because the next replay writes to the same memory.
        return self.loss.clone(), {name: value.clone() for name, value in self.logs.items()}

    def _run(self) -> None:
        self.loss, self.logs = self.passes(self.batch)


class Compiled:
    """A network that `torch.compile` makes faster within ``with compiled():``; evaluations in between run it as it
    is."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        network.compile(dynamic=False)
        self.call, network._compiled_call_impl = network._compiled_call_impl, None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self.network._compiled_call_impl = self.call
        try:
            yield
        finally:
            self.network._compiled_call_impl = None


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, algorithm 1, equation 7): rates times eta |w| /
    (|g| + decay |w|), 1 where a norm is 0 and in ``excluded`` groups."""

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
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"trust_coefficient": trust_coefficient, "excluded": excluded})

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
        return state["momentum_buffer"]


def _rates(weights: list[Any], gradients: list[Any], group: dict[str, Any]) -> list[Tensor]:
    """The learning rate times the trust ratio of each tensor, on the device."""
    norm = torch.stack(torch._foreach_norm(weights))
    denominator = torch.stack(torch._foreach_norm(gradients)) + group["weight_decay"] * norm
    trust = torch.where((norm > 0) & (denominator > 0), group["trust_coefficient"] * norm / denominator, 1.0)
    return list((group["lr"] * trust).unbind())


def learning_rate(spec: Optimizer, progress: float) -> float:
    """Learning rate at a position on the curve, 0 to 1."""
    if progress < spec.warmup:
        return spec.learning_rate * progress / spec.warmup
    if spec.schedule == "constant":
        return spec.learning_rate
    done = (progress - spec.warmup) / (1 - spec.warmup)
    low = spec.final_lr_scale * spec.learning_rate
    return low + (spec.learning_rate - low) * 0.5 * (1 + math.cos(math.pi * done))


def weight_decay(spec: Optimizer, progress: float) -> float:
    """Weight decay at a position on the curve, 0 to 1."""
    end = spec.final_weight_decay
    if end is None:
        return spec.weight_decay
    return end + (spec.weight_decay - end) * 0.5 * (1 + math.cos(math.pi * progress))


def make_groups(
    spec: Optimizer, parameters: Sequence[nn.Parameter], roles: Mapping[Role, Sequence[nn.Parameter]]
) -> list[dict[str, Any]]:
    """Parameter groups of a specification; one group unless the specification treats some parameters differently."""
    predictor = {id(p) for p in roles.get("predictor", ())} if spec.constant_predictor_rate else set()
    last = {id(p) for p in roles.get("last layer", ())} if spec.freeze_last_layer else set()
    head = {id(p) for p in roles.get("head", ())} if spec.head_lr_scale != 1 else set()
    groups: dict[tuple[bool, bool, bool, bool], list[nn.Parameter]] = {}
    for p in parameters:
        key = id(p) in predictor, id(p) in last, spec.exclude_norm_and_bias and p.ndim < 2, id(p) in head
        groups.setdefault(key, []).append(p)
    return [
        {
            "params": groups[constant, is_last, excluded, of_head],
            "weight_decay": 0.0 if excluded else spec.weight_decay,
            "excluded": excluded,
            "constant_rate": constant,
            "frozen_until": spec.freeze_last_layer if is_last else 0.0,
            "rate": spec.head_lr_scale if of_head else 1.0,
        }
        for constant, is_last, excluded, of_head in sorted(groups)
    ]


def make_optimizer(
    spec: Optimizer, parameters: Sequence[nn.Parameter], roles: Mapping[Role, Sequence[nn.Parameter]] | None = None
) -> torch.optim.Optimizer:
    """The torch optimizer of a specification, with fused kernels, which are faster."""
    groups, rate = make_groups(spec, parameters, roles or {}), spec.learning_rate
    if spec.name == "lars":
        return _uncompiled(LARS)(groups, rate, spec.momentum, trust_coefficient=spec.trust_coefficient)
    if spec.name == "sgd":
        return _uncompiled(torch.optim.SGD)(groups, rate, spec.momentum, fused=True)
    kind = torch.optim.AdamW if spec.name == "adamw" else torch.optim.Adam
    return _uncompiled(kind)(groups, rate, fused=True)


@functools.cache
def _uncompiled(kind: type[torch.optim.Optimizer]) -> Any:
    """The optimizer without the guards of `torch.compile`, which take two seconds and 70 MB in every process."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(inspect.unwrap(kind.step))})


def set_rates(optimizer: torch.optim.Optimizer, spec: Optimizer, progress: float) -> None:
    """Set the learning rate and the weight decay of every group to those at a position on the curve."""
    rate, decay = learning_rate(spec, progress), weight_decay(spec, progress)
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * (spec.learning_rate if group["constant_rate"] else rate)
        group["weight_decay"] = 0.0 if group["excluded"] else decay


def drop_frozen_gradients(optimizer: torch.optim.Optimizer, progress: float) -> None:
    """Remove the gradients of groups that are still frozen, so that their weights and optimizer state do not change."""
    for group in optimizer.param_groups:
        if progress < group["frozen_until"]:
            for p in group["params"]:
                p.grad = None


@dataclass
class RunningUpdate:
    """An update with its optimizer and the sums, on the device, of its losses and logs in the current epoch."""

    name: str
    interval: int
    step: Step
    parameters: list[nn.Parameter]
    frozen_parameters: list[nn.Parameter]
    spec: Optimizer
    optimizer: TorchOptimizer
    after: Callable[[], None] | None = None
    may_diverge: bool = False
    continues: bool = False
    passes: Passes = field(init=False)  # set by the engine
    loss: Tensor | None = None
    logs: dict[str, Tensor] = field(default_factory=dict)
    count: int = 0

    def clear_gradients(self) -> None:
        """Do the same as ``optimizer.zero_grad(set_to_none=True)``, without its profiler hooks."""
        for parameter in self.parameters:
            parameter.grad = None

    def drop_divergence(self, loss: Tensor) -> Tensor:
        """Set all gradients to zero if one is not finite; return the loss, or 0 if it is not finite."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        finite = torch.stack(torch._foreach_norm(gradients)).norm().isfinite()
        if not (on_host(finite) and finite):
            for gradient in gradients:
                gradient.copy_(torch.where(finite, gradient, 0))
        return torch.where(loss.isfinite(), loss, 0)

    def add(self, loss: Tensor, logs: dict[str, Tensor]) -> None:
        """Add a step to the sums of the epoch, without waiting for the device."""
        self.loss = loss if self.loss is None else self.loss + loss
        for name, value in logs.items():
            self.logs[name] = self.logs[name] + value if name in self.logs else value
        self.count += 1

    def clear(self) -> None:
        """Reset the sums for the next epoch."""
        self.loss, self.logs, self.count = None, {}, 0

    def optimizer_state(self) -> dict[str, Tensor]:
        """The optimizer's state, by name."""
        return pack_optimizer(f"optimizer/{self.name}", self.optimizer)

    def state(self) -> dict[str, Tensor]:
        """The optimizer's state and the sums, by name, for a checkpoint."""
        tensors = self.optimizer_state()
        if self.loss is not None:
            tensors[f"sum/{self.name}/loss"] = self.loss
            tensors |= {f"sum/{self.name}/log/{name}": value for name, value in self.logs.items()}
            tensors[f"sum/{self.name}/count"] = torch.tensor(self.count)
        return tensors

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Load what `state` returned from the tensors of a checkpoint; other names are ignored."""
        unpack_optimizer(f"optimizer/{self.name}", self.optimizer, tensors)
        sums, logs = f"sum/{self.name}/", f"sum/{self.name}/log/"
        if f"{sums}loss" in tensors:
            self.loss = tensors[f"{sums}loss"].to(device)
            self.count = int(tensors[f"{sums}count"])
            self.logs = {name[len(logs) :]: t.to(device) for name, t in tensors.items() if name.startswith(logs)}


def prepare_update(update: Update, method: Method) -> RunningUpdate:
    """Prepare an update to run: build its optimizer and find the parameters to freeze."""
    parameters, all_parameters = update.parameters(), list(method.parameters())
    label = f"update {update.name!r} of {type(method).__name__}"
    if not parameters:
        raise InputError(f"{label} trains nothing: none of the parameters in its trains requires a gradient")
    trained, known = {id(p) for p in parameters}, {id(p) for p in all_parameters}
    if not trained <= known:
        raise InputError(
            f"{label} trains parameters that are not part of the method and would not be saved: "
            "make their module an attribute of the method"
        )
    to_freeze = [p for p in all_parameters if p.requires_grad and id(p) not in trained]
    step = _average_gradients(update.step, method, to_freeze) if distributed.is_distributed() else update.step
    spec = update.optimizer or Optimizer()
    roles = {role: update.parameters_of(role) for role in spec.roles}
    if missing := [role for role, found in roles.items() if not found]:
        raise InputError(
            f"{label} has no {missing[0]}, for which its optimizer has a setting: name its module in training_roles of "
            "the framework"
        )
    optimizer = make_optimizer(spec, parameters, roles)
    same = update.after, update.may_diverge, update.continues
    return RunningUpdate(update.name, update.interval, step, parameters, to_freeze, spec, optimizer, *same)


def check_continued(phases: Sequence[Phase]) -> None:
    """Check that updates of one name that continue train the same parameters with the same optimizer."""
    first: dict[str, tuple[list[int], Optimizer]] = {}
    for update in (update for phase in phases for update in phase.updates if update.continues):
        optimizer = replace(update.optimizer or Optimizer(), lr_span=(0.0, 1.0))
        found = [id(p) for p in update.parameters()], optimizer
        if first.setdefault(update.name, found) != found:
            raise InputError(
                f"update {update.name!r} continues in phase after phase with other parameters or another optimizer: "
                "give it the same ones, or set continues=False"
            )


def continued_state(run: RunningUpdate, later: Sequence[Phase]) -> dict[str, Tensor]:
    """What later phases need of an update's optimizer."""
    needed = any(update.continues and update.name == run.name for phase in later for update in phase.updates)
    return run.optimizer_state() if run.continues and needed else {}


class frozen:
    """Context in which parameters require no gradient; a class, because `contextmanager` is slow for short steps."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters

    def __enter__(self) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(False)

    def __exit__(self, *error: object) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(True)


def synchronize_batch_norm(module: nn.Module) -> None:
    """Let BatchNorm layers compute statistics over all processes; not subclasses, which compute them in another way."""
    for name, child in module.named_children():
        if type(child) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
            module.add_module(name, nn.SyncBatchNorm.convert_sync_batchnorm(child))
        else:
            synchronize_batch_norm(child)


class _StepModule(nn.Module):
    """The step of an update as a module, with the method, whose weights and buffers are then equal at the start."""

    def __init__(self, step: Step, method: Method) -> None:
        super().__init__()
        self.step, self.method = step, method

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        return self.step(batch)


def _average_gradients(step: Step, method: Method, to_freeze: Sequence[nn.Parameter]) -> Step:
    """The step of an update, wrapped to average its gradients over the processes; every backward pass waits for all
    that require one, so the others are frozen."""
    with frozen(to_freeze):
        for parameter in method.parameters():
            if parameter.requires_grad and 1 in parameter.shape:
                parameter.register_hook(partial(_with_strides_of, parameter))
        with warnings.catch_warnings():
            # From torch 2.13 on it has another name, which older ones lack.
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            return DistributedDataParallel(_StepModule(step, method), broadcast_buffers=False)


def _with_strides_of(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with its parameter's strides, without a copy, where DistributedDataParallel would warn:
    channels-last kernels of size 1."""
    strides = zip(parameter.shape, parameter.stride(), gradient.stride(), strict=True)
    if all(size == 1 or expected == found for size, expected, found in strides):
        return gradient.as_strided(parameter.shape, parameter.stride())
    return gradient


def check_result(found: Any, run: RunningUpdate, batch: Batch, method: Method) -> None:
    """Check that a step returned pair losses (B,) with a gradient, and a dict of values to log."""
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
    """Check that all weights an update trains are finite."""
    if not torch.stack(torch._foreach_norm([p.detach() for p in run.parameters])).isfinite().all():
        raise TrainingError(
            f"the weights that update {run.name!r} trains are no longer finite after step {step}: lower the learning "
            f"rate ({run.spec.learning_rate}), or clip the gradients"
        )
