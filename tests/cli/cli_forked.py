"""The command line in a process that was forked with torch loaded."""

import os
from collections.abc import Callable

import torch

from quick_reports import quick_reports


def as_program(
    arguments: list[str], out: str, err: str, environment: dict[str, str], preexec_fn: Callable[[], None] | None = None
) -> None:
    """Run the command in this process, which was forked after torch was imported, with output to files or terminals."""
    os.environ.update(environment)
    from viewsmith.cli import main

    torch.set_num_threads(1)
    quick_reports()
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY, 0o600), number)
    if preexec_fn is not None:
        preexec_fn()
    main(arguments)
