"""Steps of whole trainings of SimCLR with a ResNet-18 (small stem, 3 x 32 x 32) on a GPU, beside the encoder alone.

The engine trains on random images: views of the simclr recipe, forward and backward pass, AdamW, in bfloat16.

- "as it is": every kernel is launched by Python. "replayed": the step is one CUDA graph, the default on a GPU.
- "compiled": with `compile=True`; "compiled and measured": the convolutions' algorithms are also chosen by timing
  (`torch.backends.cudnn.benchmark`).
- "encoder": forward and backward pass of the encoder alone on two views, as a graph, without and with `torch.compile`.
- "lightly": head and loss of lightly on the same encoder, without views, and how many pairs of views its transforms
  make in 15 processes.

Wall time. The mean loss of the last epoch tells that all trainings learn alike. Asked: 35,000 images a second, and at
most 15 % of the step outside of the encoder.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.training_step --device cuda [--batch 256] [--length 100] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed.resnet_step import SIDE, contrastive, simclr
from benchmarks.speed.timing import clock, parser, read, record
from viewsmith.core.schedule import Batch
from viewsmith.networks import resnet18
from viewsmith.training.engine import Callback, Trainer
from viewsmith.training.replay import Compiled, ReplayedPasses

ARMS: dict[str, dict[str, Any]] = {"as it is": {"replay": False}, "replayed": {}, "compiled": {"compile": True}}
EPOCHS = 4


class Epochs(Callback):
    """Seconds of every epoch, and the last loss."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.seconds = now, list[float]()

    def start(self, trainer: Trainer) -> None:
        self.began = self.now()

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self.loss = row["loss"]
        self.seconds.append(self.now() - self.began)
        self.began = self.now()


def training(given: argparse.Namespace, x: Tensor, **options: Any) -> dict[str, float]:
    """Milliseconds of a step, the median of all epochs but the first."""
    method, timed = contrastive(simclr(), "simclr"), Epochs(clock(given.device))
    method.epochs = EPOCHS  # type: ignore[attr-defined]
    trainer = Trainer(
        method, batch_size=given.batch, device=given.device, precision="bf16", callbacks=[timed], **options
    )
    trainer.fit(x)
    seconds = statistics.median(timed.seconds[1:]) / trainer.steps_per_epoch
    return {
        "ms": round(seconds * 1e3, 3),
        "images_per_second": round(given.batch / seconds),
        "loss": round(timed.loss, 4),
        "seconds_first_epoch": round(timed.seconds[0], 1),
    }


def encoder_alone(given: argparse.Namespace, x: Tensor, compiled: bool) -> float:
    """Milliseconds of forward and backward pass of the encoder on both views of a batch."""
    torch.manual_seed(0)
    encoder = resnet18().to(given.device)
    within = Compiled(encoder) if compiled else nullcontext
    views = torch.cat([x, x]).to(given.device)

    def passes(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with within(), torch.autocast(given.device, torch.bfloat16, cache_enabled=False):
            loss = encoder(batch.x).float().square().mean()
        for parameter in encoder.parameters():
            parameter.grad = None
        loss.backward()
        return loss.detach(), {}

    batch = Batch(views, torch.arange(len(views), device=given.device), torch.Generator(given.device))
    step = ReplayedPasses(passes, list(encoder.parameters())) if given.device == "cuda" else passes
    return per_call(lambda: step(batch), given)


def per_call(work: Callable[[], object], given: argparse.Namespace) -> float:
    """Milliseconds of a call: the median of five runs of a fifth of `length` calls each, after a warm-up."""
    now, calls, taken = clock(given.device), max(1, given.length // 5), list[float]()
    for number in range(6):
        began = now()
        for _ in range(calls):
            work()
        taken += [(now() - began) / calls] if number else []
    return round(statistics.median(taken) * 1e3, 3)


def lightly(given: argparse.Namespace, x: Tensor) -> dict[str, float]:
    """Milliseconds of a step with lightly's head and loss, and pairs of views its transforms make in a second."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    encoder, head = resnet18().to(given.device), SimCLRProjectionHead(512, 512, 128).to(given.device)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], fused=True)
    criterion, views = NTXentLoss(0.5), x.to(given.device)

    def step() -> None:
        with torch.autocast(given.device, torch.bfloat16):
            loss = criterion(head(encoder(views)), head(encoder(views)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels = np.random.default_rng(0).integers(0, 256, (64, SIDE, SIDE, 3), np.uint8)
    images, transform = [Image.fromarray(each) for each in pixels], SimCLRTransform(input_size=SIDE, gaussian_blur=0.0)

    class Views(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return given.batch * 60

        def __getitem__(self, row: int) -> Any:
            return transform(images[row % len(images)])

    found = {"ms_without_views": per_call(step, given)}
    batches = iter(DataLoader(Views(), batch_size=given.batch, num_workers=15))
    for _ in range(20):
        next(batches)
    began, count = time.perf_counter(), sum(1 for _ in batches)
    return found | {"pairs_of_views_per_second": round(count * given.batch / (time.perf_counter() - began))}


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True, batch=256, length=100), arguments)
    if given.quick:
        given.batch, given.length = 2, 3
    x = 4 * torch.rand(given.batch * given.length, 3, SIDE, SIDE) - 2
    on_gpu = given.device == "cuda"
    rows = {name: training(given, x, **options) for name, options in ARMS.items() if on_gpu or "compile" not in options}
    few = x[: given.batch]
    row: dict[str, Any] = {"network": "resnet18, small stem", "rows": rows}
    if on_gpu:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True):
            rows["compiled and measured"] = training(given, x, compile=True)
            row["encoder_ms_compiled_and_measured"] = encoder_alone(given, few, True)
        row["encoder_ms_compiled"] = encoder_alone(given, few, True)
        row["lightly"] = lightly(given, few)
    row["encoder_ms"] = encoder_alone(given, few, False)
    record("training_step", row | {"clock": "wall time", "asked_images_per_second": 35_000}, given)


if __name__ == "__main__":
    main()
