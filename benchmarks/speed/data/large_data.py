"""Seconds and peak memory of `fit` and `embed` of data on disk, each command a process of its own.

`dense`: 10,000,000 x 200 float32 (.npy, 8 GB), 100 Gaussian clusters. `sparse`: 200,000 x 20,000 counts, about 1 % of
them not zero, in compressed rows (.h5ad). Both commands at their defaults, which train on 1,000,000 rows on disk at
most (--trained: another number); with --noise also a minute of training on views `noise`, which reads whole rows by
index. Targets: a peak of at most 4 GB for dense and 3 GB for sparse. The file is written to --folder and deleted in the
end. Data of at most 1 GiB as float32 stay on disk with --stream.

    export OMP_NUM_THREADS=1
    python -m benchmarks.speed.data.large_data [dense sparse] [--rows 10000000] [--folder /tmp] [--quick]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.timing import parser, process, read, record
from viewsmith.training.run import RunFolder

FEATURES, CLUSTERS, GENES, CELLS, DENSITY = 200, 100, 20_000, 200_000, 0.01
BLOCK = 50_000


def write_dense(path: Path, n: int) -> None:
    """Rows of Gaussian clusters, written block by block."""
    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((CLUSTERS, FEATURES), dtype=np.float32)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, FEATURES)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, BLOCK):
            size = min(BLOCK, n - start)
            rows = rng.standard_normal((size, FEATURES), dtype=np.float32)
            rows += centers[rng.integers(0, CLUSTERS, size)]
            file.write(rows.data)


def write_sparse(path: Path, n: int, genes: int) -> None:
    """Counts of 20 kinds of cells, in compressed rows."""
    import anndata
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    favored = rng.gamma(0.3, 1.0, size=(20, genes)) * rng.gamma(0.5, 1.0, size=genes)
    favored = (favored / favored.sum(1, keepdims=True)).cumsum(1)
    reads = int(DENSITY * genes * 1.5)
    parts = []
    for start in range(0, n, 5000):
        size = min(5000, n - start)
        kinds = rng.integers(0, 20, size)
        columns = np.empty((size, reads), np.int32)
        for kind in range(20):
            of = kinds == kind
            columns[of] = np.searchsorted(favored[kind], rng.random((int(of.sum()), reads))).clip(max=genes - 1)
        counts = sp.csr_matrix(
            (np.ones(columns.size, np.float32), columns.ravel(), np.arange(size + 1) * reads), shape=(size, genes)
        )
        counts.sum_duplicates()
        parts.append(counts)
    anndata.AnnData(sp.vstack(parts, format="csr")).write_h5ad(path)


def command(*arguments: object) -> dict[str, float]:
    """Seconds and memory of a viewsmith command."""
    return process(sys.executable, "-m", "viewsmith", *arguments)


def summary_of(run: Path) -> dict[str, Any]:
    """What the run says of its training."""
    told = RunFolder(run).read_summary()
    graph = told.get("neighbor_graph", {})
    seconds = told["seconds"]["training"]
    return {"rows_trained": told["rows"], "steps": told["steps"], "training": seconds, "recall": graph.get("recall")}


def measure(
    kind: str, n: int, folder: Path, threads: int, trained: int, *, noise: bool, stream: bool, quick: bool
) -> dict[str, Any]:
    """Fit and embed one kind of data."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        here = Path(made)
        data = here / ("rows.npy" if kind == "dense" else "cells.h5ad")
        started = time.perf_counter()
        if kind == "dense":
            write_dense(data, n)
        else:
            write_sparse(data, n, GENES if n >= CELLS else 500)
        row: dict[str, Any] = {"rows": n, "file_gb": round(data.stat().st_size / 1e9, 2)}
        row["seconds_to_write"] = round(time.perf_counter() - started, 1)
        most = ["--set", f"max_rows={trained}"]
        options = ["--threads", threads, *(["--stream"] if stream or quick else [])]
        few = ["--epochs", 1] if quick else []
        runs: dict[str, list[object]] = {"fit": []}
        if noise:
            runs["fit_noise"] = ["--views", "noise", "--minutes", 1]
        for name, views in runs.items():
            run = here / name
            row[name] = command("fit", data, "--out", run, *views, *most, *few, *options) | summary_of(run)
            print(name, row[name], flush=True)
            if name == "fit":
                row["embed"] = command("embed", run, data, "--out", here / "H.npy", *options)
                row["embedded"] = list(np.load(here / "H.npy", mmap_mode="r").shape)
                print("embed", row["embed"], flush=True)
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rows=10_000_000, cells=CELLS, trained=1_000_000)
    options.add_argument("kinds", nargs="*", default=["dense", "sparse"], help="dense, sparse")
    options.add_argument("--noise", action="store_true")
    options.add_argument("--stream", action="store_true")
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = read(options, arguments)
    sizes = {"dense": given.rows, "sparse": given.cells} if not given.quick else {"dense": 3000, "sparse": 600}
    for kind in given.kinds:
        found = measure(
            kind,
            sizes[kind],
            given.folder,
            given.threads,
            given.trained,
            noise=given.noise,
            stream=given.stream,
            quick=given.quick,
        )
        record("large_data", {"measured": {kind: found}}, given)


if __name__ == "__main__":
    main()
