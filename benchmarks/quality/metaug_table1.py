"""MetAug's table 1 with its published settings on 5,000 CIFAR-10 images: which part of the method changes the accuracy?

`presets["paper-images"]` (half an AlexNet for each of L and ab, batches of 64, crops and flips, a bank of negatives)
with `backbone_output="conv"`, 5,000 steps (64 epochs). Rows: "contrast", CMC with a separate loss for each pair;
"oucl", one unified loss; "mag", contrast with augmented features; "joint", both with one loss of all features (equation
11); "mean", both with the mean of losses, as in the authors' program; "frozen", "joint" with generators that do not
learn.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.metaug_table1 [minutes] [row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import sets
from benchmarks.quality.suite import RAW, SEEDS, UNTRAINED, Budget, Stage, Study, Trained, main
from benchmarks.tables.formatting import by_row, collect, titles
from viewsmith import MetAug

PRESET: dict[str, Any] = {
    **{name: value for name, value in MetAug.presets["paper-images"].items() if name not in ("epochs", "n_components")},
    "encoder_options": {"backbone_output": "conv"},
}
ARMS: dict[str, dict[str, Any]] = {
    "contrast": {"united": False, "meta": "none", "augmented_contrast": "mean"},
    "oucl": {"meta": "none"},
    "mag": {"united": False, "augmented_contrast": "mean"},
    "joint": {},
    "mean": {"augmented_contrast": "mean"},
    "frozen": {"meta": "frozen"},
}
STUDY = Study(
    "metaug_table1",
    sets("cifar10_small"),
    {**{arm: Trained(MetAug, PRESET | options) for arm, options in ARMS.items()}, "untrained": UNTRAINED, "raw": RAW},
    stages=[Stage(tuple(ARMS), seeds=(seed,)) for seed in SEEDS] + [Stage(("untrained", "raw"))],
    budget=Budget(modalities=5000),
    protocols=("linear", "knn"),
    reference=Trained(MetAug, PRESET | {"meta": "none"}),
)

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for metric, title in titles("linear", "knn").items():
        print("", title, *by_row(table, metric, list(STUDY.sets), tuple(STUDY.rows)), sep="\n")
