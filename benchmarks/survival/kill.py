"""Kill trainings and generation jobs at random times and resume them: results must equal those without kills.

    OMP_NUM_THREADS=1 python -m benchmarks.survival.kill [--kills 50] [--seed 0] [--quick]

Jobs are killed by SIGKILL at uniformly drawn times, again after every resume, until each job has had `--kills` kills.
A checkpoint is written after every step, so that many kills happen during a write. After every kill the folder must be
valid: each file has its content from before or after a write. Weights, metrics (without times) and views of resumed
jobs must be bit-identical to those of jobs that were not killed.
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
    """Start a command in a new process, forked before torch starts threads; return the process id."""
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
    """Exit code of a process that ends in time; None if it had to be killed."""
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
    """Check that every file of a killed training can be read or does not exist."""
    run = RunFolder(folder)
    if run.exists():
        for read in (run.read_config, run.read_summary, run.read_metrics, run.checkpoint.load):
            read()
    if run.model.exists():
        run.read_weights()


def check_cache(folder: Path) -> None:
    """Check that every block that a killed job wrote is complete."""
    cache = ViewCacheFolder(folder)
    if cache.exists():
        for number in set(cache.numbers()) - set(cache.missing()):
            cache._read_block(number, ("views", "index"))


Job = tuple[list[str], Callable[[Path], None], Callable[[Path], str]]


def jobs(folder: Path, data: Path, epochs: int) -> dict[str, Job]:
    """By name of a job: its command without --out, the check after a kill, and the digest of its result."""
    trained = folder / "generator"
    try:  # in this process, so that forked processes need no imports
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
    """Kill a job `kills` times in total and resume it each time; start it in a new folder whenever it finishes."""
    started = time.monotonic()
    if ended_within(start([*command, "--out", str(folder / "reference")]), 600) != 0:
        raise SystemExit(f"{command[:4]} fails without a kill")
    duration, expected = time.monotonic() - started, digest(folder / "reference")
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
    """Kill and resume every job, and record how many results differ."""
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
    parser.add_argument("--kills", type=int, default=50, help="number of kills of each job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two kills; writes no results")
    given = parser.parse_args()
    run(2 if given.quick else given.kills, given.seed, given.quick)
