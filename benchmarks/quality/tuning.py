"""Does `viewsmith tune` gain on test rows what it gains on validation rows? Contrastive with its default search.

At most so many random train rows (`SETS`), 12 trials, kNN of validation rows, seed 0. Then the default and the best
setting are trained on all of these train rows with the seeds 0, 1, 2, and scored on all test rows with the same
protocol. Every finished step is a line of the file --out and is not run again; searches are in the folder --runs.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.tuning --out FILE --runs DIR [set ...]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith import Contrastive
from viewsmith.data import Dataset
from viewsmith.estimators.build.options import check_options
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.workflows.search_space import default_space
from viewsmith.workflows.tune import tune

SETS = {"letter": 3000, "letter_300": 300, "sc_10x_pbmc": 10_000, "satimage": 3000}
TRIALS, SEEDS, PROTOCOLS = 12, (0, 1, 2), ("knn", "linear")


def load(name: str) -> Dataset:
    """The set with at most so many random train rows, and all test rows."""
    with np.load(Path(os.environ["VIEWSMITH_DATA"]) / f"{name.removesuffix('_300')}.npz") as data:
        some = np.random.default_rng(0).permutation(len(data["X_train"]))[: SETS[name]]
        x = np.concatenate([data["X_train"][some], data["X_test"]]).astype(np.float32)
        y = np.concatenate([data["y_train"][some], data["y_test"]])
    train, test = np.arange(len(some)), np.arange(len(some), len(x))
    return Dataset(x, y, train, test, "given", "vectors", name, None, {}, None)


def make(values: Mapping[str, Any]) -> Contrastive:
    return check_options(Contrastive, {"random_state": 0, **values})


def tested(dataset: Dataset, values: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Scores of test rows after a training on all train rows."""
    began = time.process_time()
    model = check_options(Contrastive, {**values, "random_state": seed}).fit(dataset.x_train)
    h, h_test = model.transform(dataset.x_train), model.transform(dataset.x_test)
    scores = evaluate_embedding(h, dataset.y_train, h_test, dataset.y_test, protocols=PROTOCOLS)
    return {**scores, "cpu": time.process_time() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description="Gains of tune on validation and test rows.")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the searches")
    parser.add_argument("sets", nargs="*", default=list(SETS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    found = {tuple(each["cell"]): each for each in done}

    def cell(key: tuple[Any, ...], compute: Any) -> dict[str, Any]:
        if key not in found:
            found[key] = {"cell": list(key)} | compute()
            with given.out.open("a") as file:
                file.write(json.dumps(found[key]) + "\n")
        return found[key]

    for name in given.sets:
        dataset = load(name)
        space = default_space("contrastive", "vectors")
        folder = given.runs / name
        search = cell((name, "search"), lambda d=dataset, f=folder, s=space: tune(d, f, make, s, trials=TRIALS))
        best, default = search["trials"][search["best"]], search["trials"][0]
        print(f"{name}: validation {default['score']:.3f} default, {best['score']:.3f} best: {best['values']}")
        scores = {
            which: [cell((name, which, seed), lambda d=dataset, v=values, s=seed: tested(d, v, s)) for seed in SEEDS]
            for which, values in (("default", {}), ("best", best["values"]))
        }
        for protocol in PROTOCOLS:
            one, other = (np.array([each[protocol] for each in scores[which]]) for which in ("default", "best"))
            gains = ", ".join(f"{gain:+.3f}" for gain in other - one)
            print(f"  test {protocol}: {one.mean():.3f} default, {other.mean():.3f} best, gains {gains}")


if __name__ == "__main__":
    main()
