"""Processes of one training on one machine, forked from a process that has imported what they need."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
from typing import Any

from viewsmith.core.errors import InputError

#: What a training imports on use, and what takes memory.
PRELOADED = (
    *("torch._dynamo", "torch.distributed", "torch.nn.parallel", "sklearn.decomposition", "sklearn.manifold"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "pandas"),
)


def fork_processes(count: int) -> None:
    """Become one of `count` processes of a group; they share the memory of what is imported.

    It returns in each of them, with the environment variables that torchrun sets. The process that calls it waits for
    them, and exits with the first of their exit codes that is not 0.

    Raises
    ------
    InputError
        torchrun has started this process, or the system cannot fork.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(f"--processes is {count}, but torchrun has started several processes: leave one of them out")
    if not hasattr(os, "fork"):
        raise InputError(f"--processes is {count}, but this system cannot fork: use torchrun")
    import torch

    for name in PRELOADED:
        importlib.import_module(name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gc.collect()
    gc.freeze()  # a collection would write to the objects, and so copy the memory that they are in
    members = []
    for rank in range(count):
        if not (process := os.fork()):
            group = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of them
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in members]
    raise SystemExit(next((code if code > 0 else 128 - code for code in codes if code), 0))
