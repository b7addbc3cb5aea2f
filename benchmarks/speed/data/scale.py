"""CPU time, peak memory and quality of the default of `contrastive` and of UMAP on 20,000 to 1,000,000 x 50 rows.

The rows are 100 Gaussian clusters (`neighbor_graph.clustered`) in an .npy file. `contrastive`, `umap_32` and `umap_2`
(umap-learn) read it, fit, and write the embedding of all rows, each in a process of its own with one thread and a seed;
a first fit on 5,000 rows, which imports and compiles what is needed, is not counted in `cpu`. `commands`: `fit` and
`embed`, each a whole process, counted from its start. In turn, one results line for each cell, so that the script can
be stopped and resumed. A process that needs more than --limit CPU seconds is ended and recorded with `more_than`:
then `cpu` and `wall` are those of the whole process, of which `first_cpu` were spent before the second fit. Scores: 5
nearest neighbors and k-means on 5,000 rows, with the labels of the clusters. Targets: four times (20,000 and 100,000
rows: three times) faster than UMAP with 32 components; 1,000,000 rows in 300 s with 3 GB and a recall of .95.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.scale [sizes ...] [--rows umap_32 ...] [--rounds 2] [--quick]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.runner import RESULTS, Cell, rows, run
from benchmarks.speed.data.neighbor_graph import CLUSTERS, FEATURES
from benchmarks.speed.timing import parser, process, read
from viewsmith import Contrastive
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.training.run import RunFolder

SIZES = (20_000, 100_000, 1_000_000)
METHODS = ("contrastive", "umap_32", "umap_2", "commands")
FIRST = 5000  # rows of the first fit: UMAP searches approximately from 4,096 on, which is compiled, too


def clustered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 50) of 100 Gaussian clusters, float32, and the cluster of each."""
    generator = torch.Generator().manual_seed(n)
    centers = 2 * torch.randn(CLUSTERS, FEATURES, generator=generator)
    labels = torch.randint(CLUSTERS, (n,), generator=generator)
    return (centers[labels] + torch.randn(n, FEATURES, generator=generator)).numpy(), labels.numpy()


def commands(data: Path, out: Path, seed: int, limit: int) -> dict[str, Any]:
    """`fit` and `embed` as commands."""
    start, run_folder = [sys.executable, "-m", "viewsmith"], data.parent / "run"
    fit = process(*start, "fit", data, "--out", run_folder, "--seed", seed, "--threads", 1, limit=limit)
    if "more_than" in fit:
        return fit
    embed = process(*start, "embed", run_folder, data, "--out", out, "--threads", 1)
    told = RunFolder(run_folder).read_summary()
    return {
        "cpu": round(fit["cpu"] + embed["cpu"], 1),
        "wall": round(fit["wall"] + embed["wall"], 1),
        "peak_gb": max(fit["peak_gb"], embed["peak_gb"]),
        "fit": fit,
        "embed": embed,
        "steps": told["steps"],
        "graph": told["neighbor_graph"],
    }


def alone(method: str, data: Path, out: Path, seed: int, limit: int) -> dict[str, Any]:
    """A method in a process of its own: what `in_process` found, and the peak memory and CPU seconds of the process."""
    result_file = out.with_suffix(".json")
    code = "from benchmarks.speed.data.scale import in_process; import sys; in_process(*sys.argv[1:])"
    found = process(sys.executable, "-c", code, method, data, out, seed, result_file, limit=limit)
    return found | {"whole_cpu": found["cpu"]} | (json.loads(result_file.read_text()) if result_file.exists() else {})


def in_process(method: str, data: str, out: str, seed: str, result_file: str) -> None:
    """Fit twice, on few and on all rows; write the representations, and seconds and facts of the second fit."""
    torch.set_num_threads(1)
    fit = contrastive if method == "contrastive" else partial(umap, int(method.partition("_")[2]))
    fit(np.load(data, mmap_mode="r")[:FIRST].copy(), int(seed))
    torch.set_num_threads(1)  # UMAP leaves another number behind
    cpu, wall = time.process_time(), time.perf_counter()
    first = {"first_cpu": round(cpu, 1)}
    Path(result_file).write_text(json.dumps(first))  # a process that reaches its limit leaves this
    h, found = fit(np.load(data), int(seed))
    np.save(out, h)
    seconds = {"cpu": round(time.process_time() - cpu, 1), "wall": round(time.perf_counter() - wall, 1)}
    Path(result_file).write_text(json.dumps(first | seconds | found))


def contrastive(x: np.ndarray, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    started = time.process_time()
    model = Contrastive(random_state=seed).fit(x)
    fitted = round(time.process_time() - started, 1)
    told = model.summary_
    return model.transform(x), {"cpu_fit": fitted, "steps": told["steps"], "graph": told["neighbor_graph"]}


def umap(components: int, x: np.ndarray, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    from umap import UMAP

    return UMAP(n_components=components, random_state=seed, n_jobs=1).fit_transform(x), {}


def scores(representations: Path, y: np.ndarray) -> dict[str, float]:
    """Nearest neighbors and k-means on random rows, half of up to 10,000 for each side."""
    h = np.load(representations, mmap_mode="r")
    chosen = np.random.default_rng(0).permutation(len(h))[:10_000]
    train, test = np.sort(chosen[: len(chosen) // 2]), np.sort(chosen[len(chosen) // 2 :])
    protocols = ["knn", "kmeans_accuracy", "nmi"]
    found = evaluate_embedding(h[train], y[train], h[test], y[test], protocols=protocols, metric="euclidean")
    return {name: round(value, 4) for name, value in found.items()}


def work(n: int, method: str, seed: int, folder: Path, limit: int) -> dict[str, Any]:
    """Results of a cell."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        here = Path(made)
        x, y = clustered(n)
        np.save(here / "rows.npy", x)
        del x
        measure = commands if method == "commands" else partial(alone, method)
        found = measure(here / "rows.npy", here / "H.npy", seed, limit)
        return found if "more_than" in found else found | {"scores": scores(here / "H.npy", y)}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rounds=1, limit=2400)
    options.add_argument("sizes", nargs="*", type=int, default=SIZES, help="numbers of rows")
    options.add_argument("--rows", nargs="*", choices=METHODS, default=METHODS)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = read(options, arguments)
    sizes, methods = ((600,), ("contrastive", "commands")) if given.quick else (given.sizes, given.rows)
    cells = [
        Cell(f"clustered_{n}", method, seed, partial(work, n, method, seed, given.folder, given.limit))
        for n in sizes
        for seed in range(given.rounds)
        for method in methods
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = (Path(folder) if given.quick else RESULTS) / "scale.jsonl"
        run(cells, path)
        if given.quick and any("error" in row for row in rows(path)):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
