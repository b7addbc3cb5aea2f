"""Run cells and save their results. A cell is one data set, one row of a study and one seed.

A results file has one JSON line per cell, with scores, seconds, date, commit and hardware. Running a study again runs
only the missing cells. A cell that raises an error is recorded with the error and runs again the next time.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.training.run import environment

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Cell:
    """One measurement, identified by data set, row and seed. `work` returns its results, plain values by name."""

    dataset: str
    method: str
    seed: int
    work: Callable[[], dict[str, Any]] = field(compare=False)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.dataset, self.method, self.seed


def run(cells: Iterable[Cell], path: Path, *, minutes: float | None = None, jobs: int = 1) -> None:
    """Run the cells that `path` lacks, in order, and append their results; start no cell after `minutes`.

    With several `jobs` each is a process with its share of the cells.
    """
    cells = list(cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    if jobs > 1:
        missing = [cell for cell in cells if cell.key not in done(path)]
        # Forked, because the work of a cell cannot be sent to another process.
        start = partial(multiprocessing.get_context("fork").Process, target=run, kwargs={"minutes": minutes})
        processes = [start(args=(missing[first::jobs], path)) for first in range(jobs)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        print(progress(cells, path))
        return
    began = time.monotonic()
    machine = environment()
    for cell in cells:
        if cell.key in done(path):
            continue
        if minutes is not None and time.monotonic() - began > minutes * 60:
            break
        started = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):
            try:
                result: dict[str, Any] = cell.work()
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        row = {
            "dataset": cell.dataset,
            "method": cell.method,
            "seed": cell.seed,
            **result,
            "seconds_cell": round(time.perf_counter() - started, 2),
            **when(),
            "processor": machine["hardware"]["processor"],
            "threads": machine["hardware"]["threads"],
            "torch": machine["versions"]["torch"],
            **{name: machine["hardware"][name] for name in ("gpu",) if name in machine["hardware"]},
        }
        append(row, path)
        note = result.get("error") or f"{row['seconds_cell']:.0f} s"
        finished = done(path)
        count = sum(other.key in finished for other in cells)
        print(f"[{count} of {len(cells)}] {cell.dataset} {cell.method} seed {cell.seed}: {note}", flush=True)
    print(progress(cells, path))


def append(row: dict[str, Any], path: Path) -> None:
    """Append a row to a results file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, allow_nan=False, default=_plain) + "\n")


def rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a results file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def done(path: Path) -> set[tuple[str, str, int]]:
    """Keys of the cells that have a result without an error."""
    return {(row["dataset"], row["method"], row["seed"]) for row in rows(path) if "error" not in row}


def progress(cells: Iterable[Cell], path: Path) -> str:
    """Text with the number of all cells and, as long as some are missing, of finished ones."""
    cells = list(cells)
    finished = done(path)
    count = sum(cell.key in finished for cell in cells)
    return (
        f"all {count} cells done in {path.name}"
        if count == len(cells)
        else f"{count} of {len(cells)} cells done in {path.name}"
    )


def when() -> dict[str, str]:
    """Current date and commit, for a row of results."""
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}


def commit() -> str:
    """Short hash of the commit, followed by + if the code has uncommitted changes."""
    try:
        name = git("rev-parse", "--short", "HEAD")
        return name + ("+" if git("status", "--porcelain", "--", "src", "benchmarks/*.py") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def git(*arguments: str) -> str:
    """Output of a git command."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot write {type(value).__name__} to a results file")
