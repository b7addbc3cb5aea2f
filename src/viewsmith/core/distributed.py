"""Functions for distributed training: rank, broadcast, and gather with gradient. With one process they do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


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
    """Overwrite weights and buffers of a module, in place, with those of the first process.

    BatchNorm statistics differ between processes. A frozen copy of a network would therefore differ, too.
    """
    broadcast_tensors(*(value.data for value in module.parameters()), *module.buffers())


def gather(x: Tensor) -> Tensor:
    """Concatenate the rows of all W processes in rank order, with gradient.

    The backward pass sums the gradients of all processes. DistributedDataParallel then takes the mean over processes
    of the parameter gradients, which equals the gradient of one process that holds the whole batch.

    Parameters
    ----------
    x : Tensor, shape (B, ...)
        Rows of this process, as many as of every other one.

    Returns
    -------
    Tensor, shape (W * B, ...)

    Raises
    ------
    RuntimeError
        The processes have different numbers of rows.
    """
    if not is_distributed():
        return x
    if not _EQUAL.get():
        _check_equal(len(x), x.device)
    if not x.is_floating_point():
        parts = [torch.empty_like(x) for _ in range(world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)
    gathered: Tensor = _Gather.apply(x)
    return gathered


#: Whether the code that runs makes sure that all processes have batches of one size.
_EQUAL: ContextVar[bool] = ContextVar("equal batches", default=False)


@contextlib.contextmanager
def equal_batches() -> Iterator[None]:
    """Within the context `gather` does not compare the numbers of rows, which takes a message between the processes."""
    token = _EQUAL.set(True)
    try:
        yield
    finally:
        _EQUAL.reset(token)


def _check_equal(rows: int, device: torch.device) -> None:
    """Raise RuntimeError unless all processes have so many rows; on a GPU nobody waits for the answer.

    The largest n and the largest -n over all processes have the sum 0 if all n are equal.
    """
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
        summed: Tensor = _SumOfOwnRows.apply(gradient)
        return summed


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
        gathered: Tensor = _Gather.apply(gradient)
        return gathered


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
