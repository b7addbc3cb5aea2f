"""The neighbor recipe on many rows: what do an approximate neighbor graph and fewer training steps cost?

The largest real sets at hand, as vectors, and a mixture of 100 overlapping Gaussian clusters (centers with standard
deviation .7 in 50 dimensions, noise 1); 5,000 test rows, 3 seeds. "2,000 steps" (learning rate .003) and "1,000 steps"
(.0045, the head's .00135) use the approximate graph, "exact graph" 2,000 steps. Target: k-means and 5 nearest neighbors
within .005 of the exact graph.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.many_rows [minutes] [set or row] [--quick]
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import LEARNED, SEEDS, command, score
from viewsmith import Contrastive
from viewsmith.estimator.resolve import default_epochs
from viewsmith.views import neighbors

SETS = {name: DataSet(name) for name in ("mnist", "fashion_mnist", "letter")}
# Steps, options, and the number of rows up to which the search is exact.
ROWS: dict[str, tuple[int, dict[str, float], int]] = {
    "2,000 steps": (2000, {"learning_rate": 3e-3}, 0),
    "exact graph": (2000, {"learning_rate": 3e-3}, 2**40),
    "1,000 steps": (1000, {"learning_rate": 4.5e-3, "head_learning_rate": 1.35e-3}, 0),
}
PROTOCOLS = ("knn", "kmeans_accuracy", "nmi")


def mixture(rows: int, clusters: int = 100, features: int = 50) -> Data:
    """Train rows, and 5,000 test rows."""
    rng = np.random.default_rng(0)
    centers = 0.7 * rng.standard_normal((clusters, features), dtype=np.float32)
    y = rng.integers(0, clusters, rows + 5000)
    x = centers[y] + rng.standard_normal((len(y), features), dtype=np.float32)
    return Data(x[:rows], y[:rows], x[rows:], y[rows:])


def work(name: str, row: str, seed: int, few: bool) -> dict[str, Any]:
    """Results of a cell."""
    torch.set_num_threads(1)
    steps, options, exact_up_to = ROWS[row]
    if few:
        data, steps = mixture(6000, clusters=5), 1
    else:
        data = load(SETS[name]) if name in SETS else mixture(100_000)
    epochs = default_epochs(len(data.x), 256, steps)
    started = time.process_time()
    with mock.patch.object(neighbors, "EXACT_UP_TO", exact_up_to):
        model = Contrastive(random_state=seed, epochs=epochs, **LEARNED, **options).fit(data.x)
    cpu = time.process_time() - started
    found = score(model.transform(data.x), model.transform(data.x_test), data, PROTOCOLS)
    graph = model.summary_["neighbor_graph"]
    return found | {"cpu_fit": round(cpu, 2), "steps": model.summary_["steps"], "graph": graph}


def cells(quick: bool) -> list[Cell]:
    names = ["mixture_100000"] if quick else [*SETS, "mixture_100000"]
    seeds = SEEDS[:1] if quick else SEEDS
    return [
        Cell(name, row, seed, partial(work, name, row, seed, quick)) for seed in seeds for name in names for row in ROWS
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "many_rows.jsonl", cells)
