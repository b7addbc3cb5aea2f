"""The study of GenView: what do generated views, adaptive noise and quality weights add to a framework?

Every row has the same encoder (the default one for CPUs), batch size 256, optimizer, fixed views and number of encoder
steps: 1,200. Rows with generated views also train viewsmith's diffusion model, for half as many steps. No external
weights. Settings are the defaults; none was chosen on these sets. "letter, 300 rows": so many train rows, drawn once
(seed 0); encoder, diffusion model and classifiers are fitted on them alone.

framework: the framework alone. + views: one of the two sources of a pair is generated, with the same noise for all
samples (level 200) and without weights. + adaptive: with a noise level for each sample. + quality: with weights, too.
What counts as a yes: `benchmarks/quality/PLAN.md`.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.study_genview [minutes] [set or row ...]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.common.data import SETS
from benchmarks.quality.suite import UNTRAINED, Budget, Stage, Study, Trained, main
from benchmarks.quality.vectors.study import PROTOCOLS
from viewsmith import GenView

# Set, if few number of train rows, and framework.
FEW = {f"letter, {rows} rows, simclr": replace(SETS["letter"], train_rows=rows) for rows in (300, 1000)}
SETTINGS = {"sc_citeseq_cbmc, simclr": SETS["sc_citeseq_cbmc"], **FEW}
FRAMEWORKS = {setting: {"framework": setting.split(", ")[-1]} for setting in SETTINGS}
ALONE: dict[str, Any] = {"alpha": 0.0, "quality": False}
ARMS: dict[str, dict[str, Any]] = {
    "framework": ALONE,
    "+ views": {"noise": "constant:200", "quality": False},
    "+ adaptive": {"quality": False},
    "+ quality": {},
}


STUDY = Study(
    "study_genview",
    SETTINGS,
    {arm: Trained(GenView, options, FRAMEWORKS) for arm, options in ARMS.items()} | {"untrained": UNTRAINED},
    stages=(Stage((*ARMS, "untrained")),),
    budget=Budget(vectors=1200),
    protocols=PROTOCOLS,
    reference=Trained(GenView, ALONE, FRAMEWORKS),
    first=512,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
