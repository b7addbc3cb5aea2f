"""Views made for cells, masked genes and thinned counts, against the neighbor recipe on single-cell sets.

Budgets, encoder and options of rows without neighbors are those of `study`, which has the baselines on the same sets.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_cells [minutes] [name ...] [--quick]
"""

from __future__ import annotations

from benchmarks.common.data import sets
from benchmarks.quality.study import BUDGET, COSINE, DIRECT, PROTOCOLS
from benchmarks.quality.suite import Stage, Study, Trained, main
from viewsmith.estimators import Contrastive

ROWS = ("contrastive", "mask", "thinning")
STUDY = Study(
    "study_cells",
    sets("sc_10x_pbmc", "sc_citeseq_cbmc"),
    {
        "contrastive": Trained(Contrastive),
        "mask": Trained(Contrastive, {"view_maker": "mask"} | COSINE, budget=DIRECT),
        "thinning": Trained(Contrastive, {"view_maker": "thinning"} | COSINE, budget=DIRECT),
    },
    stages=(Stage(ROWS, ("sc_10x_pbmc",)), Stage(ROWS)),
    budget=BUDGET,
    protocols=PROTOCOLS,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
