"""Whole DiffAug training (A, B, bank, A) against phase A alone for as many encoder epochs, default sizes.

Vectors of letter, texture, sc_citeseq_cbmc and wisdm_har, 600 encoder steps each, in turn, median of the ratio of CPU
time. Target: at most 2.

    VIEWSMITH_DATA=folder python benchmarks/diffaug_cost.py [--rounds 3] [--steps 600]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from datetime import UTC, datetime

import numpy as np
import torch
from runner import RESULTS, commit, load

from viewsmith.estimators import DiffAug
from viewsmith.training.run import environment

SETS = ("letter", "texture", "sc_citeseq_cbmc", "wisdm_har")


def seconds(x: np.ndarray, phases: str, steps: int, seed: int) -> float:
    """CPU seconds of a training."""
    model = DiffAug(phases=phases, epochs=math.ceil(steps / max(1, len(x) // 256)), random_state=seed)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name in SETS:
        x = load(name, 10_000)["x"]
        pairs = [
            (seconds(x, "A", arguments.steps, seed), seconds(x, "ABA", arguments.steps, seed))
            for seed in range(arguments.rounds)
        ]
        found[name] = {
            "rows": list(x.shape),
            "phase_a_s": round(statistics.median(a for a, _ in pairs), 2),
            "diffaug_s": round(statistics.median(b for _, b in pairs), 2),
            "ratio": round(statistics.median(b / a for a, b in pairs), 2),
        }
        print(name, found[name], flush=True)
    line = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "steps": arguments.steps,
        "rounds": arguments.rounds,
        **found,
        **environment()["hardware"],
        "torch": environment()["versions"]["torch"],
    }
    with (RESULTS / "diffaug_cost.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
