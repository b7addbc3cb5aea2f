"""Views made for cells, masked genes and thinned counts, against the neighbor recipe on single-cell sets.

sc_10x_pbmc as a whole with the budgets of `study`, which has the baselines on the same set; and 1,000 train cells of
three sets, where every row has 250 training steps and layers of 64 features in place of 256. Other options of rows
without neighbors are those of `study`.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.study_cells [minutes] [name ...] [--quick]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import sets
from benchmarks.quality.suite import Stage, Study, Trained, main
from benchmarks.quality.vectors.study import BUDGET, COSINE, DIRECT, PROTOCOLS
from viewsmith import Contrastive

ROWS = ("contrastive", "mask", "thinning")
FEW = sets("sc_10x_pbmc", "sc_human_kidney", "sc_citeseq_cbmc", train_rows=1000, test_rows=1000)
SETS = sets("sc_10x_pbmc") | {f"{name}, 1,000 cells": known for name, known in FEW.items()}
SMALL: dict[str, Any] = {"hidden": (64,), "n_components": 64, "epochs": 84}
ON = {name: SMALL for name in SETS if "," in name}
STUDY = Study(
    "study_cells",
    SETS,
    {
        "contrastive": Trained(Contrastive, on=ON),
        "mask": Trained(Contrastive, {"view_maker": "mask"} | COSINE, on=ON, budget=DIRECT),
        "thinning": Trained(Contrastive, {"view_maker": "thinning"} | COSINE, on=ON, budget=DIRECT),
    },
    stages=(Stage(ROWS),),
    budget=BUDGET,
    protocols=PROTOCOLS,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
