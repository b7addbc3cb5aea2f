"""CPU time of the default `fit` of images and recordings, the closed form, on 50, 500 and 5,000 samples.

Images: rows of cifar10 (`VIEWSMITH_DATA`; without it, random ones of 32 x 32 x 3, whose patches take as long).
Recordings: random walks of 100 points. Process time. Targets: 10, 20 and 90 s on one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.default_fit [--rounds 1] [--quick]
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.speed.timing import clock, parser, read, record, time_interleaved
from viewsmith import LinearContrast

TARGETS = {50: 10.0, 500: 20.0, 5000: 90.0}


def images(rows: int) -> np.ndarray:
    """Color images of 32 x 32 pixels, uint8."""
    if "VIEWSMITH_DATA" in os.environ:
        from benchmarks.common.data import DataSet, load

        return load(DataSet("cifar10_small", "images")).x[:rows]
    return np.random.default_rng(0).integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)


def walks(rows: int) -> np.ndarray:
    """Random walks of 100 points, float32 (n, 1, 100)."""
    return np.random.default_rng(0).normal(size=(rows, 1, 100)).cumsum(2).astype(np.float32)


def fit(x: np.ndarray, modality: str) -> object:
    return LinearContrast(modality=modality, random_state=0).fit(x)


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=1), arguments)
    warnings.simplefilter("ignore")
    fit(walks(20), "series")  # first use of a module loads what later fits find
    for rows, target in TARGETS.items():
        n = min(rows, 60) if given.quick else rows
        works = {"images": partial(fit, images(n), "images"), "recordings": partial(fit, walks(n), "series")}
        seconds = time_interleaved(works, given.rounds, clock(wall=False), warm=0)
        cpu = {name: [round(value, 2) for value in taken] for name, taken in seconds.items()}
        record("default_fit", {"rows": n, "cpu_seconds": cpu, "target": target}, given)


if __name__ == "__main__":
    main()
