"""Do views sampled in 10 steps train an encoder as well as views of DDPM with 1,000 steps, from the same network?

DiffAug's defaults with 600 encoder steps, batch 256, one generated view per sample, and lambda 0.5, so that views have
a large effect. No other study of DiffAug uses these sets. Only the sampler that fills the view cache differs: the
default sampler, or DDPM with 1,000 steps; "replacement 0" uses none of its views. Differences ("fast" minus "ddpm") are
paired by set and seed: mean and 95 % interval.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.diffaug_sampler [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import sets
from benchmarks.quality.suite import Budget, Stage, Study, Trained, main
from benchmarks.tables.formatting import collect, gain
from viewsmith import DiffAug

SETS = sets("texture", "optdigits", train_rows=3000)
HALF: dict[str, Any] = {"cached_views": 1, "replacement": 0.5}
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
STUDY = Study(
    "diffaug_sampler",
    SETS,
    {
        "fast": Trained(DiffAug, HALF),
        "ddpm": Trained(DiffAug, HALF | {"sampler": "ddpm", "sampler_steps": 1000}),
        "replacement 0": Trained(DiffAug, HALF | {"replacement": 0.0, "generator_epochs": 1}),
    },
    stages=[
        *(Stage(("fast", "ddpm"), seeds=(seed,)) for seed in range(5)),
        Stage(("replacement 0",), seeds=(0, 1, 2, 3, 4)),
    ],
    budget=Budget(vectors=600),
    protocols=PROTOCOLS,
)

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for metric in (*PROTOCOLS, "drift"):
        print(f"{metric}: {gain(table, 'fast', 'ddpm', list(SETS), metric, digits=4)}")
