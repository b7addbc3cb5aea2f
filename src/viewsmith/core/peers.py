"""Notice the death of another process of the group, for which a collective operation may wait half an hour.

Every process keeps a connection to the first one. The system closes the connections of a process that dies, whatever
it was doing; no process has to answer in time, so that long computations are not mistaken for death.
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

import torch
from torch import Tensor

from viewsmith.core import distributed
from viewsmith.core.messages import warn

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

    Parameters
    ----------
    device : torch.device or str
        A device whose tensors the group can send.
    grace : float
    """
    if not distributed.is_distributed():
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
    first = distributed.rank() == 0
    with _server() if first else contextlib.nullcontext() as server:
        port = server.getsockname()[1] if server is not None else 0
        # A token, so that a stranger's connection to the port is not taken for a process of the group.
        meeting = torch.tensor([*port.to_bytes(2, "big"), *secrets.token_bytes(_TOKEN)], device=device)
        distributed.broadcast_tensors(meeting)
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
    while len(found) < distributed.world_size() - 1:
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
