"""Extra memory of NT-Xent, forward and backward, for large batches of 128 features; each case in its own process.

What is counted: how far the peak of the resident set rises above where it was with the embeddings in place and the
code loaded by a small batch; gradients included. Target: at most 1 GiB at 65,536 pairs, where the matrix of
similarities alone would take 64 GiB ("all") or 16 GiB ("cross").

    python benchmarks/nt_xent_memory.py [--threads 1] [--device cuda] [--case 16384 all] ...

On one core 65,536 pairs take minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit

from viewsmith.losses import nt_xent
from viewsmith.training.run import environment

WIDTH = 128
CASES = [("16384", "cross"), ("16384", "all"), ("65536", "cross"), ("65536", "all")]


def peak(device: str) -> int:
    """Bytes, of the process or of the device."""
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return torch.cuda.max_memory_allocated()


def measure(batch: int, negatives: str, threads: int, device: str) -> dict[str, object]:
    torch.set_num_threads(threads)
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
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", nargs=2, action="append", metavar=("BATCH", "NEGATIVES"))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        batch, negatives = given.case[0]
        print(json.dumps(measure(int(batch), negatives, given.threads, given.device)))
        return
    for batch, negatives in given.case or CASES:
        child = [sys.executable, __file__, "--child", "--case", batch, negatives]
        child += ["--threads", str(given.threads), "--device", given.device]
        found = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
        row = {
            **found,
            "target_mib": 1024,
            "threads": given.threads,
            "device": given.device if given.device == "cpu" else torch.cuda.get_device_name(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            **environment(),
        }
        print(json.dumps(found), flush=True)
        with (RESULTS / "nt_xent_memory.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
