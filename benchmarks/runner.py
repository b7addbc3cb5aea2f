"""Resumable benchmark cells: (data set, method with its settings, seed), one JSON line each.

A results file keeps what was done; running again does what is missing. Every line holds the protocol's numbers, the
seconds, the settings and where it ran. A cell that raises is recorded with its error and counts as not done.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Cell:
    """One measurement. `work` returns a dict of plain values; cells are identified by set, method and seed."""

    dataset: str
    method: str
    seed: int
    work: Callable[[], dict[str, Any]] = field(compare=False)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.dataset, self.method, self.seed


def run(cells: Iterable[Cell], path: Path, *, minutes: float | None = None) -> None:
    """Do what is missing in `path`, in order, and append it; stop starting cells after `minutes`."""
    from viewsmith.training.run import environment

    cells = list(cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    where = environment()
    for cell in cells:
        if cell.key in done(path):
            continue
        if minutes is not None and time.monotonic() - began > minutes * 60:
            break
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "processor": where["hardware"]["processor"],
            "threads": where["hardware"]["threads"],
            "torch": where["versions"]["torch"],
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False, default=_plain) + "\n")
        note = result.get("error") or f"{row['seconds_cell']:.0f} s"
        print(f"[{len(done(path))} of {len(cells)}] {cell.dataset} {cell.method} seed {cell.seed}: {note}", flush=True)
    print(progress(cells, path))


def rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a results file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def done(path: Path) -> set[tuple[str, str, int]]:
    """Keys of the cells that have a result."""
    return {(row["dataset"], row["method"], row["seed"]) for row in rows(path) if "error" not in row}


def progress(cells: Iterable[Cell], path: Path) -> str:
    """How many of how many cells are done, in words."""
    cells = list(cells)
    have = done(path)
    return f"{sum(cell.key in have for cell in cells)} of {len(cells)} cells done in {path.name}"


def commit() -> str:
    """Short name of the commit, with + when files differ from it."""
    try:
        name = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", "src", "benchmarks/*.py"],
            capture_output=True,
            text=True,
            cwd=HERE.parent,
            check=True,
        ).stdout.strip()
        return name + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def data_folder() -> Path:
    """The folder of data sets, from VIEWSMITH_DATA."""
    folder = os.environ.get("VIEWSMITH_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set VIEWSMITH_DATA to the folder that holds the data sets (.npz files)")
    return Path(folder)


def load(name: str, max_train: int | None = None, max_test: int | None = 5000) -> dict[str, np.ndarray]:
    """x, y, x_test, y_test of a data set as vectors; rows beyond the limits are dropped at random, seed 0."""
    with np.load(data_folder() / f"{name}.npz") as archive:
        x, y, x_test, y_test = (archive[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    order = np.random.default_rng(0)
    x, y = limited(x, y, max_train, order)
    x_test, y_test = limited(x_test, y_test, max_test, order)
    flat = [part.reshape(len(part), -1).astype(np.float32) for part in (x, x_test)]
    return {"x": flat[0], "y": y.astype(int), "x_test": flat[1], "y_test": y_test.astype(int)}


def limited(
    x: np.ndarray, y: np.ndarray, limit: int | None, order: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    if limit is None or len(x) <= limit:
        return x, y
    index = order.permutation(len(x))[:limit]
    return x[index], y[index]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot write {type(value).__name__} to a results file")
