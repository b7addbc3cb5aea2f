"""Several processes: who am I, gather with gradient. One process is the case in which all of this does nothing."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def is_distributed() -> bool:
    """Whether a process group of more than one process exists."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def world_size() -> int:
    return dist.get_world_size() if is_distributed() else 1


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def first_says(flag: bool, device: torch.device | str = "cpu") -> bool:
    """What the first process says, known to all."""
    if not is_distributed():
        return flag
    value = torch.tensor(int(flag), device=device)
    take_from_first(value)
    return bool(value)


def any_says(number: int, device: torch.device | str = "cpu") -> int:
    """The largest number that any process gives, known to all."""
    if not is_distributed():
        return number
    value = torch.tensor(number, device=device)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return int(value)


def take_from_first(*tensors: Tensor) -> None:
    """Overwrite tensors with those of the first process."""
    if is_distributed():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def gather(x: Tensor) -> Tensor:
    """Rows of all processes in rank order, (W * B, ...) from (B, ...), with gradient to every process's own rows.

    The backward pass sums what all processes send back, so that the mean over processes that DDP takes of
    the parameter gradients equals the gradient of one process holding the whole batch.
    """
    if not is_distributed():
        return x
    if not x.is_floating_point():
        parts = [torch.empty_like(x) for _ in range(world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(x.contiguous()))


def total(x: Tensor) -> Tensor:
    """Sum of the tensors of all processes, without gradient."""
    if not is_distributed():
        return x.detach()
    summed = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(summed)
    return summed


def local_rows(batch: int) -> slice:
    """Where this process's rows lie in a gathered tensor, given the local batch size."""
    start = rank() * batch
    return slice(start, start + batch)
