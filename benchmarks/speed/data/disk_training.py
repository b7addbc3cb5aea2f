"""Fractions of the training time that are spent waiting for rows on disk, and writing checkpoints.

Trainings of --seconds each: `vectors` reads whole rows by index from a memory map (views `noise`, 200 features), in
random order; `images` reads pixels from the cache of a folder of images (`simclr`, small CNN). Before each training
the pages of the file are dropped from the system's cache (`cold`), or not (`warm`). Checkpoints are written at the
default interval. Waiting is wall time in which training needs a batch that is not there yet; the fractions are of the
wall time of training, and the CPU seconds of checkpoints are given, too. Targets: at most 5 % and 1 %.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.disk_training [vectors images] [--rows 1000000] [--quick]
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from torch import Tensor

from benchmarks.speed.data.large_data import write_dense
from benchmarks.speed.timing import parser, read, record
from viewsmith import Contrastive
from viewsmith.core.samples import Rows, batches
from viewsmith.data.sources import load_dataset
from viewsmith.training import engine

SIDE = 32


def write_images(folder: Path, n: int) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(n):
        Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)).save(folder / f"{number:06}.png")


def drop_cached(folder: Path) -> None:
    """Drop the pages of all files below a folder from the cache of the system."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Watch:
    """Measures waiting and saving in a training."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.waited, self.saves, self.saved, self.saved_cpu = folder, 0.0, 0, 0.0, 0.0
        self.started: float | None = None

    def batches(self, rows: Rows, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        if self.started is None:
            if self.folder is not None:
                drop_cached(self.folder)
            self.started = time.perf_counter()
        found = iter(batches(rows, indices))
        while True:
            before = time.perf_counter()
            batch = next(found, None)
            self.waited += time.perf_counter() - before
            if batch is None:
                return
            yield batch

    def save(self, trainer: engine.Trainer) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        SAVE(trainer)
        self.saves += 1
        self.saved += time.perf_counter() - wall
        self.saved_cpu += time.process_time() - cpu


SAVE = engine.Trainer._save


def measure(kind: str, data: Any, run: Path, seconds: float, cold: Path | None) -> dict[str, Any]:
    """Fractions of the wall time of a training."""
    watch = Watch(cold)
    options: dict[str, Any] = {"epochs": 1000, "minutes": seconds / 60, "random_state": 0}
    if kind == "vectors":
        options |= {"view_maker": "noise", "kernel": "cosine"}
    with (
        mock.patch.object(engine, "batches", watch.batches),
        mock.patch.object(engine.Trainer, "_save", lambda trainer: watch.save(trainer)),
    ):
        cpu = time.process_time()
        model = Contrastive(**options).fit(data, run=run)
        assert watch.started is not None
        wall, cpu = time.perf_counter() - watch.started, time.process_time() - cpu
    return {
        "steps": model.summary_["steps"],
        "seconds": round(wall, 1),
        "cpu": round(cpu, 1),
        "waiting": round(watch.waited / wall, 4),
        "saves": watch.saves,
        "saving": round(watch.saved / wall, 5),
        "cpu_of_a_save": round(watch.saved_cpu / watch.saves, 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rows=1_000_000, images=20_000, seconds=90)
    options.add_argument("kinds", nargs="*", default=["vectors", "images"])
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = read(options, arguments)
    warnings.simplefilter("ignore")
    if given.quick:
        given.rows, given.images, given.seconds = 1000, 64, 2
    for kind in given.kinds:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            here = Path(folder)
            if kind == "vectors":
                write_dense(here / "rows.npy", given.rows)
                data = load_dataset(here / "rows.npy", stream=True).x
            else:
                write_images(here / "images", given.images)
                data = load_dataset(here / "images", cache=here / "cache").x
            for cold in (True, False):
                run = here / f"run-{cold}"
                found = measure(kind, data, run, given.seconds, here if cold else None)
                record("disk_training", {"kind": kind, "cold": cold, "measured": found}, given)


if __name__ == "__main__":
    main()
