"""CPU time of `viewsmith compare` beside that of its trainings.

Each comparison is a command of its own with the default number of steps and all protocols. `trainings`
are the calls of `fit`; `start` is a process that imports what a training imports, reads the data and ends, which
trainings without `compare` need, too. The overhead is the rest. `--against` measures the sources in another folder in
turn, and says whether all of its scores are equal to ours.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.compare_cost [satimage mnist ...] [--against src] [--quick]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.data import data_folder
from benchmarks.speed.timing import parser, read, record

# Train and test rows that are drawn from a shared set, at most.
ROWS = (2000, 1000)
ALL_ROWS = "-all"  # after the name of a set: all of its rows

START = """
import time, torch, viewsmith
from viewsmith.data import load_dataset
viewsmith.Contrastive, viewsmith.PiNDA
load_dataset({data!r})
print(time.process_time())
"""

COMPARE = """
import collections, contextlib, io, json, sys, time
import viewsmith.workflows.compare as module
from viewsmith.cli import app
from viewsmith.estimator.base import ViewsmithEstimator
parts = collections.Counter()
def timed(owner, name, part):
    inner = getattr(owner, name)
    def outer(*args, **options):
        began = time.process_time()
        try:
            return inner(*args, **options)
        finally:
            parts[part] += time.process_time() - began
    setattr(owner, name, outer)
timed(module, "_trained", "trainings")
timed(module, "_score", "scores")
timed(module, "_add_map", "maps")
timed(module, "_write", "page")
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app({arguments!r})
print(json.dumps(dict(parts, whole=time.process_time())))
"""


def child(code: str, source: str) -> str:
    """The last line that a program prints, run with the sources in a folder."""
    environment = dict(os.environ, PYTHONPATH=source)
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=3)
    options.add_argument("sets", nargs="*", default=["satimage", f"satimage{ALL_ROWS}", "mnist", "sc_10x_pbmc"])
    options.add_argument("--methods", default="contrastive,pinda")
    options.add_argument("--against", action="append", default=[], metavar="FOLDER")
    given = read(options, arguments)
    sources = {"this": str(Path(__file__).parents[2] / "src"), **{folder: folder for folder in given.against}}
    for name in given.sets if not given.quick else ["satimage"]:
        with tempfile.TemporaryDirectory() as folder:
            data, scores = str(Path(folder, f"{name}.npz")), {}
            with np.load(data_folder() / f"{name.removesuffix(ALL_ROWS)}.npz") as found:
                sizes = (100, 50) if given.quick else (None, None) if name.endswith(ALL_ROWS) else ROWS
                drawn = {
                    part: np.random.default_rng(0).permutation(len(found[f"y_{part}"]))[:size]
                    for part, size in zip(("train", "test"), sizes, strict=True)
                }
                np.savez(data, **{f"{x}_{part}": found[f"{x}_{part}"][i] for part, i in drawn.items() for x in "Xy"})
            for number, source in enumerate(sources.values()):
                out = str(Path(folder, f"out-{number}"))
                command = [
                    "compare",
                    data,
                    "--methods",
                    given.methods,
                    "--seeds",
                    str(given.seeds),
                    "--threads",
                    "1",
                    "--out",
                    out,
                ]
                start = float(child(START.format(data=data), source))
                parts: dict[str, Any] = json.loads(child(COMPARE.format(arguments=command), source))
                overhead = parts["whole"] - parts["trainings"] - start
                scores[number] = json.loads(Path(out, "leaderboard.json").read_text())["rows"]
                row = {"set": name, "methods": given.methods, "source": "this" if number == 0 else "before"}
                row |= {part: round(value, 2) for part, value in (parts | {"start": start}).items()}
                row |= {"overhead": round(overhead, 2), "of_trainings": round(overhead / parts["trainings"], 4)}
                same = {"equal_scores": scores[number] == scores[0]} if number else {}
                record("compare_cost", row | same, given)


if __name__ == "__main__":
    main()
