"""CPU time of `fit` on few rows: the default of `Contrastive`, larger batches, 2,000 steps, and UMAP when compiled.

569 x 30 (breast_cancer), and 4,496 and 10,000 rows of 64 features in ten Gaussian clusters. Process time, all in turn:
"short" is the default, which for more than 1,000 rows has the "batches of 256"; UMAP has 32 components and a seed, so
that it uses one thread. Targets: 2 s for 569 rows, 3 s for the others.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.small_fit [--rounds 3] [--works short umap ...] [--quick]
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer

from benchmarks.speed.timing import clock, parser, read, record, time_interleaved
from viewsmith import Contrastive
from viewsmith.estimator.resolve import default_epochs

TARGETS = {569: 2.0, 4496: 3.0, 10_000: 3.0}
WORKS = ("short", "batches of 256", "2,000 steps", "umap")


def clusters(rows: int) -> np.ndarray:
    """Rows of 64 features in ten Gaussian clusters."""
    draw = np.random.default_rng(0)
    return (draw.normal(size=(10, 64))[draw.integers(0, 10, rows)] * 2 + draw.normal(size=(rows, 64))).astype("f4")


def contrastive(x: np.ndarray, epochs: int | str, threads: int, batch_size: int | str = "auto") -> object:
    torch.set_num_threads(threads)  # UMAP leaves another number behind
    return Contrastive(epochs=epochs, batch_size=batch_size, random_state=0).fit(x)


def umap(x: np.ndarray) -> object:
    from umap import UMAP

    return UMAP(n_components=32, random_state=0).fit(x)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--works", nargs="*", choices=WORKS, default=WORKS)
    given = read(options, arguments)
    warnings.simplefilter("ignore")
    peer = importlib.util.find_spec("umap") is not None and not given.quick and "umap" in given.works
    few = load_breast_cancer().data
    contrastive(few, 1, given.threads)  # first use of a module loads and sets up what later fits find
    if peer:
        umap(few)
        umap(clusters(4496))  # more rows take another path, which is compiled, too
    for rows, target in TARGETS.items():
        x = few if rows == len(few) else clusters(60 if given.quick else rows)
        steps = 20 if given.quick else 2000
        long = default_epochs(len(x), 256, steps)
        works: dict[str, Callable[[], object]] = {
            "short": partial(contrastive, x, 1 if given.quick else "auto", given.threads),
            "batches of 256": partial(contrastive, x, 1 if given.quick else "auto", given.threads, 256),
            "2,000 steps": partial(contrastive, x, long, given.threads),
        }
        works = {name: work for name, work in works.items() if name in given.works}
        if peer:
            works["umap"] = partial(umap, x)
        seconds = time_interleaved(works, given.rounds, clock(wall=False), warm=0)
        cpu = {name: [round(value, 2) for value in taken] for name, taken in seconds.items()}
        record("small_fit", {"shape": list(x.shape), "cpu_seconds": cpu, "target": target}, given)


if __name__ == "__main__":
    main()
