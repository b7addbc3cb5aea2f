"""Where does the published form of DiffAug end on small sets of vectors, after phase A alone?

The encoder of `presets["paper2d"]` (batch 300, constant rate 1e-4) beside the same encoder untrained, raw features and
the default encoder. Phase A alone, 4,000 steps (about 600 epochs of 2,000 rows; the preset trains 670); at most 2,000
training rows and 2,000 test rows, one seed.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.diffaug_preset [minutes] [set or row ...]
"""

from __future__ import annotations

from benchmarks.common.data import sets
from benchmarks.quality.suite import RAW, SEEDS, UNTRAINED, Budget, Stage, Study, Trained, main
from benchmarks.tables.formatting import collect, gain
from viewsmith import DiffAug

PUBLISHED = DiffAug.presets["paper2d"] | {"phases": "A"}
ROWS = {
    "published": Trained(DiffAug, PUBLISHED),
    "untrained": UNTRAINED,
    "default": Trained(DiffAug, {"phases": "A"}),
    "raw": RAW,
}
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
STUDY = Study(
    "diffaug_preset",
    sets("texture", "optdigits", train_rows=2000, test_rows=2000),
    ROWS,
    stages=[Stage(tuple(ROWS), seeds=SEEDS[:1])],
    budget=Budget(vectors=4000),
    protocols=PROTOCOLS,
    reference=Trained(DiffAug, PUBLISHED),
)

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for row, reference in (("published", "untrained"), ("published", "default"), ("published", "raw")):
        for metric in PROTOCOLS:
            print(
                f"{row} minus {reference}, {metric}: {gain(table, row, reference, list(STUDY.sets), metric, digits=4)}"
            )
