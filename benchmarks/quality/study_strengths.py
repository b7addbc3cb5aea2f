"""Does the distance of views from the data predict the strength that helps? Graded views at several strengths, scored.

Sets of vectors with Gaussian noise, of images with the color jitter and the crops of SimCLR, of DNA with mutations.
Each cell trains `contrastive` with one strength, 300 steps with batches of 256 on the same 3,000 train rows, default
encoder for CPUs, and records, beside the scores, the last label-free diagnostics of views: `view_distance` (distance of
a view to the nearest other sample, over that of the samples) and `told_apart` (held-out accuracy of a classifier of
views against samples). Labels are read by probes alone, on at most 2,000 test rows.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_strengths [minutes] [set ...]
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import SETS as KNOWN
from benchmarks.common.data import DataSet, load
from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.suite import command, rounded
from viewsmith import Contrastive
from viewsmith.evaluation.protocol import evaluate_embedding

STEPS, ROWS, TEST_ROWS = 300, 3000, 2000
TARGET = 1.2  # distance of views at which a strength is chosen
NOISE = ("noise_strength", (0.05, 0.1, 0.25, 0.5, 1.0, 2.0), {"view_maker": "noise"})
COLOR = ("color_strength", (0.0, 0.25, 0.5, 1.0), {})
CROP = ("crop_minimum", (0.08, 0.2, 0.4, 0.7), {})
MUTATION = ("mutation_rate", (0.02, 0.05, 0.1, 0.2, 0.4), {"view_maker": "mutation"})
#: Option, strengths and other options by set.
GRADED: dict[str, tuple[tuple[str, tuple[float, ...], dict[str, Any]], ...]] = {
    **dict.fromkeys(("optdigits", "texture", "letter", "satimage", "wisdm_har", "sc_citeseq_cbmc"), (NOISE,)),
    **dict.fromkeys(("dna_ienhancer2l", "dna_human_core_promoter"), (MUTATION,)),
    **dict.fromkeys(("fashion_mnist", "cifar10_small"), (COLOR, CROP)),
}
SETS = {name: replace(KNOWN.get(name, DataSet(name)), train_rows=ROWS, test_rows=TEST_ROWS) for name in GRADED}
PROTOCOLS = ("linear", "knn", "linear_1pct")
PATH = RESULTS / "study_strengths.jsonl"


def measure(name: str, option: str, value: float, others: dict[str, Any], seed: int, quick: bool) -> dict[str, Any]:
    """Scores and the last diagnostics of views."""
    torch.set_num_threads(1)
    data = load(SETS[name])
    epochs = 1 if quick else math.ceil(STEPS / (len(data.x) // 256))
    given = {option: value, **others}
    model = Contrastive(epochs=epochs, batch_size=256, random_state=seed, device="cpu", **given).fit(data.x)
    last = next(row for row in reversed(model.metrics_) if "told_apart" in row)
    h, h_test = model.transform(data.x), model.transform(data.x_test)
    scores = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=PROTOCOLS)
    return rounded({**scores, "view_distance": last["view_distance"], "told_apart": last["told_apart"]})


def cells(quick: bool = False) -> list[Cell]:
    """All cells; vectors with two seeds, for they are cheap."""
    found = []
    for seed in (0, 1):
        for name, graded in GRADED.items():
            for option, strengths, others in graded:
                if seed and graded != (NOISE,):
                    continue
                for value in strengths:
                    arguments = (name, option, value, others, seed, quick)
                    found.append(Cell(name, f"{option} {value:g}", seed, lambda a=arguments: measure(*a)))
    return found[:2] if quick else found


def table() -> str:
    """By set and option: the curve, the best strength, and what is lost by the strength nearest to the target."""
    found = [row for row in rows(PATH) if "error" not in row]
    lines = [
        "| set, option | strength: distance, told apart, kNN | best | at the target | lost, kNN; 1 % |",
        "|" + "---|" * 5,
    ]
    for name, graded in GRADED.items():
        for option, strengths, _ in graded:
            means = []
            for value in strengths:
                own = [row for row in found if (row["dataset"], row["method"]) == (name, f"{option} {value:g}")]
                keys = ("view_distance", "told_apart", "knn", "linear_1pct")
                means.append({key: float(np.mean([row[key] for row in own])) for key in keys} | {"value": value})
            best = {key: max(mean[key] for mean in means) for key in ("knn", "linear_1pct")}
            at = min(means, key=lambda mean: abs(math.log(mean["view_distance"] / TARGET)))
            curve = "; ".join(
                f"{m['value']:g}: {m['view_distance']:.2f}, {m['told_apart']:.2f}, {m['knn']:.3f}" for m in means
            )
            top = max(means, key=lambda mean: mean["knn"])["value"]
            lost = ", ".join(f"{best[key] - at[key]:.3f}" for key in best)
            lines.append(f"| {name}, {option} | {curve} | {top:g} | {at['value']:g} | {lost} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
