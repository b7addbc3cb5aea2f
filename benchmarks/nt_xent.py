"""NT-Xent, forward and backward, against one matmul with F.cross_entropy and against lightly's NTXentLoss.

Batches of 256, 1024 and 4096 pairs of 128 features, temperature 0.5, float32. All in turn, medians of the ratio.
Targets: at most 1.05 times cross entropy; lightly at least 1.4 times ours.

    python benchmarks/nt_xent.py [--threads 1] [--device cuda] [--peers FOLDER]

FOLDER: site-packages that hold lightly and torchvision, looked at after the environment's own; a peer that cannot be
imported is reported as absent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit
from torch import Tensor
from torch.nn import functional as F

from viewsmith.losses import nt_xent
from viewsmith.training.run import environment

WIDTH, TEMPERATURE = 128, 0.5
ROUNDS = {256: 60, 1024: 15, 4096: 5}
Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(z0: Tensor, z1: Tensor) -> Tensor:
    z, n = F.normalize(torch.cat([z0, z1]), dim=1), len(z0)
    logits = (z @ z.T / TEMPERATURE).fill_diagonal_(float("-inf"))
    return F.cross_entropy(logits, torch.arange(2 * n, device=z.device).roll(n))


def lightly() -> Loss | None:
    """lightly's loss, or None. Builds of torchvision for another torch refuse to load over the operators they miss."""
    register = torch.library.register_fake

    def without_vision(name: object, *args: object, **options: object) -> object:
        return (
            (lambda function: function) if str(name).startswith("torchvision::") else register(name, *args, **options)
        )

    torch.library.register_fake = without_vision
    try:
        from lightly.loss import NTXentLoss
    except ImportError:
        return None
    finally:
        torch.library.register_fake = register
    return NTXentLoss(temperature=TEMPERATURE)


def measure(losses: dict[str, Loss], batch: int, device: str) -> dict[str, list[float]]:
    a, b = torch.randn(2, batch, WIDTH, generator=torch.Generator().manual_seed(0)).to(device)
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    values = {}
    for round_ in range(ROUNDS[batch] + 2):
        for name, loss in losses.items():
            x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
            if device != "cpu":
                torch.cuda.synchronize()
            started = time.perf_counter()
            value = loss(x, y)
            value.backward()
            if device != "cpu":
                torch.cuda.synchronize()
            if round_ >= 2:
                seconds[name].append(time.perf_counter() - started)
            values[name] = value.item()
    assert max(values.values()) - min(values.values()) < 1e-4, values
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peers")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.peers:
        sys.path.append(given.peers)
    losses: dict[str, Loss | None] = {
        "viewsmith": lambda x, y: nt_xent(x, y, temperature=TEMPERATURE).mean(),
        "viewsmith, plain": lambda x, y: nt_xent(x, y, temperature=TEMPERATURE, form="plain").mean(),
        "cross entropy": cross_entropy,
        "lightly": lightly(),
    }
    present = {name: loss for name, loss in losses.items() if loss is not None}
    milliseconds, ratios = {}, {}
    for batch in ROUNDS:
        seconds = measure(present, batch, given.device)
        base = seconds["viewsmith"]
        milliseconds[batch] = {name: round(statistics.median(v) * 1e3, 2) for name, v in seconds.items()}
        ratios[batch] = {
            name: round(statistics.median(b / a for a, b in zip(base, v, strict=True)), 3)
            for name, v in seconds.items()
        }
    row = {
        "ms": milliseconds,
        "times_ours": ratios,
        "absent": [name for name in losses if name not in present],
        "target": {"cross entropy": "at least 0.952", "lightly": "at least 1.4"},
        "rounds": ROUNDS,
        "threads": given.threads,
        "device": given.device if given.device == "cpu" else torch.cuda.get_device_name(),
        "clock": "wall",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}, indent=2))
    name = "nt_xent" if given.device == "cpu" else "nt_xent_cuda"
    with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
