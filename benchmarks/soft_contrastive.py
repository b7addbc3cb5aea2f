"""The soft contrastive loss, forward and backward, against NT-Xent of the same batch.

Batches of 256, 1024 and 4096 pairs, float32, plain kernel, nu 0.1; embeddings and representations of 80 features,
and, as in training, embeddings of 32 and of 2 over representations of 256. Representations are drawn so that targets
lie between 0.1 and 0.3 ("near"), or so that all are almost 0 ("far"). NT-Xent has the embeddings' width and temperature
0.5. In turn, in an order drawn anew each round (memory that one has left behind helps the next); medians of the ratio.
Target: at most 1.3 times NT-Xent at 4096 pairs of 80 features.

    python benchmarks/soft_contrastive.py [--threads 1] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit
from torch import Tensor

from viewsmith.losses import nt_xent, soft_contrastive
from viewsmith.training.run import environment

# (width of z, width of y): batch and rounds.
ROUNDS = {(80, 80): {256: 60, 1024: 15, 4096: 5}, (32, 256): {256: 60}, (2, 256): {256: 60}}
# Mean squared distance of representations.
NEAR, FAR = 2.0, 200.0
# The plain form is measured up to this batch.
PLAIN = 1024
Loss = Callable[[Tensor, Tensor], Tensor]


def losses(batch: int, width: int, device: str) -> dict[str, Loss]:
    y = torch.randn(batch, width, generator=torch.Generator().manual_seed(1)).to(device) / (2 * width) ** 0.5
    rows = torch.arange(batch, device=device)
    near, far = y * NEAR**0.5, y * FAR**0.5
    made: dict[str, Loss] = {
        "NT-Xent": lambda a, b: nt_xent(a, b, temperature=0.5),
        "near": lambda a, b: soft_contrastive(a, b, near),
        "near, rows known": lambda a, b: soft_contrastive(a, b, near, ids=(rows, rows)),
        "far": lambda a, b: soft_contrastive(a, b, far),
    }
    if batch <= PLAIN:
        made["near, plain form"] = lambda a, b: soft_contrastive(a, b, near, form="plain")
    return made


def measure(losses: dict[str, Loss], batch: int, width: int, rounds: int, device: str) -> dict[str, list[float]]:
    z = torch.randn(2, batch, width, generator=torch.Generator().manual_seed(0)).to(device)
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    values = {}
    order, draw = list(losses), random.Random(0)
    for round_ in range(rounds + 2):
        draw.shuffle(order)
        for name in order:
            a, b = (x.clone().requires_grad_() for x in z)
            if device != "cpu":
                torch.cuda.synchronize()
            started = time.perf_counter()
            value = losses[name](a, b).mean()
            value.backward()
            if device != "cpu":
                torch.cuda.synchronize()
            if round_ >= 2:
                seconds[name].append(time.perf_counter() - started)
            values[name] = value.item()
    assert abs(values["near"] / values.get("near, plain form", values["near, rows known"]) - 1) < 1e-4, values
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    milliseconds, ratios = {}, {}
    for (width, target_width), batches in ROUNDS.items():
        for batch, rounds in batches.items():
            name = f"{batch} pairs, z {width}, y {target_width}"
            seconds = measure(losses(batch, target_width, given.device), batch, width, rounds, given.device)
            base = seconds["NT-Xent"]
            milliseconds[name] = {loss: round(statistics.median(v) * 1e3, 2) for loss, v in seconds.items()}
            ratios[name] = {
                loss: round(statistics.median(b / a for a, b in zip(base, v, strict=True)), 3)
                for loss, v in seconds.items()
            }
    row = {
        "ms": milliseconds,
        "times_nt_xent": ratios,
        "target": {"4096 pairs, z 80, y 80": {"near, rows known": "at most 1.3"}},
        "rounds": {f"z {z}, y {y}": batches for (z, y), batches in ROUNDS.items()},
        "threads": given.threads,
        "device": given.device if given.device == "cpu" else torch.cuda.get_device_name(),
        "clock": "wall",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}, indent=2))
    name = "soft_contrastive" if given.device == "cpu" else "soft_contrastive_cuda"
    with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
