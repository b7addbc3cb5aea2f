"""Time and memory of imports and of commands of viewsmith, each a process of its own; also of the whole evaluation."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from torch import Tensor

from benchmarks.common.data import data_folder
from benchmarks.common.runner import ROOT
from benchmarks.speed.fits import FOLDER
from benchmarks.speed.timing import Row, case, process, time_interleaved, watched
from viewsmith import Contrastive
from viewsmith.core.distributed import PRELOADED
from viewsmith.core.samples import Rows, batches
from viewsmith.data import load_dataset
from viewsmith.evaluation import PROTOCOLS, evaluate_embedding, label_free, pca
from viewsmith.training import engine
from viewsmith.training.run import RunFolder
from viewsmith.workflows.over_files import OverFiles

STATEMENTS = {
    "torch": "import torch",
    "torch + viewsmith": "import torch, viewsmith",
    "torch + viewsmith.losses, views": "import torch, viewsmith.losses, viewsmith.views",
    "torch + sklearn.base": "import torch, sklearn.base",
    "torch + viewsmith.PiNDA": "import torch; from viewsmith import PiNDA",
}
#: Arguments of commands that are refused: faults of the command line, and of data.
ERRORS = {
    "missing file": "fit none.csv --out run",
    "missing run": "embed none none.csv --out h.npz",
    "unknown framework": "fit digits --out run --framework byl",
    "unknown flag": "fit digits --out run --epoch 3",
    "table with one row": "fit one.csv --out run",
    "array with one row": "fit one.npy --out run",
    "array of five axes, with options": "fit five.npy --out run --epochs 3 --threads 1",
    "wrong letter in FASTA": "fit wrong.fa --out run",
    "damaged .h5ad": "fit damaged.h5ad --out run",
    "image of 3 pixels": "fit images --out run",
    "compare, table with one row": "compare one.csv --out run",
    "discover, two images": "discover images --out run",
}


def cpu_time() -> float:
    """CPU seconds of all child processes that have ended: the time that they take on a core without other work."""
    times = os.times()
    return times.children_user + times.children_system


def refused(arguments: str, folder: str) -> None:
    """Run a command that must be refused."""
    command = [sys.executable, "-m", "viewsmith", *arguments.split()]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, capture_output=True, env=environment)
    assert done.returncode == 2, done.stderr


@case(rounds=7)
def import_time(given: argparse.Namespace) -> Iterator[Row]:
    """What `import viewsmith` adds to `import torch`, and a command until it reports an error; CPU seconds.

    Each in a new Python process, interleaved rounds. Targets: `import viewsmith` adds at most 0.3 s; a command that
    names a missing file, an unknown part or an unknown option ends after at most 0.5 s, one whose data are faulty after
    at most 1.5 s. The estimators need scikit-learn, whose import is timed separately.
    """
    from PIL import Image

    works: dict[str, Any] = {
        name: partial(subprocess.run, [sys.executable, "-c", statement], check=True)
        for name, statement in STATEMENTS.items()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "one.csv").write_text("a,b\n1,2\n")
        np.save(folder / "one.npy", np.ones((1, 3)))
        np.save(folder / "five.npy", np.ones((3, 2, 2, 2, 2)))
        (folder / "wrong.fa").write_text(">a\nACGT\n>b\nAC1T\n")
        (folder / "damaged.h5ad").write_text("none")
        (folder / "images").mkdir()
        for side in (16, 3):
            Image.new("RGB", (side, 16)).save(folder / "images" / f"{side}.png")
        works |= {error: partial(refused, line, name) for error, line in ERRORS.items()}
        # The round that is not recorded fills the disk cache.
        seconds = time_interleaved(works, given.rounds, cpu_time, warm=0 if given.quick else 1)
    errors = {name: round(statistics.median(seconds.pop(name)), 3) for name in ERRORS}
    base = seconds.pop("torch")
    yield {
        "median_s": {name: round(statistics.median(taken), 3) for name, taken in {"torch": base, **seconds}.items()},
        "added_s": {
            name: round(statistics.median(b - a for a, b in zip(base, taken, strict=True)), 3)
            for name, taken in seconds.items()
        },
        "target_s": 0.3,
        "error_s": errors,
        "error_target_s": {name: 0.5 if number < 4 else 1.5 for number, name in enumerate(ERRORS)},
    }


def synthetic(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) of 20 classes in 60 hidden dimensions, float32, and their classes."""
    rng, hidden = np.random.default_rng(0), 60
    y = rng.integers(0, 20, rows)
    centers = rng.normal(size=(20, hidden)) * 0.5
    inner = (centers[y] + rng.normal(size=(rows, hidden))).astype(np.float32)
    mixing = rng.normal(size=(hidden, features)).astype(np.float32) / np.float32(np.sqrt(2 * hidden))
    return inner @ mixing + rng.standard_normal((rows, features), dtype=np.float32), y


def projected(x: np.ndarray, seed: int) -> np.ndarray:
    """ReLU of a random projection, (n, 256)."""
    weights = np.random.default_rng(seed).standard_normal((x.shape[1], 256), dtype=np.float32)
    return np.maximum(x @ weights / np.float32(np.sqrt(x.shape[1])), 0)


@case(threads=2)
def evaluate_speed(given: argparse.Namespace) -> Iterator[Row]:
    """All protocols of `viewsmith evaluate` on 10,000 x 2,000 data: raw rows, PCA and two 256-d embeddings.

    The data are synthetic, for timing only; 8,000 train and 2,000 test rows. The embeddings are rectified random
    projections, as wide as a default representation. Target: at most 2 minutes in total on two cores. Other work on the
    machine slows two threads far more than one, so every result has the load of the machine at the start.
    """
    load, seconds = os.getloadavg()[0], dict[str, float]()
    x, y = synthetic(*((200, 40) if given.quick else (10_000, 2_000)))
    train = 4 * len(x) // 5
    raw = x[:train], x[train:]
    makers = {"raw": lambda: raw, "pca": lambda: pca(*raw)} | {
        f"projection {seed}": lambda seed=seed: tuple(projected(part, seed) for part in raw) for seed in (1, 2)
    }
    # Protocols are timed one by one, except those that use the same k-means.
    of_clusters = [[f"{name}{end}" for name in ("kmeans_accuracy", "nmi", "ari")] for end in ("", "_l2")]
    groups = [*([name] for name in PROTOCOLS if not any(name in of for of in of_clusters)), *of_clusters]
    for name, make in makers.items():
        started = time.perf_counter()
        h, h_test = make()
        seconds[f"{name}: embed"] = time.perf_counter() - started
        for group in groups:
            started = time.perf_counter()
            evaluate_embedding(h, y[:train], h_test, y[train:], protocols=group)
            seconds[f"{name}: {group[0]}"] = time.perf_counter() - started
        started = time.perf_counter()
        label_free(h_test)
        seconds[f"{name}: label-free"] = time.perf_counter() - started
    yield {
        "total_seconds": round(sum(seconds.values()), 1),
        "target_seconds": 120,
        "seconds": {part: round(value, 2) for part, value in seconds.items()},
        "load_before": round(load, 1),
    }


# ---- data on disk ---------------------------------------------------------------------------------------------------


def write_dense(path: Path, n: int, features: int = 200) -> None:
    """Rows of 100 Gaussian clusters, written block by block."""
    rng, block = np.random.default_rng(0), 50_000
    centers = 2 * rng.standard_normal((100, features), dtype=np.float32)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, features)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, block):
            size = min(block, n - start)
            rows = rng.standard_normal((size, features), dtype=np.float32)
            rows += centers[rng.integers(0, 100, size)]
            file.write(rows.data)


def write_sparse(path: Path, n: int, genes: int) -> None:
    """Counts of 20 kinds of cells, about 1 % of them not zero, in compressed rows."""
    import anndata
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    favored = rng.gamma(0.3, 1.0, size=(20, genes)) * rng.gamma(0.5, 1.0, size=genes)
    favored = (favored / favored.sum(1, keepdims=True)).cumsum(1)
    reads, parts = int(0.015 * genes), []
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


@case(
    options={
        "kinds": {"nargs": "*", "default": ["dense", "sparse"], "help": "dense, sparse"},
        "--noise": {"action": "store_true", "help": "also a minute of training on views `noise`"},
        "--stream": {"action": "store_true", "help": "keep data of at most 1 GiB on disk, too"},
        **FOLDER,
    },
    rows=10_000_000,
    cells=200_000,
    trained=1_000_000,
)
def large_data(given: argparse.Namespace) -> Iterator[Row]:
    """Seconds and peak memory of `fit` and `embed` of data on disk, each command a process of its own.

    `dense`: 10,000,000 x 200 float32 (.npy, 8 GB), 100 Gaussian clusters. `sparse`: 200,000 x 20,000 counts in
    compressed rows (.h5ad). Both commands at their defaults, which train on 1,000,000 rows on disk at most (--trained:
    another number). Targets: a peak of at most 4 GB for dense and 3 GB for sparse.
    """
    python = [sys.executable, "-m", "viewsmith"]
    options = ["--threads", given.threads, *(["--stream"] if given.stream or given.quick else [])]
    runs: dict[str, list[object]] = {"fit": []}
    runs |= {"fit_noise": ["--views", "noise", "--minutes", 1]} if given.noise else {}
    for kind in given.kinds:
        with tempfile.TemporaryDirectory(dir=given.folder) as made:
            here, started = Path(made), time.perf_counter()
            data = here / ("rows.npy" if kind == "dense" else "cells.h5ad")
            n = given.rows if kind == "dense" else given.cells
            n = {"dense": 3000, "sparse": 600}[kind] if given.quick else n
            if kind == "dense":
                write_dense(data, n)
            else:
                write_sparse(data, n, 500 if given.quick else 20_000)
            row: Row = {"rows": n, "file_gb": round(data.stat().st_size / 1e9, 2)}
            row["seconds_to_write"] = round(time.perf_counter() - started, 1)
            for name, views in runs.items():
                more = [*views, "--set", f"max_rows={given.trained}", *(["--epochs", 1] if given.quick else [])]
                row[name] = process(*python, "fit", data, "--out", here / name, *more, *options)
                told = RunFolder(here / name).read_summary()
                row[name] |= {"rows_trained": told["rows"], "steps": told["steps"]}
                row[name] |= {"training": told["seconds"]["training"]}
                row[name] |= {"recall": told.get("neighbor_graph", {}).get("recall")}
            row["embed"] = process(*python, "embed", here / "fit", data, "--out", here / "H.npy", *options)
            row["embedded"] = list(np.load(here / "H.npy", mmap_mode="r").shape)
        yield {"measured": {kind: row}}


class Watch:
    """Measures waiting and saving in a training; drops the pages of a folder from the system's cache before it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.waited, self.saves, self.saved, self.saved_cpu = folder, 0.0, 0, 0.0, 0.0
        self.started: float | None = None

    def batches(self, rows: Rows, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        if self.started is None:
            for path in self.folder.rglob("*") if self.folder else ():
                if path.is_file():
                    with path.open("rb") as file:
                        os.fsync(file.fileno())
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
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


@case(
    options={"kinds": {"nargs": "*", "default": ["vectors", "images"]}, **FOLDER},
    rows=1_000_000,
    images=20_000,
    seconds=90,
)
def disk_training(given: argparse.Namespace) -> Iterator[Row]:
    """Fractions of the training time that are spent waiting for rows on disk, and writing checkpoints.

    Trainings of --seconds each: `vectors` reads whole rows by index from a memory map (views `noise`, 200 features), in
    random order; `images` reads pixels from the cache of a folder of images (`simclr`, small CNN). Before each training
    the pages of the file are dropped from the system's cache (`cold`), or not. Checkpoints are written at the default
    interval. Waiting is wall time in which training needs a batch that is not there yet; the fractions are of the wall
    time of training, and the CPU seconds of checkpoints are given, too. Targets: at most 5 % and 1 %.
    """
    from PIL import Image

    warnings.simplefilter("ignore")
    if given.quick:
        given.rows, given.images, given.seconds = 1000, 64, 2
    for kind in given.kinds:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            here, rng = Path(folder), np.random.default_rng(0)
            if kind == "vectors":
                write_dense(here / "rows.npy", given.rows)
                data = load_dataset(here / "rows.npy", stream=True).x
            else:
                (here / "images").mkdir()
                for number in range(given.images):
                    image = Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8))
                    image.save(here / "images" / f"{number:06}.png")
                data = load_dataset(here / "images", cache=here / "cache").x
            for cold in (True, False):
                watch = Watch(here if cold else None)
                views = {"view_maker": "noise", "kernel": "cosine"} if kind == "vectors" else {}
                model = Contrastive(epochs=1000, minutes=given.seconds / 60, random_state=0, **views)
                with (
                    mock.patch.object(engine, "batches", watch.batches),
                    mock.patch.object(engine.Trainer, "_save", lambda trainer, watch=watch: watch.save(trainer)),
                ):
                    cpu = time.process_time()
                    model.fit(data, run=here / f"run-{cold}")
                    assert watch.started is not None
                    wall, cpu = time.perf_counter() - watch.started, time.process_time() - cpu
                measured = {
                    "steps": model.summary_["steps"],
                    "seconds": round(wall, 1),
                    "cpu": round(cpu, 1),
                    "waiting": round(watch.waited / wall, 4),
                    "saves": watch.saves,
                    "saving": round(watch.saved / wall, 5),
                    "cpu_of_a_save": round(watch.saved_cpu / watch.saves, 4),
                }
                yield {"kind": kind, "cold": cold, "measured": measured}


# ---- several processes ----------------------------------------------------------------------------------------------

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
WAYS: dict[str, tuple[tuple[object, ...], int, int]] = {  # program, threads, --processes
    "one process": ((), 1, 1),
    "one process, two threads": ((), 2, 1),
    "two processes": (TORCHRUN, 1, 1),
    "two processes, forked": ((), 1, 2),
}
# Options of each kind, and the epochs of its two commands.
KINDS: dict[str, tuple[tuple[object, ...], tuple[int, ...]]] = {
    "mlp": (("--stream",), (1, 5)),
    "whole-rows": (("--stream", "--views", "noise", "--batch-size", 2048), (1, 2)),
    "in-memory": (("--views", "noise", "--batch-size", 2048), (1,)),
    "resnet18": (("--encoder", "resnet18", "--batch-size", 64), (1, 4)),
}


def watched_fit(data: Path, options: Sequence[object], epochs: tuple[int, ...], way: str) -> Row:
    """CPU seconds of the epochs after the first, wall seconds of all training, steps and memory."""
    prefix, threads, forked = WAYS[way]
    row: Row = {}
    cpu = []
    for number in epochs:
        with tempfile.TemporaryDirectory(dir=data.parent) as folder, watched(row):
            run = Path(folder) / "run"
            given = ["--out", run, "--epochs", number, "--threads", threads, "--processes", forked, *options]
            cpu.append(process(sys.executable, *prefix, "-m", "viewsmith", "fit", data, *given)["cpu"])
            told, metrics = RunFolder(run).read_summary(), RunFolder(run).read_metrics()
    row |= {"whole_cpu": cpu[-1], "processes": told["processes"]}
    if len(epochs) == 1:
        return row
    return row | {
        "cpu": round(cpu[1] - cpu[0], 2),
        "wall": round(metrics[-1]["seconds"] - metrics[0]["seconds"], 2),
        "steps": round(told["steps"] * (epochs[1] - epochs[0]) / epochs[1]),
    }


@case(
    options={
        "kinds": {"nargs": "*", "default": list(KINDS), "help": ", ".join(KINDS)},
        "--ways": {"nargs": "*", "default": list(WAYS), "choices": WAYS},
        **FOLDER,
    },
    rounds=2,
    rows=200_000,
    images=512,
)
def processes(given: argparse.Namespace) -> Iterator[Row]:
    """Two gloo processes of `fit` against one, on one CPU: wall and CPU seconds of training, and memory.

    `mlp`: the default of vectors, --rows x 200 rows on disk (--stream), of which all processes map the coordinates.
    `whole-rows`: the same encoder with views `noise` and batches of 2,048, which reads the rows themselves from the
    file that all processes map. `in-memory`: the same without --stream, one epoch, for memory alone: one process reads
    a file below 1 GiB into memory, several processes map it. `resnet18`: images of 32 x 32 pixels, batch 64.

    The same steps with one process, one process with two threads, and two processes with one thread each, by torchrun
    and forked (--processes 2), in turn. CPU seconds are of the whole command, without those of a command that trains
    for fewer epochs. Memory is the largest sum over the processes of their proportional set size, in which shared pages
    count once, how much of it no two processes share, and how much the process has that was started, which with several
    processes does not train. `torch`: what a process has that has imported torch and what a training imports, and does
    nothing. Target: memory of two processes at most 1.2 times that of one.
    """
    if given.quick:
        given.kinds, given.rows, given.ways = ["mlp"], 1000, given.ways[:1]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for kind in given.kinds:
            data = Path(folder) / ("images.npz" if kind == "resnet18" else "rows.npy")
            if kind == "resnet18":
                np.savez(data, X=np.random.default_rng(0).integers(0, 256, (given.images, 32, 32, 3), np.uint8))
            elif not data.exists():
                write_dense(data, given.rows)
            for number in range(given.rounds):
                row, idle = {way: watched_fit(data, *KINDS[kind], way) for way in given.ways}, dict[str, Any]()
                names = ", ".join(("viewsmith.cli", *PRELOADED))
                with watched(idle):
                    process(sys.executable, "-c", f"import time, {names}; time.sleep(2)")
                yield {"kind": kind, "round": number, "torch": idle["peak_gb"], "measured": row}


ENGINES = ("plain", "ray", "spark", "dask")


def represent(engine: str, run: str, out: str, files: Sequence[str]) -> list[Row]:
    """The result of an engine, in this process."""
    warnings.simplefilter("ignore")
    if engine != "plain":
        example = ROOT / "examples" / "engines" / f"{engine}_embed.py"
        return runpy.run_path(str(example))["main"](run, out, list(files))
    work = OverFiles("embed", out, run=run)
    return work(work.pending(files)).to_dict("records")


@case(options={"--engines": {"nargs": "*", "choices": ENGINES, "default": ENGINES}}, rounds=2, rows=50_000)
def engines(given: argparse.Namespace) -> Iterator[Row]:
    """Represent 1,000,000 rows in 20 parquet files: a plain loop in one process, and Ray Data, Spark and Dask.

    Rows of 32 features, the default encoder. Each way is a command of its own, in turn; an engine has as many workers
    as there are cores. CPU seconds are those of all its processes, with the start of Python and of the engine, looked
    at four times a second: those of an engine minus those of the loop are its overhead, whatever else runs on the
    machine. `files` are the seconds that the workers were busy, together. With few --rows in a file the rest is what
    rows do not change.
    """
    rows, count = (given.rows, 20) if not given.quick else (100, 2)
    draw = np.random.default_rng(0)
    # The workers of Spark would take another python, those of Ray a lower priority than that of other processes.
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "RAY_worker_niceness": "0"})
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, f"part-{number}.parquet")) for number in range(count)]
        for file in files:
            table = pd.DataFrame(draw.normal(size=(rows, 32)).astype("f4"), columns=[f"f{i}" for i in range(32)])
            table.to_parquet(file)
        Contrastive(epochs=1, random_state=0).fit(table[:1000]).save(run := str(Path(folder, "run")))
        code = "import json, sys; from benchmarks.speed.commands import represent as r; a = sys.argv[1:]; "
        code += "json.dump(r(a[1], a[2], a[3], a[4:]), open(a[0], 'w'))"
        for number in range(given.rounds):
            for name in given.engines if not given.quick else ENGINES[:1]:
                told, out = Path(folder, f"{name}-{number}.json"), Path(folder, f"{name}-{number}")
                row: Row = {"engine": name, "round": number, "rows": rows * count}
                started = time.perf_counter()
                with watched(row):
                    subprocess.run([sys.executable, "-c", code, told, name, run, out, *files], check=True)
                done = json.loads(told.read_text())
                assert sum(each["rows"] for each in done) == rows * count
                row |= {"wall": round(time.perf_counter() - started, 2), "load": round(os.getloadavg()[0], 1)}
                shutil.rmtree(out)
                yield row | {"files": round(sum(each["seconds"] for each in done), 2)}


# ---- large scenes ---------------------------------------------------------------------------------------------------

SPACE = 222  # pixels of a side of the square that holds one disc


def write_scene(path: Path, side: int) -> np.ndarray:
    """A scene of 4 channels of 16 bits, noise with a disc in each square of `SPACE` pixels, written by bands; return
    the middles of the discs, row and column (m, 2)."""
    import tifffile

    rng, found = np.random.default_rng(0), []
    scene = tifffile.memmap(
        path, shape=(side, side, 4), dtype="uint16", planarconfig="contig", photometric="minisblack"
    )
    for top in range(0, side, SPACE):
        band = scene[top : top + SPACE]
        band[:] = rng.integers(800, 1200, band.shape, np.uint16)
        for left in range(0, side, SPACE):
            radius = int(rng.integers(14, 20))
            y, x = rng.integers(radius, SPACE - radius, 2)
            if top + SPACE > side or left + SPACE > side:
                continue
            rows, columns = np.ogrid[:SPACE, :SPACE]
            inside = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
            band[:, left : left + SPACE][inside] += np.array([6000, 3000, 0, 1500], np.uint16)
            found.append((top + y, left + x))
        scene.flush()
    return np.array(found)


@case(options={"commands": {"nargs": "*", "default": ["discover", "embed"]}, **FOLDER}, side=10_000)
def large_scene(given: argparse.Namespace) -> Iterator[Row]:
    """Seconds and memory of `discover` and `embed` of a scene of --side pixels in tiles of 256 that share 32.

    The scene has 4 channels of 16 bits, and discs. A disc counts as found if a box has its middle within 12 pixels of
    that of the disc; `embed` includes a map; its model is fitted to a scene of 2,000 pixels with 32 centers, stride 8.
    Targets: at most 2 GB at 10,000 pixels, and time in proportion to the pixels.
    """
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        here, side = Path(folder), 700 if given.quick else given.side
        discs = write_scene(here / "scene.tif", side)
        python = [sys.executable, "-m", "viewsmith"]
        tiles = [here / "scene.tif", "--tile", 256, "--overlap", 32, "--threads", given.threads]
        if "discover" in given.commands:
            row: Row = {"discover": process(*python, "discover", *tiles, "--max-parts", 12, "--out", here / "parts")}
            table = pd.read_csv(here / "parts" / "parts.csv")
            middles = np.stack([(table["top"] + table["bottom"]) / 2, (table["left"] + table["right"]) / 2], 1)
            near = np.linalg.norm(middles[:, None] - discs, axis=2) < 12
            row |= {"discs": len(discs), "boxes": len(table), "right": int(near.any(1).sum())}
            row |= {"found": int(near.any(0).sum()), "twice": int((near.sum(0) > 1).sum())}
            yield {"pixels": side, **row}
        if "embed" in given.commands:
            few, small = here / "few.toml", here / "small.tif"
            few.write_text('method = "linear-contrast"\nfeatures_options = {centers = 32, stride = 8}\n')
            write_scene(small, min(side, 2000))
            row = {"fit": process(*python, "fit", small, *tiles[1:], "--config", few, "--out", here / "run")}
            out = ["--out", here / "H.npy", "--map", here / "map.tif", "--threads", given.threads]
            row["embed"] = process(*python, "embed", here / "run", here / "scene.tif", *out)
            yield {"pixels": side, **row, "tiles": len(np.load(here / "H.npy", mmap_mode="r"))}


# ---- hours of signal ------------------------------------------------------------------------------------------------


def write_signal(path: Path, hours: float) -> None:
    """Hours of two channels at 250 Hz as EDF: three records of MIT-BIH, resampled and repeated."""
    import edfio
    import wfdb
    from scipy.signal import resample_poly

    records = [str(data_folder() / "instruments" / "ecg_mitbih_wfdb" / name) for name in ("100", "106", "108")]
    once = np.concatenate([resample_poly(wfdb.rdrecord(name).p_signal, 25, 36) for name in records])
    points = int(hours * 3600 * 250)
    x = np.tile(once, (-(-points // len(once)), 1))[:points].T
    edfio.Edf([edfio.EdfSignal(channel, 250, label=f"lead {n}") for n, channel in enumerate(x)]).write(path)


@case(options={"commands": {"nargs": "*", "default": ["fit", "embed", "discover"]}, **FOLDER}, hours=24)
def long_signal(given: argparse.Namespace) -> Iterator[Row]:
    """Seconds and memory of commands, by default, of --hours of two channels at 250 Hz in an EDF file (VIEWSMITH_DATA).

    Targets: memory that does not grow with the hours, time in proportion to them.
    """
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        here = Path(folder)
        write_signal(here / "long.edf", 0.1 if given.quick else given.hours)
        python, more = [sys.executable, "-m", "viewsmith"], ["--threads", given.threads]
        row: Row = {}
        if {"fit", "embed"} & set(given.commands):
            row["fit"] = process(*python, "fit", here / "long.edf", "--length", "3s", "--out", here / "run", *more)
        if "embed" in given.commands:
            out = ["--out", here / "H.parquet", *more]
            row["embed"] = process(*python, "embed", here / "run", here / "long.edf", *out)
        if "discover" in given.commands:
            found = ["--length", "3s", "--out", here / "found", *more]
            row["discover"] = process(*python, "discover", here / "long.edf", *found)
            row["events"] = len(pd.read_csv(here / "found" / "parts.csv"))
        yield row


@case()
def short_sequences(given: argparse.Namespace) -> Iterator[Row]:
    """Seconds of `discover` of 25 sequences of 200 and of 740 letters with a word of 15, 2 letters changed, and of the
    94 orchid sequences (VIEWSMITH_DATA).

    Targets, one core: 10, 30 and 60 s.
    """
    rng, letters = np.random.default_rng(0), np.array(list("ACGT"))
    with tempfile.TemporaryDirectory() as folder:
        here, word = Path(folder), rng.choice(letters, 15)
        sets = {"orchids": data_folder() / "files" / "ls_orchid.fasta"}
        for length in (200, 740):
            x = rng.choice(letters, (25, length))
            for row, start in zip(x, rng.integers(0, length - 15, 25), strict=True):
                row[start : start + 15] = word
                row[start + rng.choice(15, 2, replace=False)] = rng.choice(letters, 2)
            sets[f"25 of {length}"] = here / f"{length}.fa"
            text = "".join(f">{i}\n{''.join(row)}\n" for i, row in enumerate(x))
            sets[f"25 of {length}"].write_text(text, encoding="ascii")
        for name, path in list(sets.items())[::-1][: 1 if given.quick else None]:
            found = process(
                *(sys.executable, "-m", "viewsmith", "discover", path, "--threads", given.threads),
                *("--out", here / name),
            )
            yield {"set": name, **found, "sites": len(pd.read_csv(here / name / "parts.csv"))}
