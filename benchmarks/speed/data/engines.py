"""Represent 1,000,000 rows in 20 parquet files: a plain loop in one process, and Ray Data, Spark and Dask.

Rows of 32 features, the default encoder. Each way is a command of its own, in turn; an engine has as many workers as
there are cores. CPU seconds are those of all its processes, with the start of Python and of the engine, looked at four
times a second: those of an engine minus those of the loop are its overhead, whatever else runs on the machine. `files`
are the seconds that the workers were busy, together. With few --rows in a file the rest is what rows do not change.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.engines [--engines plain dask ...] [--rounds 2] [--quick]
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.speed.timing import parser, read, record, watched
from viewsmith import Contrastive
from viewsmith.workflows.over_files import OverFiles

EXAMPLES = Path(__file__).parents[3] / "examples" / "engines"
ENGINES = ("plain", "ray", "spark", "dask")


def represent(engine: str, run: str, out: str, files: Sequence[str]) -> list[dict[str, Any]]:
    """The result of an engine, in this process."""
    warnings.simplefilter("ignore")
    if engine != "plain":
        return runpy.run_path(str(EXAMPLES / f"{engine}_embed.py"))["main"](run, out, list(files))
    work = OverFiles("embed", out, run=run)
    return work(work.pending(files)).to_dict("records")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rounds=2, rows=50_000)
    options.add_argument("--engines", nargs="*", choices=ENGINES, default=ENGINES)
    given = read(options, arguments)
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
        code = "import json, sys; from benchmarks.speed.data.engines import represent as r; a = sys.argv[1:]; "
        code += "json.dump(r(a[1], a[2], a[3], a[4:]), open(a[0], 'w'))"
        for number in range(given.rounds):
            for name in given.engines if not given.quick else ENGINES[:1]:
                told, out = Path(folder, f"{name}-{number}.json"), Path(folder, f"{name}-{number}")
                row: dict[str, Any] = {"engine": name, "round": number, "rows": rows * count}
                started = time.perf_counter()
                with watched(row):
                    subprocess.run([sys.executable, "-c", code, told, name, run, out, *files], check=True)
                done = json.loads(told.read_text())
                assert sum(each["rows"] for each in done) == rows * count
                row |= {"wall": round(time.perf_counter() - started, 2), "load": round(os.getloadavg()[0], 1)}
                shutil.rmtree(out)
                record("engines", row | {"files": round(sum(each["seconds"] for each in done), 2)}, given)


if __name__ == "__main__":
    main()
