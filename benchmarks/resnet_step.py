"""A SimCLR step with ResNet-18 (small stem, 3 x 32 x 32), and the share of it spent outside of the encoder.

Whole training steps (views, encoder, head 512-512-128, NT-Xent, backward, AdamW); the encoder's forward and backward
are timed inside them, since steps of the encoder alone differ from whole ones by less than they spread. float32 and
bfloat16 autocast. Views: the simclr recipe of crops and color, or the samples themselves. Process time on a CPU, wall
time on a GPU.
Target: at most 5 % outside of the encoder.

    OMP_NUM_THREADS=1 python benchmarks/resnet_step.py [--device cuda] [--views identity] [--batch 32] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import torch
from runner import RESULTS, commit
from torch import Tensor, nn

from viewsmith.core.method import Batch, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod
from viewsmith.networks import MLP, resnet18
from viewsmith.training.optimizers import make_optimizer
from viewsmith.training.run import environment
from viewsmith.views import Identity, ViewMaker, ViewPair
from viewsmith.views.fixed.images import image_recipe

SIDE, WARM = 32, 1
MAKERS: dict[str, Callable[[], ViewMaker]] = {
    # Of images whose pixels have the mean 1/2 and the standard deviation 1/4.
    "simclr": lambda: image_recipe("simclr", size=SIDE, mean=0.5, std=0.25),
    "identity": Identity,
}


def arguments(batch: int, rounds: int, views: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, default=batch, help="samples a step; an encoder sees twice as many views")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--views", choices=["simclr", "identity"], default=views)
    return parser.parse_args()


def now(device: str) -> float:
    """Seconds: of wall time after all work of a GPU, of this process on a CPU."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def measure(device: str, views: str, batch: int, rounds: int, bf16: bool) -> dict[str, float]:
    torch.manual_seed(0)
    framework = SimCLR(resnet18(), MLP(512, [512, 128]), temperature=0.5)
    method = ContrastiveMethod(framework, ViewPair([MAKERS[views]()]), epochs=1, optimizer=Optimizer()).to(device)
    optimizer = make_optimizer(Optimizer(), list(method.parameters()))
    generator = torch.Generator(device).manual_seed(0)
    x = 4 * torch.rand(batch, 3, SIDE, SIDE, device=device, generator=generator) - 2
    index = torch.arange(batch, device=device)
    marks: dict[str, float] = {}

    def left_encoder(module: nn.Module, given: object, h: Tensor) -> None:
        marks["forward ends"] = now(device)
        # Called once the head and the loss have sent their gradient back: what remains is the encoder's backward.
        h.register_hook(lambda _: marks.update({"backward starts": now(device)}))

    framework.encoder.register_forward_pre_hook(lambda *_: marks.update({"forward starts": now(device)}))
    framework.encoder.register_forward_hook(left_encoder)

    rows = []
    for _ in range(WARM + rounds):
        started = now(device)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            losses, _ = method.encoder_step(Batch(x, index, generator))
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        backward_ends = now(device)
        optimizer.step()
        whole = now(device) - started
        inside = marks["forward ends"] - marks["forward starts"] + backward_ends - marks["backward starts"]
        rows.append((whole, inside))
    rows = rows[WARM:]
    whole = statistics.median(a for a, _ in rows)
    return {
        "step_ms": round(whole * 1e3, 2),
        "encoder_ms": round(statistics.median(b for _, b in rows) * 1e3, 2),
        "images_per_second": round(batch / whole, 1),
        "outside_share": round(statistics.median(1 - b / a for a, b in rows), 4),
    }


def record(name: str, given: argparse.Namespace, measure: Callable[..., Any], target: dict[str, float]) -> None:
    """Measure in both precisions, print, and append the line to the results of the device."""
    torch.set_num_threads(given.threads)
    row = {
        "network": "resnet18, small stem",
        "images": [3, SIDE, SIDE],
        "batch": given.batch,
        "views": given.views,
        "device": given.device,
        "float32": measure(given.device, given.views, given.batch, given.rounds, bf16=False),
        "bfloat16": measure(given.device, given.views, given.batch, given.rounds, bf16=True),
        **target,
        "rounds": given.rounds,
        "clock": "wall time" if given.device == "cuda" else "process time",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}, indent=2))
    file_name = name if given.device == "cpu" else f"{name}_cuda"
    with (RESULTS / f"{file_name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    record("resnet_step", arguments(batch=32, rounds=7, views="simclr"), measure, {"target_share": 0.05})
