"""CPU time of a whole DiffAug training (A, B, view cache, A) against phase A alone with the same encoder epochs.

Default sizes; the data sets letter, texture, sc_citeseq_cbmc and wisdm_har; 600 encoder steps each. The two trainings
alternate; the ratio is the median over seeds. Target: at most 2.

    VIEWSMITH_DATA=folder python -m benchmarks.speed.methods.diffaug_cost [--rounds 3] [--steps 600] [--quick]
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Sequence

import numpy as np

from benchmarks.common.data import load, sets
from benchmarks.common.tiny import tiny_data
from benchmarks.speed.timing import parser, ratio, read, record
from viewsmith import DiffAug

NAMES = ("letter", "texture", "sc_citeseq_cbmc", "wisdm_har")


def seconds(x: np.ndarray, phases: str, steps: int, seed: int) -> float:
    """CPU seconds of a training."""
    model = DiffAug(phases=phases, epochs=math.ceil(steps / max(1, len(x) // 256)), random_state=seed)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x)
    return time.process_time() - started


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=3, steps=600), arguments)
    given.steps = 1 if given.quick else given.steps
    found = {}
    for name, dataset in sets(*NAMES, train_rows=300 if given.quick else 10_000).items():
        with tiny_data(given.quick):
            x = load(dataset).x
        # Each round has another seed: a training with the same seed would repeat the same work.
        pairs = [[seconds(x, phases, given.steps, seed) for phases in ("A", "ABA")] for seed in range(given.rounds)]
        alone, whole = (list(taken) for taken in zip(*pairs, strict=True))
        found[name] = {
            "rows": list(x.shape),
            "phase_a_s": round(statistics.median(alone), 2),
            "diffaug_s": round(statistics.median(whole), 2),
            "ratio": ratio(alone, whole, 2),
        }
        print(name, found[name], flush=True)
    record("diffaug_cost", found, given)


if __name__ == "__main__":
    main()
