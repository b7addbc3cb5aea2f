"""Does CRL-TAC's channel start, and find the object, on images whose background is not empty?

The regimes of `clutter`, 1,500 training images, the defaults of the library but for a batch of 64 and a constant rate;
`STEPS` steps (of an encoder and a channel update), about 10 to 40 s on one CPU thread. The input is scaled by the
statistics of 64 images. Scored on 200 other images, from the test part of the data set. Rows:

default         the defaults: on images that are mostly black (mnist) without a near start, on others with it
180 steps       the defaults with 180 steps
no recurrence   mnist with `recurrence_weight=0`, as in all rows below; also with 180 steps
near start      positives are restricted to crops near each other in the first 50 steps
no near start   positives are never restricted to crops near each other (`start_steps=0`)
uncentered      neither this nor the centering of the input (`scaling="none"`): the defaults before
target 16       an effective number of at least 16 crops, instead of 8

Results, after each third of the steps: effective number of crops ("effective", of M), the same of the mean P(T|x) of
all images ("places"), the mass of P(T|x) on crops at least half inside the object ("mass"; "uniform": of the uniform
distribution), and the fraction of images whose most probable crop is one of them ("top"). "started": at the end, the
effective number is at most M / 4 and top at least .6.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.crl_tac.crl_tac_start [minutes] [regime or row ...]
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.crl_tac.clutter import make
from benchmarks.quality.suite import command
from viewsmith import CRLTAC
from viewsmith.core.random import stream
from viewsmith.core.schedule import Batch
from viewsmith.methods.crl_tac.channel import AugmentationChannel

PATH = RESULTS / "crl_tac_start.jsonl"
PLAIN: dict[str, Any] = {"recurrence_weight": 0}
ROWS: dict[str, dict[str, Any]] = {
    "default": {},
    "180 steps": {},
    "no recurrence": PLAIN,
    "180 steps, no recurrence": PLAIN,
    "near start": PLAIN | {"start_steps": 50},
    "no near start": PLAIN | {"start_steps": 0},
    "uncentered": PLAIN | {"start_steps": 0, "scaling": "none"},
    "target 16": PLAIN | {"effective_target": 16},
}
STEPS = {"mnist": 60, "mnist 16": 60, "mnist scaled": 60, "fashion": 180, "cifar": 60, "fashion 12": 180}
TRAIN, TEST, BATCH, SEEDS = 1500, 200, 64, 20


def inside(boxes: np.ndarray, crops: torch.Tensor, least: float = 0.5) -> torch.Tensor:
    """Which crops (M, 4) have at least this fraction of their area inside the objects (n, 4): bool (n, M)."""
    a, b = torch.from_numpy(boxes)[:, None].double(), crops[None]
    last = torch.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    common = (last - torch.maximum(a[..., :2], b[..., :2])).clamp_min(0).prod(dim=2)
    return common >= least * b[..., 2:].prod(dim=2)


def state(channel: AugmentationChannel, x: torch.Tensor, hit: torch.Tensor) -> dict[str, float]:
    """How P(T|x) is concentrated, and on what."""
    with torch.no_grad():
        p = torch.cat([channel.log_p(part).exp() for part in x.split(50)])
    found = {name: value for name, value in channel.statistics(x).items() if name in ("effective", "places")}
    top = hit.gather(1, p.argmax(1, keepdim=True))
    found |= {"mass": float((p * hit).sum(1).mean()), "top": float(top.double().mean())}
    return {name: round(value, 4) for name, value in found.items()}


def measure(name: str, row: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Train a row for a few steps and look where P(T|x) is."""
    torch.set_num_threads(1)
    (x, _, _), (x_test, _, boxes) = make(name, TRAIN, 0), make(name, TEST, 1, "test")
    steps = 3 if quick else 180 if row.startswith("180 steps") else STEPS[name]
    model = CRLTAC(batch_size=BATCH, epochs=1, random_state=seed, **ROWS[row])
    method = model.fit(x[:BATCH]).untrained(x[:BATCH]).method_.train()
    rows, test = torch.from_numpy(model.scaled(x)), torch.from_numpy(model.scaled(x_test))
    hit = inside(boxes, method.channel.family.boxes(test)[0])
    updates = method.phases()[0].updates
    optimizers = [
        torch.optim.Adam([p for module in update.trains for p in module.parameters()], update.optimizer.learning_rate)
        for update in updates
    ]
    found: dict[str, Any] = {"crops": method.channel.family.size, "uniform": round(float(hit.double().mean()), 4)}
    generator, began = stream(seed, "start"), time.process_time()
    for step in range(steps):
        if step % (TRAIN // BATCH) == 0:
            order = torch.randperm(TRAIN, generator=generator)
        index = order[step % (TRAIN // BATCH) * BATCH :][:BATCH]
        batch = Batch(rows[index], index, generator, step=step)
        for update, optimizer in zip(updates, optimizers, strict=True):
            loss, _ = update.step(batch)
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
        if (step + 1) % (steps // 3) == 0:
            found |= {f"{key} {step + 1}": value for key, value in state(method.channel, test, hit).items()}
    last = state(method.channel, test, hit)
    found |= last | {"started": last["effective"] <= found["crops"] / 4 and last["top"] >= 0.6}
    return found | {"cpu_seconds": round(time.process_time() - began, 1)}


def cells(quick: bool = False) -> list[Cell]:
    """Twenty seeds of the default on three regimes; then three seeds of the other rows, and of the other regimes."""
    first = ("mnist", "fashion", "cifar")
    defaults = (("mnist", "180 steps"), ("fashion", "default"), ("cifar", "default"))
    keys = [(name, row, seed) for seed in range(SEEDS) for name, row in defaults]
    keys += [("mnist", row, seed) for seed in range(SEEDS) for row in ("180 steps, no recurrence", "near start")]
    keys += [("mnist", "no recurrence", seed) for seed in range(SEEDS)]
    keys += [(name, row, seed) for seed in range(3) for row in list(ROWS)[5:] for name in first]
    keys += [(name, "default", seed) for seed in range(3) for name in STEPS if name not in first]
    return [Cell(name, row, seed, partial(measure, name, row, seed, quick=quick)) for name, row, seed in keys]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
