"""Time of a SimCLR step with ResNet-18 (small stem, 3 x 32 x 32), and the fraction spent outside of the encoder.

Whole training steps: views, encoder, head 512-512-128, NT-Xent, backward, AdamW. The encoder's forward and backward are
timed inside these steps, because separate steps of the encoder vary more than the difference. float32 and bfloat16
autocast. Views: the simclr recipe, or the samples themselves. Process time on a CPU, wall time on a GPU. Target: at
most 5 % outside of the encoder.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.resnet_step [--device cuda] [--views identity] [--batch 32] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.speed.timing import clock, parser, read, record
from viewsmith.core.schedule import Batch, Method, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod
from viewsmith.modalities.images.views import image_recipe
from viewsmith.networks import MLP, resnet18
from viewsmith.training.updates import make_optimizer
from viewsmith.views import Identity, PairMaker, ViewMaker

SIDE, WARM = 32, 1
MAKERS: dict[str, Callable[[], ViewMaker]] = {
    # For images whose pixels have mean 1/2 and standard deviation 1/4.
    "simclr": lambda: image_recipe("simclr", size=SIDE, mean=0.5, std=0.25),
    "identity": Identity,
}


def options(
    arguments: Sequence[str] | None, doc: str | None, *, batch: int, rounds: int, views: str
) -> argparse.Namespace:
    made = parser(doc, device=True, batch=batch, rounds=rounds)
    made.add_argument("--views", choices=list(MAKERS), default=views)
    given = read(made, arguments)
    given.batch = 4 if given.quick else given.batch
    return given


def simclr() -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(resnet18(), MLP(512, [512, 128]), temperature=0.5)


def contrastive(framework: SimCLR, views: str) -> Method:
    return ContrastiveMethod(framework, PairMaker([MAKERS[views]()]), epochs=1, optimizer=Optimizer())


def step(method: Method, given: argparse.Namespace, *, bf16: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """A training step on random images in two parts: views, forward and backward; and the optimizer's update."""
    device = given.device
    optimizer = make_optimizer(Optimizer(), list(method.to(device).parameters()))
    generator = torch.Generator(device).manual_seed(0)
    x = 4 * torch.rand(given.batch, 3, SIDE, SIDE, device=device, generator=generator) - 2
    batch, losses_of = Batch(x, torch.arange(given.batch, device=device), generator), method.phases()[0].updates[0].step

    def passes() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            losses, _ = losses_of(batch)
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()

    return passes, optimizer.step


def measure(given: argparse.Namespace, *, bf16: bool) -> dict[str, float]:
    framework, now = simclr(), clock(given.device, wall=False)
    passes, update = step(contrastive(framework, given.views), given, bf16=bf16)
    marks: dict[str, float] = {}

    def after_encoder(module: nn.Module, inputs: object, h: Tensor) -> None:
        marks["forward ends"] = now()
        # Called when the gradient has passed the loss and the head: the rest of backward is the encoder's.
        h.register_hook(lambda _: marks.update({"backward starts": now()}))

    framework.encoder.register_forward_pre_hook(lambda *_: marks.update({"forward starts": now()}))
    framework.encoder.register_forward_hook(after_encoder)

    rows = []
    for _ in range(WARM + given.rounds):
        started = now()
        passes()
        backward_ends = now()
        update()
        whole = now() - started
        inside = marks["forward ends"] - marks["forward starts"] + backward_ends - marks["backward starts"]
        rows.append((whole, inside))
    rows = rows[WARM:]
    whole = statistics.median(a for a, _ in rows)
    return {
        "step_ms": round(whole * 1e3, 2),
        "encoder_ms": round(statistics.median(b for _, b in rows) * 1e3, 2),
        "images_per_second": round(given.batch / whole, 1),
        "outside_fraction": round(statistics.median(1 - b / a for a, b in rows), 4),
    }


def record_both(name: str, given: argparse.Namespace, measure: Callable[..., Any], **target: float) -> None:
    """Measure in float32 and bfloat16, and record the results."""
    row = {
        "network": "resnet18, small stem",
        "images": [3, SIDE, SIDE],
        "views": given.views,
        "float32": measure(given, bf16=False),
        "bfloat16": measure(given, bf16=True),
        **target,
        "clock": "wall time" if given.device == "cuda" else "process time",
    }
    record(name, row, given)


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(arguments, __doc__, batch=32, rounds=7, views="simclr")
    record_both("resnet_step", given, measure, target_fraction=0.05)


if __name__ == "__main__":
    main()
