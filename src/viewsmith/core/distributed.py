"""Processes of a distributed training: rank, broadcast, gather with gradient, and notice of a process that has died.

With one process these functions do nothing. The other processes of a group may wait half an hour for one that has died.
Every process therefore keeps a connection to the first one, which the system closes when the process dies; no process
has to answer in time, so a long computation is not mistaken for death.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from viewsmith.core.errors import warn


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


#: What to tell the user when another process is gone.
LOST = (
    "another process of this training has ended or cannot be reached: look at its message, then start all processes "
    "again with --resume, which continues from the last checkpoint"
)

GRACE = 20.0  # seconds in which the process may end by itself, with a message of its own

CONNECT = 60.0  # seconds for the first connection

_GOODBYE = b"."

_TOKEN = 16  # bytes


@contextlib.contextmanager
def watched_peers(device: torch.device | str = "cpu", grace: float = GRACE) -> Iterator[None]:
    """While the context lasts, end this process `grace` seconds after another one of the group has died.

    It ends with one line on stderr and exit code 1, in the middle of whatever it does: files are written atomically,
    and locks end with their process. A process whose context ends with an exception counts as dead for the others.
    With one process nothing happens. The environment variable MASTER_ADDR must be the address of the first process,
    as with torchrun.
    """
    if not is_distributed():
        yield
        return
    connections = _connect(device)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(connections, over, grace), daemon=True)
    watcher.start()
    ended_well = False
    try:
        yield
        ended_well = True
    finally:
        over.set()
        watcher.join()
        for connection in connections:
            with contextlib.suppress(OSError):
                if ended_well:
                    connection.sendall(_GOODBYE)
                connection.close()


def _connect(device: torch.device | str) -> Sequence[socket.socket]:
    """Connections of the first process to all others, or of another process to the first one."""
    first = rank() == 0
    with _server() if first else contextlib.nullcontext() as server:
        port = server.getsockname()[1] if server is not None else 0
        # A token, so that a stranger's connection to the port is not taken for a process of the group.
        meeting = torch.tensor([*port.to_bytes(2, "big"), *secrets.token_bytes(_TOKEN)], device=device)
        broadcast_tensors(meeting)
        port, token = _read(meeting)
        if server is not None:
            return _accept(server, token)
    try:
        connection = socket.create_connection((os.environ.get("MASTER_ADDR", "127.0.0.1"), port), CONNECT)
        connection.sendall(token)
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # for a machine that dies
    except OSError as error:
        warn(f"the death of another process may be noticed late ({error})")
        return []
    return [connection]


def _server() -> socket.socket:
    both = socket.has_dualstack_ipv6()
    return socket.create_server(("", 0), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)


def _read(meeting: Tensor) -> tuple[int, bytes]:
    numbers = meeting.tolist()
    return int.from_bytes(bytes(numbers[:2]), "big"), bytes(numbers[2:])


def _accept(server: socket.socket, token: bytes) -> Sequence[socket.socket]:
    """Connections of all other processes."""
    server.settimeout(CONNECT)
    found: list[socket.socket] = []
    while len(found) < world_size() - 1:
        try:
            connection, _ = server.accept()
            connection.settimeout(CONNECT)
            if connection.recv(_TOKEN, socket.MSG_WAITALL) != token:
                connection.close()
                continue
        except OSError as error:
            warn(f"the death of another process may be noticed late ({error})")
            break
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        found.append(connection)
    return found


def _watch(connections: Sequence[socket.socket], over: threading.Event, grace: float) -> None:
    """Wait until a connection is closed without a goodbye, then end the process unless its training is over."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while not over.is_set():
            for key, _ in selector.select(timeout=0.5):
                if not _said_goodbye(key.fileobj):
                    for connection in connections:
                        _hang_up(connection)  # so that the others know at once
                    if not over.wait(grace):
                        print(f"error: {LOST}", file=sys.stderr, flush=True)
                        os._exit(1)
                    return
                selector.unregister(key.fileobj)


def _said_goodbye(connection: object) -> bool:
    assert isinstance(connection, socket.socket)
    try:
        return connection.recv(1) == _GOODBYE
    except OSError:
        return False


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
