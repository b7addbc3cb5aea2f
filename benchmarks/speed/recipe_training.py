"""Trainings of SimSiam with a ResNet-18 (small stem, 3 x 32 x 32), with and without options of a training recipe.

Whole trainings by the engine (views of the simclr recipe, forward, backward, optimizer), 300 steps each, in turn in
slices of 50 steps: each slice is stopped, saved and resumed, as a job would be; stopping and saving are not timed.

- "plain": AdamW, one parameter group.
- "groups and schedules": AdamW without weight decay of norms and biases, weight decay on half a cosine, the predictor
  at a constant rate, which makes three parameter groups.
- "lars": the same with LARS.

Process time on a CPU, wall time on a GPU. Target: all alike.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.recipe_training [--batch 8] [--slices 6] [--quick] [--device cuda]
"""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.speed.resnet_step import MAKERS, SIDE
from benchmarks.speed.timing import Clock, clock, milliseconds, parser, ratios, read, record
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.frameworks import SimSiam, simsiam
from viewsmith.methods import ContrastiveMethod
from viewsmith.networks import resnet18
from viewsmith.training.engine import Callback, Trainer
from viewsmith.training.run import CheckpointFolder
from viewsmith.views import PairMaker

PLAIN = Optimizer(weight_decay=0.04)
RECIPE = replace(PLAIN, final_weight_decay=0.4, exclude_norm_and_bias=True, constant_predictor_rate=True)
LARS = replace(RECIPE, name="lars", learning_rate=0.1, weight_decay=1e-6, final_weight_decay=1e-5)
ARMS = {"plain": PLAIN, "groups and schedules": RECIPE, "lars": LARS}


def method(arm: str, epochs: int) -> Method:
    """SimSiam with its small head, trained with the options of an arm."""
    torch.manual_seed(0)
    framework = SimSiam(resnet18(), simsiam.projector(512, 512, 512), simsiam.predictor(512, 128))
    return ContrastiveMethod(framework, PairMaker([MAKERS["simclr"]()]), epochs=epochs, optimizer=ARMS[arm])


class Slice(Callback):
    """Times an epoch, and stops the training after it."""

    def __init__(self, now: Clock) -> None:
        self.now, self.seconds = now, 0.0

    def start(self, trainer: Trainer) -> None:
        self.began = self.now()

    def step(self, trainer: Trainer) -> None:
        if trainer.step == trainer.steps_per_epoch:
            self.seconds = self.now() - self.began
            signal.raise_signal(signal.SIGTERM)  # which a shell does not make its background jobs ignore


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True, batch=8, slices=6, length=50), arguments)
    if given.quick:
        given.batch, given.slices, given.length = 2, 2, 2
    x = 4 * torch.rand(given.batch * given.length, 3, SIDE, SIDE) - 2
    methods = {arm: method(arm, given.slices) for arm in ARMS}
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.slices):
            for arm in ARMS:
                seconds[arm].append(trained(methods[arm], x, CheckpointFolder(Path(folder) / arm), given, number))
    per_step = {arm: [each / given.length for each in taken] for arm, taken in seconds.items()}
    row = {
        "network": "resnet18, small stem",
        "steps": given.slices * given.length,
        "ms": milliseconds(per_step),
        "ratio": ratios(per_step, "plain"),
        "seconds": {arm: round(sum(taken), 1) for arm, taken in seconds.items()},
        "clock": "wall time" if given.device == "cuda" else "process time",
    }
    record("recipe_training", row, given)


def trained(method: Method, x: Tensor, checkpoint: CheckpointFolder, given: argparse.Namespace, number: int) -> float:
    """Seconds of the next slice of a training."""
    part = Slice(clock(given.device, wall=False))
    trainer = Trainer(
        method,
        batch_size=given.batch,
        device=given.device,
        callbacks=[part],
        checkpoint=checkpoint,
        checkpoint_every=float("inf"),
        interruptible=True,
    )
    status = trainer.fit(x, resume=number > 0)
    assert trainer.steps == (number + 1) * given.length, "the training was resumed elsewhere"
    assert status == ("finished" if number == given.slices - 1 else "interrupted")
    return part.seconds


if __name__ == "__main__":
    main()
