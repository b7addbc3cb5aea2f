"""Does `viewsmith tune` gain on test rows what it gains on validation rows? `Contrastive` with its default search.

"search": 12 trials, 5 nearest neighbors of a fifth of the train rows, seed 0. "default" and "best": the default and the
best setting of the search, trained on all train rows, scored on all test rows. Searches are in the folder --runs, where
they resume.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.tuning [minutes] [--runs DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.runner import RESULTS, ROOT, Cell, rows, run
from viewsmith import Contrastive
from viewsmith.data import Dataset
from viewsmith.estimator.options import check_options
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.workflows.tune import default_space, tune

PATH = RESULTS / "tuning.jsonl"
SETS = {
    "letter, 300 rows": DataSet("letter", train_rows=300),
    "letter, 3,000 rows": DataSet("letter", train_rows=3000),
    "satimage, 3,000 rows": DataSet("satimage", train_rows=3000),
    "sc_10x_pbmc": DataSet("sc_10x_pbmc", wide=True),
}
TRIALS, SEEDS, PROTOCOLS = 12, (0, 1, 2), ("knn", "linear")


def make(values: Mapping[str, Any]) -> Contrastive:
    return check_options(Contrastive, {"random_state": 0, **values})


def search(name: str, runs: Path) -> dict[str, Any]:
    data = load(SETS[name])
    x, y = np.concatenate([data.x, data.x_test]), np.concatenate([data.y, data.y_test])
    train, test = np.arange(len(data.x)), np.arange(len(data.x), len(x))
    dataset = Dataset(x, y, train, test, "given", "vectors", name, None, {}, None)
    found = tune(dataset, runs / name, make, default_space("contrastive", "vectors"), trials=TRIALS)
    return {key: found[key] for key in ("search", "metric", "rows", "trials", "best")}


def tested(name: str, which: str, seed: int, path: Path) -> dict[str, Any]:
    """Scores of test rows, and the values of the setting."""
    found = next(row for row in rows(path) if row["dataset"] == name and row["method"] == "search")
    values = found["trials"][found["best"] if which == "best" else 0]["values"]
    data: Data = load(SETS[name])
    model = make({**values, "random_state": seed}).fit(data.x)
    h, h_test = model.transform(data.x), model.transform(data.x_test)
    return {"values": values, **evaluate_embedding(h, data.y, h_test, data.y_test, protocols=PROTOCOLS)}


def cells(path: Path = PATH, runs: Path = ROOT / "build" / "tuning") -> list[Cell]:
    """All searches, and trainings with what they found."""
    found = []
    for name in SETS:
        found.append(Cell(name, "search", 0, partial(search, name, runs)))
        found += [
            Cell(name, which, s, partial(tested, name, which, s, path)) for s in SEEDS for which in ("default", "best")
        ]
    return found


def show(path: Path) -> None:
    """Gains of the best setting, on validation and on test rows."""
    lines = rows(path)
    for found in (row for row in lines if row["method"] == "search"):
        name, trials = found["dataset"], found["trials"]
        default, best = trials[0]["score"], trials[found["best"]]
        print(f"{name}: validation {default:.3f}, best {best['score']:.3f} {best['values']}")
        for protocol in PROTOCOLS:
            scores = {(r["method"], r["seed"]): r[protocol] for r in lines if r["dataset"] == name and protocol in r}
            seeds = [seed for seed in SEEDS if {("default", seed), ("best", seed)} <= scores.keys()]
            gains = [scores["best", seed] - scores["default", seed] for seed in seeds]
            before = [scores["default", seed] for seed in seeds]
            if seeds:
                print(f"  test {protocol}: {np.mean(before):.3f}, gain {np.mean(gains):+.3f} {np.round(gains, 3)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", nargs="?", type=float, help="start no cell after so many minutes")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "tuning", help="folder of the searches")
    parser.add_argument("--out", type=Path, default=PATH, help="file of results")
    given = parser.parse_args()
    run(cells(given.out, given.runs), given.out, minutes=given.minutes)
    show(given.out)


if __name__ == "__main__":
    main()
