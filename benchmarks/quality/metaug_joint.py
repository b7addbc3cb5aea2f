"""MetAug's augmented contrast of all features jointly (equation 11) against the mean of losses in its authors' program.

The published settings for vectors, `presets["paper"]`, but 100 steps of batches of 64 on 2,000 train rows: each takes
half a second of a CPU. None of the sets is the paper's. Rows as in `metaug_table1`.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.metaug_joint [minutes] [set or row ...]
"""

from __future__ import annotations

from benchmarks.common.data import sets
from benchmarks.quality.metaug_table1 import ARMS
from benchmarks.quality.suite import RAW, SEEDS, UNTRAINED, Budget, Stage, Study, Trained, main
from benchmarks.tables.formatting import by_row, collect, gain, titles
from viewsmith import MetAug

PRESET = {name: value for name, value in MetAug.presets["paper"].items() if name != "epochs"}
ROWS = ("contrast", "mean", "joint")
STUDY = Study(
    "metaug_joint",
    sets("letter", "optdigits", train_rows=2000, test_rows=2000),
    {**{arm: Trained(MetAug, PRESET | ARMS[arm]) for arm in ROWS}, "untrained": UNTRAINED, "raw": RAW},
    stages=[Stage(ROWS, [name], (seed,)) for name in ("letter", "optdigits") for seed in SEEDS]
    + [Stage(("untrained", "raw"))],
    budget=Budget(vectors=100),
    protocols=("linear", "knn"),
    reference=Trained(MetAug, PRESET | ARMS["contrast"]),
)
METRICS = titles("linear", "knn")
COMPARED = (("joint", "mean"), ("joint", "contrast"), ("mean", "contrast"))

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for metric, title in METRICS.items():
        print("", title, *by_row(table, metric, list(STUDY.sets), tuple(STUDY.rows)), sep="\n")
        for one, other in COMPARED:
            print(f"{one} minus {other}: {gain(table, one, other, list(STUDY.sets), metric)}")
