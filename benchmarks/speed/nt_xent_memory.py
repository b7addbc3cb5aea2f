"""Extra memory of NT-Xent, forward and backward, for large batches of 128 features; each case in a new process.

Extra memory is the growth of the peak resident memory, with gradients, after a small batch has loaded the code and the
projections have been allocated. Target: at most 1 GiB for 65,536 pairs; the similarity matrix alone would take 64 GiB
(negatives "all") or 16 GiB ("cross").

    python -m benchmarks.speed.nt_xent_memory [--threads 1] [--device cuda] [--case 16384 all] ... [--quick]

The case of 65,536 pairs takes minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import torch

from benchmarks.common.runner import ROOT
from benchmarks.speed.timing import parser, read, record
from viewsmith.losses import nt_xent

WIDTH = 128
CASES = [("16384", "cross"), ("16384", "all"), ("65536", "cross"), ("65536", "all")]


def peak(device: str) -> int:
    """Peak memory of the process or of the GPU, in bytes."""
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return torch.cuda.max_memory_allocated()


def measure(batch: int, negatives: str, device: str) -> dict[str, object]:
    small = torch.randn(2, 600, WIDTH, device=device, requires_grad=True)
    nt_xent(*small, negatives=negatives, form="chunked").mean().backward()
    draws = torch.Generator().manual_seed(0)
    z0, z1 = (torch.randn(batch, WIDTH, generator=draws).to(device).requires_grad_() for _ in range(2))
    before, started = peak(device), time.perf_counter()
    loss = nt_xent(z0, z1, negatives=negatives).mean()
    loss.backward()
    return {
        "batch": batch,
        "negatives": negatives,
        "extra_mib": round((peak(device) - before) / 2**20, 1),
        "seconds": round(time.perf_counter() - started, 2),
        "loss": round(loss.item(), 6),
        "target_mib": 1024,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, device=True)
    options.add_argument("--case", nargs=2, action="append", metavar=("BATCH", "NEGATIVES"))
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = read(options, arguments)
    if given.child:
        batch, negatives = given.case[0]
        print(json.dumps(measure(int(batch), negatives, given.device)))
        return
    for batch, negatives in given.case or ([("600", "all")] if given.quick else CASES):
        child = [sys.executable, "-m", "benchmarks.speed.nt_xent_memory", "--child", "--case", batch, negatives]
        child += ["--threads", str(given.threads), "--device", given.device]
        ran = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        record("nt_xent_memory", json.loads(ran.stdout), given)


if __name__ == "__main__":
    main()
