"""Represent 1,000,000 rows in 20 parquet files: a plain loop, and Ray Data, Spark and Dask with two workers.

Rows of 32 features, the default encoder. The time that files take is measured in the workers; the overhead is the rest:
wall seconds minus the seconds of the files over the number of workers. The engines start in the time that is measured.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.engines [--engines plain dask ...] [--quick]
"""

from __future__ import annotations

import runpy
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.speed.timing import parser, read, record
from viewsmith import Contrastive
from viewsmith.workflows.over_files import OverFiles

EXAMPLES = Path(__file__).parents[3] / "examples" / "engines"
ENGINES = ("plain", "ray", "spark", "dask")


def plain(run: str, out: str, files: list[str]) -> list[dict]:
    work = OverFiles("embed", out, run=run)
    return work(work.pending(files)).to_dict("records")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--engines", nargs="*", choices=ENGINES, default=ENGINES)
    given = read(options, arguments)
    warnings.simplefilter("ignore")
    rows, count = (50_000, 20) if not given.quick else (100, 2)
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, f"part-{number}.parquet")) for number in range(count)]
        for file in files:
            table = pd.DataFrame(draw.normal(size=(rows, 32)).astype("f4"), columns=[f"f{i}" for i in range(32)])
            table.to_parquet(file)
        Contrastive(epochs=1, random_state=0).fit(table[:1000]).save(run := str(Path(folder, "run")))
        for name in given.engines if not given.quick else ENGINES[:1]:
            work = plain if name == "plain" else runpy.run_path(str(EXAMPLES / f"{name}_embed.py"))["main"]
            started = time.perf_counter()
            done = work(run, str(Path(folder, name)), files)
            wall, workers = time.perf_counter() - started, 1 if name == "plain" else 2
            assert sum(row["rows"] for row in done) == rows * count
            busy = sum(row["seconds"] for row in done)
            row = {"engine": name, "rows": rows * count, "workers": workers, "wall": round(wall, 2)}
            record("engines", row | {"files": round(busy, 2), "overhead": round(wall - busy / workers, 2)}, given)


if __name__ == "__main__":
    main()
