"""Damage files of every format at random and load them: each one must load, or raise an InputError of one line.

    OMP_NUM_THREADS=1 python -m benchmarks.survival.fuzz [--inputs 100000] [--seed 0] [--minutes 8] [--quick]

A small valid file of each format gets one to eight changes (two on average): bits are flipped; bytes are replaced,
inserted or deleted; a part is repeated; the end is cut off. Formats that can stay on disk are also read from there.
Any other exception, a message of several lines, or a loader that takes longer than `LIMIT` seconds is a bug in
viewsmith and is listed. Input number i depends on the seed and i alone: a run of at most --minutes starts with the
first input that the results of this seed lack, or with --first.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import math
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from benchmarks.common.runner import RESULTS, append, rows, when
from viewsmith import Contrastive, load
from viewsmith.core.errors import InputError
from viewsmith.core.rows import row_blocks
from viewsmith.data import load_dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.training.run import RunFolder, environment

LIMIT = 10.0


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with one to eight random changes."""
    data = bytearray(content)
    for _ in range(min(8, rng.geometric(0.5))):
        place, kind = int(rng.integers(0, max(1, len(data)))), rng.integers(0, 6)
        length = int(rng.integers(1, 33))
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1 and data:
            data[place % len(data)] = int(rng.integers(0, 256))
        elif kind == 2:
            data[place:place] = rng.bytes(length)
        elif kind == 3:
            del data[place : place + length]
        elif kind == 4:
            data[place:place] = data[place : place + length]
        else:
            del data[place:]
    return bytes(data)


def valid_files(folder: Path) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """Write a valid file of each format; return path and loader by name of the format."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3)).astype("float32")
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=["u", "v"] * 6)
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", X_train=x[:8], X_test=x[8:], y_train=np.arange(8) % 2, y_test=np.arange(4) % 2)
    np.savez(folder / "stored.npz", X=x, y=np.arange(12) % 3)
    np.savez_compressed(folder / "compressed.npz", X=x, y=np.arange(12) % 3)
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_csv(folder / "x.tsv", index=False, sep="\t")
    records = "".join(f">s{i}\n{''.join(rng.choice(list('ACGTN'), 20))}\n" for i in range(8))
    (folder / "x.fasta").write_text(records)
    (folder / "x.fasta.gz").write_bytes(gzip.compress(records.encode(), mtime=0))
    names: dict[str, str | None] = dict.fromkeys(("x.npy", "x.npz", "stored.npz", "compressed.npz"))
    names |= {"x.csv": "label", "x.tsv": "label", "x.fasta": None, "x.fasta.gz": None}
    try:
        frame.to_parquet(folder / "x.parquet")
        names["x.parquet"] = "label"
    except ImportError:
        print("without parquet: the extra parquet is not installed")
    try:
        import anndata

        cells = anndata.AnnData(x, obs=frame[["label"]].set_index(frame.index.astype(str)))
        cells.write_h5ad(folder / "x.h5ad")
        cells.X = scipy.sparse.csr_matrix(np.round(abs(x)))
        cells.write_h5ad(folder / "sparse.h5ad")
        names |= {"x.h5ad": "label", "sparse.h5ad": "label"}
    except ImportError:
        print("without h5ad: the extra omics is not installed")
    found: dict[str, tuple[Path, Callable[[], Any]]] = {
        name: (folder / name, lambda name=name, label=label: load_dataset(folder / name, label=label))
        for name, label in names.items()
    }
    for name in ("x.npy", "x.npz", "stored.npz", "x.parquet", "x.h5ad", "sparse.h5ad"):
        if name in names:
            found[f"{name} on disk"] = folder / name, partial(_read_from_disk, folder / name, names[name])
    try:
        from PIL import Image

        (folder / "images").mkdir()
        for i in range(2):
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / "images" / f"{i}.png")
        found["image"] = folder / "images" / "0.png", lambda: load_dataset(folder / "images")
    except ImportError:
        print("without images: the extra image is not installed")
    run = folder / "run"
    model = Contrastive(epochs=1, hidden=(4,), n_components=2, random_state=0)
    model.fit(x, run=run, context={"data": {"fingerprint": "0", "source": "x"}})
    for name in ("config.toml", "model.safetensors", "initial.safetensors", "summary.json", "metrics.jsonl"):
        found[name] = run / name, lambda: load(run)
    state = next((run / "checkpoint").glob("state-*.safetensors"))
    for path in (state, run / "checkpoint" / "latest.json"):
        found["checkpoint " + path.suffix] = path, lambda: RunFolder(run).checkpoint.load()
    views = rng.normal(size=(12, 2, 3)).astype("float32")
    np.savez(folder / "views.npz", views=views)
    _view_cache(folder / "cache", x, folder / "views.npz")
    for path in (folder / "cache" / "view_cache.json", folder / "cache" / "blocks" / "000000.safetensors"):
        found["view cache " + path.suffix] = path, lambda: ViewCacheFolder(folder / "cache").read("views")
    return found


def _read_from_disk(path: Path, label: str | None) -> None:
    """All rows of a file that stays on disk, in blocks and by index."""
    rows = load_dataset(path, label=label, stream=True).x
    for _ in row_blocks(rows):
        pass
    rows[np.arange(0, len(rows), 2)]


def _view_cache(out: Path, x: np.ndarray, views: Path) -> None:
    from viewsmith.workflows.generate import generate_cache

    np.save(out.with_name("rows.npy"), x)
    generate_cache(load_dataset(out.with_name("rows.npy")), out, generator=f"folder:{views}", batch_size=12)


def outcome(read: Callable[[], Any]) -> str:
    """``loaded``, ``refused``, or what is wrong with what a loader does with a damaged file."""
    started = time.monotonic()
    try:
        read()
        found = "loaded"
    except InputError as error:
        found = "refused" if len(str(error).splitlines()) == 1 else f"a message of several lines: {str(error)!r}"
    except Exception as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        file = Path(where.tb_frame.f_code.co_filename).name if where else ""
        found = f"{type(error).__name__} in {file}: {' '.join(str(error).split())[:100]}"
    return f"takes more than {LIMIT:g} s" if time.monotonic() - started > LIMIT else found


def load_all(first: int, last: int, seed: int, until: float, folder: Path, log: Path) -> None:
    """Write a line with the kind and the outcome of each input number first .. last - 1 into a log, until a time."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=folder) as name, log.open("a") as out:
        files = valid_files(Path(name))
        kinds = list(files)
        originals = {kind: path.read_bytes() for kind, (path, _) in files.items()}
        for number in range(first, last):
            if time.monotonic() > until:
                return
            kind = kinds[number % len(kinds)]
            path, read = files[kind]
            path.write_bytes(damaged(originals[kind], np.random.default_rng([seed, number])))
            print(kind, end="\t", file=out, flush=True)
            print(outcome(read), file=out, flush=True)
            path.write_bytes(originals[kind])


def fuzz(first: int, last: int, seed: int, minutes: float = math.inf) -> dict[str, Any]:
    """Load damaged files number first .. last - 1, or as many as there is time for.

    Returns
    -------
    dict
        How many loaded, how many raised InputError, and a count of each unexpected result. Files are loaded in another
        process, because a library may crash on one: then another process goes on after it.
    """
    until, cpu = time.monotonic() + 60 * minutes, sum(os.times()[:4])
    with tempfile.TemporaryDirectory() as name:
        log, number = Path(name) / "log", first
        log.touch()
        while number < last and time.monotonic() < until:
            child = multiprocessing.get_context("fork").Process(
                target=load_all, args=(number, last, seed, until, Path(name), log)
            )
            child.start()
            done = -1
            while child.is_alive():
                child.join(6 * LIMIT)
                if child.is_alive() and done == (done := log.stat().st_size):
                    child.kill()  # nothing was written meanwhile: a library does not return
            if child.exitcode:
                with log.open("a") as out:
                    print(f"ends the process with signal {-child.exitcode}", file=out)
            number = first + len(log.read_text().splitlines())
            print(number, flush=True)
        found = [line.split("\t") for line in log.read_text().splitlines()]
    counts = collections.Counter(result for _, result in found)
    wrong = {
        f"{kind}: {result} (input {first + i})": 1
        for i, (kind, result) in enumerate(found)
        if result not in ("loaded", "refused")
    }
    about = {"first": first, "inputs": len(found), "kinds": sorted({kind for kind, _ in found})}
    about |= {"cpu": round(sum(os.times()[:4]) - cpu, 1), "loaded": counts["loaded"], "refused": counts["refused"]}
    return about | {"unexpected": len(wrong), "wrong": dict(list(wrong.items())[:50])}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="of all runs together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--quick", action="store_true", help="200 inputs; writes no results")
    given = parser.parse_args()
    results = RESULTS / "survival.jsonl"
    before = [row for row in rows(results) if row["job"] == "fuzz" and row["seed"] == given.seed]
    first = given.first if given.first is not None else max((row["first"] + row["inputs"] for row in before), default=0)
    found = fuzz(0, 200, given.seed) if given.quick else fuzz(first, given.inputs, given.seed, given.minutes)
    for message, count in found["wrong"].items():
        print(count, message)
    print({key: value for key, value in found.items() if key != "wrong"})
    if not given.quick and found["inputs"]:
        hardware = environment()["hardware"] | {"torch": environment()["versions"]["torch"]}
        append({"job": "fuzz", "seed": given.seed, **found, **when(), **hardware}, results)
    sys.exit(1 if found["wrong"] else 0)
