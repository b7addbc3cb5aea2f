"""Two gloo processes of `fit` against one, on one CPU: wall and CPU seconds of training, and memory of all processes.

`mlp`: the default of vectors, --rows x 200 rows on disk (--stream), of which all processes map the coordinates.
`whole-rows`: the same encoder with views `noise` and batches of 2,048, which reads the rows themselves from the file
that all processes map. `in-memory`: the same without --stream, one epoch, for memory alone: one process reads a file
below 1 GiB into memory, several processes map it. `resnet18`: images of 32 x 32 pixels, batch 64.

The same steps with one process, one process with two threads, and two processes with one thread each, by torchrun and
forked (--processes 2), in turn. CPU seconds are of the whole command, without those of a command that trains for fewer
epochs. Memory is the largest sum over the processes of their proportional set size, in which shared pages count once,
how much of it no two processes share, and how much the process has that was started, which with several processes does
not train. `torch`: what a process has that has imported torch and what a training imports, and does nothing. Target:
memory of two processes at most 1.2 times that of one.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.processes [mlp whole-rows resnet18] [--rounds 2] [--quick]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.data.large_data import write_dense
from benchmarks.speed.timing import parser, process, read, record, watched
from viewsmith.core.distributed import PRELOADED
from viewsmith.training.run import RunFolder

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
WAYS: dict[str, tuple[tuple[object, ...], int, int]] = {  # program, threads, --processes
    "one process": ((), 1, 1),
    "one process, two threads": ((), 2, 1),
    "two processes": (TORCHRUN, 1, 1),
    "two processes, forked": ((), 1, 2),
}
# Options of each kind, and the epochs of its two commands.
KINDS: dict[str, tuple[tuple[object, ...], tuple[int, ...]]] = {
    "mlp": (("--stream",), (1, 5)),
    "whole-rows": (("--stream", "--views", "noise", "--batch-size", 2048), (1, 2)),
    "in-memory": (("--views", "noise", "--batch-size", 2048), (1,)),
    "resnet18": (("--encoder", "resnet18", "--batch-size", 64), (1, 4)),
}


def write_images(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    np.savez(path, X=rng.integers(0, 256, (n, 32, 32, 3), np.uint8))


def measure(data: Path, options: Sequence[object], epochs: tuple[int, ...], way: str) -> dict[str, Any]:
    """CPU seconds of the epochs after the first, wall seconds of all training, steps and memory."""
    prefix, threads, forked = WAYS[way]
    row: dict[str, Any] = {}
    cpu = []
    for number in epochs:
        with tempfile.TemporaryDirectory(dir=data.parent) as folder, watched(row):
            run = Path(folder) / "run"
            command = (
                "fit",
                data,
                "--out",
                run,
                "--epochs",
                number,
                "--threads",
                threads,
                "--processes",
                forked,
                *options,
            )
            cpu.append(process(sys.executable, *prefix, "-m", "viewsmith", *command)["cpu"])
            told, metrics = RunFolder(run).read_summary(), RunFolder(run).read_metrics()
    row |= {"whole_cpu": cpu[-1], "processes": told["processes"]}
    if len(epochs) == 1:
        return row
    return row | {
        "cpu": round(cpu[1] - cpu[0], 2),
        "wall": round(metrics[-1]["seconds"] - metrics[0]["seconds"], 2),
        "steps": round(told["steps"] * (epochs[1] - epochs[0]) / epochs[1]),
    }


def torch_alone() -> float:
    """GB of a process that has imported what a training imports."""
    row: dict[str, Any] = {}
    names = ", ".join(("viewsmith.cli", *PRELOADED))
    with watched(row):
        process(sys.executable, "-c", f"import time, {names}; time.sleep(2)")
    return row["peak_gb"]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rounds=2, rows=200_000, images=512)
    options.add_argument("kinds", nargs="*", default=list(KINDS), help=", ".join(KINDS))
    options.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = read(options, arguments)
    if given.quick:
        given.kinds, given.rows = ["mlp"], 1000
    ways = given.ways[: 1 if given.quick else None]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for kind in given.kinds:
            data = Path(folder) / ("images.npz" if kind == "resnet18" else "rows.npy")
            if kind == "resnet18":
                write_images(data, given.images)
            elif not data.exists():
                write_dense(data, given.rows)
            more, epochs = KINDS[kind]
            for number in range(given.rounds):
                row = {way: measure(data, more, epochs, way) for way in ways}
                record("processes", {"kind": kind, "round": number, "torch": torch_alone(), "measured": row}, given)


if __name__ == "__main__":
    main()
