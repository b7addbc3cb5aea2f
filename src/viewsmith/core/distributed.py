"""Processes of a distributed training: rank, broadcast, gather with gradient; processes forked on one machine; a limit
of time on which they agree.

With one process the functions of the group do nothing. Several reach the limit in different places, and would wait for
each other's messages: they stop in stretches without messages alone (`together`), at whose end they agree.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from viewsmith.core.errors import InputError, StoppedEarly


def is_distributed() -> bool:
    """Whether a process group of more than one process exists."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if is_distributed() else 1


def rank() -> int:
    """Index of this process, from 0."""
    return dist.get_rank() if is_distributed() else 0


def broadcast_flag(flag: bool, device: torch.device | str = "cpu") -> bool:
    """Return the flag of the first process on all processes."""
    if not is_distributed():
        return flag
    value = torch.tensor(int(flag), device=device)
    broadcast_tensors(value)
    return bool(value)


def barrier() -> None:
    """Wait until all processes are here."""
    if is_distributed():
        dist.barrier()


def max_over_processes(number: int, device: torch.device | str = "cpu") -> int:
    """Return the largest number of all processes on all processes."""
    if not is_distributed():
        return number
    value = torch.tensor(number, device=device)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return int(value)


def broadcast_tensors(*tensors: Tensor) -> None:
    """Overwrite tensors, in place, with those of the first process."""
    if is_distributed():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def broadcast_module(module: nn.Module) -> None:
    """Overwrite weights and buffers (BatchNorm statistics differ) of a module with those of the first process."""
    broadcast_tensors(*(value.data for value in module.parameters()), *module.buffers())


def gather(x: Tensor) -> Tensor:
    """The rows of all W processes in rank order; backward sums the gradients of all: with DistributedDataParallel's
    mean, the gradient of one process that holds the whole batch."""
    if not is_distributed():
        return x
    if not _EQUAL.get():
        _check_equal(len(x), x.device)
    if not x.is_floating_point():
        parts = [torch.empty_like(x) for _ in range(world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)
    return _Gather.apply(x)


#: Whether the code that runs makes sure that all processes have batches of one size.
_EQUAL: ContextVar[bool] = ContextVar("equal batches", default=False)


def equal_batches() -> contextlib.AbstractContextManager[None]:
    """Within the context `gather` does not compare the numbers of rows, which takes a message between the processes."""
    return _within(_EQUAL, True)


@contextlib.contextmanager
def _within(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """The variable has a value within the context."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _check_equal(rows: int, device: torch.device) -> None:
    """Raise RuntimeError unless all processes have so many rows; on a GPU nobody waits for the answer."""
    number = torch.full((1,), float(rows), dtype=torch.float64, device=device)
    extremes = torch.cat([number, -number])
    dist.all_reduce(extremes, dist.ReduceOp.MAX)
    torch._assert_async(
        extremes.sum() == 0, "gather: the processes have batches of different sizes: give all of them as many rows"
    )


class _Gather(torch.autograd.Function):
    """The rows of all processes; backward, the sum over the processes of the gradients of the own rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _SumOfOwnRows.apply(gradient)


class _SumOfOwnRows(torch.autograd.Function):
    """The adjoint of `_Gather`, a function of its own for second derivatives: each is the gradient of the other."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        # Each process sends every other one its rows alone: an all_reduce would send all rows to all.
        parts = torch.empty_like(rows, memory_format=torch.contiguous_format)
        dist.all_to_all_single(parts, rows.contiguous())
        return parts.unflatten(0, (world_size(), -1)).sum(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Gather.apply(gradient)


def total(x: Tensor) -> Tensor:
    """Sum of the tensors of all processes, without gradient."""
    if not is_distributed():
        return x.detach()
    summed = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(summed)
    return summed


def local_rows(batch: int) -> slice:
    """Position of this process's rows in a gathered tensor, given the local batch size."""
    start = rank() * batch
    return slice(start, start + batch)


#: What to tell the user when another process is gone.
LOST = (
    "another process of this training has ended or cannot be reached: look at its message, then start all processes "
    "again with --resume, which continues from the last checkpoint"
)

#: Seconds in which processes of a group may end by themselves, with a message of their own, after one has failed.
GRACE = 10

#: What all processes of a training import on use, and what takes memory; the first one alone draws figures.
PRELOADED = ("torch._dynamo", "torch.distributed", "torch.nn.parallel", "pandas")


#: Whether this process is one of those that `fork_processes` has made.
forked = False


def fork_processes(count: int) -> None:
    """Become one of `count` processes of a group that share what is imported, with the variables of torchrun; the
    caller waits, exits with their first exit code that is not 0, and ends the others after `GRACE` seconds."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(f"--processes is {count}, but torchrun has started several processes: leave one of them out")
    if not hasattr(os, "fork"):
        raise InputError(f"--processes is {count}, but this system cannot fork: use torchrun")
    for name in PRELOADED:
        importlib.import_module(name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gc.collect()
    gc.freeze()  # a collection would write to the objects, and so copy the memory that they are in
    members = []
    for number in range(count):
        if not (process := os.fork()):
            global forked
            forked = True
            group = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
            os.environ.update({name: str(value) for name, value in group.items()})
            os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
            torch.set_num_threads(max(1, torch.get_num_threads() // count))
            return
        members.append(process)

    def forward(number: int, frame: Any) -> None:
        for process in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGALRM, lambda number, frame: forward(signal.SIGTERM, frame))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of them
    failed = 0
    for _ in range(count):
        process, status = os.wait()
        members.remove(process)
        code = os.waitstatus_to_exitcode(status)
        if code and not failed:
            failed = code if code > 0 else 128 - code
            signal.alarm(GRACE)
    raise SystemExit(failed)


# ---- a limit for the time of preparations: their loops call `check_time` ----
#: Shorter preparations are never stopped: they would have to be done again.
LEAST_LIMIT = 10.0  # seconds


@dataclass(frozen=True)
class Limit:
    """When the time is over, on which device processes send messages, and whether this one may stop."""

    end: float
    device: torch.device | str
    may_stop: bool


_LIMIT: ContextVar[Limit | None] = ContextVar("limit", default=None)


class OutOfTime(StoppedEarly):
    """The time limit ended before the preparation of a training did."""

    def __init__(self) -> None:
        super().__init__(
            "nothing was trained: the time limit ended while the training was prepared; give more minutes (--minutes), "
            "or fewer rows"
        )


@contextlib.contextmanager
def time_limit(seconds: float | None, device: torch.device | str = "cpu") -> Iterator[None]:
    """Within the context, `check_time` raises OutOfTime after so many seconds; None: as outside of it."""
    if seconds is None:
        yield
        return
    with _within(_LIMIT, Limit(time.monotonic() + max(seconds, LEAST_LIMIT), device, not is_distributed())):
        yield


@contextlib.contextmanager
def together() -> Iterator[None]:
    """A stretch of a preparation without messages between processes: if the time of one is over, it ends for all."""
    limit = _LIMIT.get()
    if limit is None or limit.may_stop:
        yield
        return
    late = False
    try:
        with _within(_LIMIT, Limit(limit.end, limit.device, True)):
            yield
    except OutOfTime:
        late = True
    if max_over_processes(int(late), limit.device):
        raise OutOfTime


def check_time() -> None:
    """Raise OutOfTime if the time of a `time_limit` is over, in several processes within `together`."""
    limit = _LIMIT.get()
    if limit is not None and limit.may_stop and time.monotonic() > limit.end:
        raise OutOfTime
