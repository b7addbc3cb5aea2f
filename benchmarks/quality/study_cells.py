"""Views made for cells, masked genes and thinned counts, against the neighbor recipe on single-cell sets.

At most 1,000 train and 1,000 test cells of a set; 250 training steps and layers of 64 features in place of 256 for
every row. Other options of rows without neighbors are those of `study`.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_cells [minutes] [name ...] [--quick]
"""

from __future__ import annotations

from benchmarks.common.data import sets
from benchmarks.quality.study import COSINE, PROTOCOLS
from benchmarks.quality.suite import Budget, Stage, Study, Trained, main
from viewsmith.estimators import Contrastive

ROWS = ("contrastive", "mask", "thinning")
SMALL = {"hidden": (64,), "n_components": 64}
STUDY = Study(
    "study_cells",
    sets("sc_10x_pbmc", "sc_citeseq_cbmc", train_rows=1000, test_rows=1000),
    {
        "contrastive": Trained(Contrastive, SMALL),
        "mask": Trained(Contrastive, {"view_maker": "mask"} | COSINE | SMALL),
        "thinning": Trained(Contrastive, {"view_maker": "thinning"} | COSINE | SMALL),
    },
    stages=(Stage(ROWS),),
    budget=Budget(vectors=250),
    protocols=PROTOCOLS,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
