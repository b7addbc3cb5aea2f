"""Kill trainings and generation jobs at random moments and resume them: the end must equal that of an undisturbed run.

    OMP_NUM_THREADS=1 python -m benchmarks.survival.kill [--kills 50] [--seed 0] [--quick]

Jobs are killed by SIGKILL at uniformly drawn moments of their duration, again after every resume, until they have
been killed often enough in all. Checkpoints are written after every step, so that many kills meet a write. After every
kill the folder must be valid: what `viewsmith` reads of it is of before or after a write. Weights, metrics (without
times) and views of the resumed jobs are compared bit for bit with those of undisturbed ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.runner import RESULTS, append, when
from viewsmith.cli import main
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.training.run import RunFolder, environment

SETTINGS = ("--set", "hidden=32", "--set", "n_components=8", "--checkpoint-every", "0", "--threads", "1")


def start(arguments: Sequence[str]) -> int:
    """Start a command in a process of its own, forked before torch has started threads; returns its number."""
    process = os.fork()
    if process:
        return process
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    try:
        main(list(arguments))
    except SystemExit as end:
        os._exit(int(end.code or 0))
    os._exit(99)


def ended_within(process: int, seconds: float) -> int | None:
    """Exit code of a process if it ends in time, else None after killing it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def digest_of_run(folder: Path) -> str:
    """Digest of a run's weights and metrics."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    content = (folder / "model.safetensors").read_bytes() + json.dumps(rows).encode()
    return hashlib.sha256(content).hexdigest()


def digest_of_cache(folder: Path) -> str:
    """Digest of all blocks of a view cache."""
    files = sorted(folder.glob("blocks/*.safetensors"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def check_run(folder: Path) -> None:
    """Everything a killed training left can be read, or is absent."""
    run = RunFolder(folder)
    if run.exists():
        for read in (run.read_config, run.read_summary, run.read_metrics, run.checkpoint.load):
            read()
    if run.model.exists():
        run.read_weights()


def check_cache(folder: Path) -> None:
    """Every block that a killed job left is whole."""
    cache = ViewCacheFolder(folder)
    if cache.exists():
        for number in set(cache.numbers()) - set(cache.missing()):
            cache._read_block(number, ("views", "index"))


Job = tuple[list[str], Callable[[Path], None], Callable[[Path], str]]


def jobs(folder: Path, data: Path, epochs: int) -> dict[str, Job]:
    """Command without its folder, check after a kill and digest at the end, by name."""
    trained = folder / "generator"
    try:  # in this process, so that those forked from it have imported everything
        main(["fit", str(data), "--method", "diffaug", "--epochs", "2", *SETTINGS, "--out", str(trained)])
    except SystemExit as end:
        if end.code:
            raise
    fits = {
        name: ["fit", str(data), "--method", method, "--epochs", str(epochs), *SETTINGS, *more]
        for name, method, more in (
            ("fit contrastive", "contrastive", ()),
            ("fit diffaug", "diffaug", ()),
            ("fit crl-tac", "crl-tac", ()),
        )
    }
    generate = ["generate", str(data), "--run", str(trained), "--batch-size", "8", "--steps", "4", "--threads", "1"]
    found = {name: ([*command, "--resume"], check_run, digest_of_run) for name, command in fits.items()}
    return found | {"generate": (generate, check_cache, digest_of_cache)}


def stress(command: list[str], check: Callable, digest: Callable, folder: Path, kills: int, seed: int) -> dict:
    """Kill a job until it has been killed `kills` times, in as many folders as that takes."""
    began = time.monotonic()
    if ended_within(start([*command, "--out", str(folder / "undisturbed")]), 600) != 0:
        raise SystemExit(f"{command[:4]} fails undisturbed")
    duration, expected = time.monotonic() - began, digest(folder / "undisturbed")
    rng, killed, finished, different = np.random.default_rng(seed), 0, 0, 0
    while killed < kills or finished == 0:
        out = folder / f"killed-{finished}"
        last, fresh, began = killed >= kills, not out.exists(), time.monotonic()
        code = ended_within(start([*command, "--out", str(out)]), 600 if last else rng.uniform(0, duration))
        if code == 0 and fresh:  # faster than thought: later moments would kill nothing
            duration = min(duration, time.monotonic() - began)
        if code is None:
            killed += 1
            check(out)
        elif code == 0:
            finished += 1
            different += digest(out) != expected
        else:
            raise SystemExit(f"{command[:4]} ended with {code} after {killed} kills: see {out}")
    return {"kills": killed, "finished": finished, "different": different, "seconds": round(duration, 2)}


def run(kills: int, seed: int, quick: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, data = Path(name), Path(name) / "data.npy"
        np.save(data, np.random.default_rng(0).normal(size=(64, 6)).astype("float32"))
        for job, (command, check, digest) in jobs(folder, data, 3 if quick else 20).items():
            place = folder / job.replace(" ", "-")
            place.mkdir()
            found = stress(command, check, digest, place, kills, seed)
            print(job, found, flush=True)
            if not quick:
                hardware = environment()["hardware"] | {"torch": environment()["versions"]["torch"]}
                append({"job": job, "seed": seed, **found, **when(), **hardware}, RESULTS / "survival.jsonl")
            if found["different"]:
                sys.exit(f"{job}: {found['different']} of {found['finished']} resumed jobs differ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="kills of each job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two kills, nothing written into results/")
    given = parser.parse_args()
    run(2 if given.quick else given.kills, given.seed, given.quick)
