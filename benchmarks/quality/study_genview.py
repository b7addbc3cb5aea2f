"""The study of GenView: what do generated views, adaptive noise and quality weights add to a framework?

Every row has the same encoder (the default one for CPUs), batch size 256, optimizer, fixed views and number of encoder
steps: 1,200 on vectors, 300 on images and DNA. Rows with generated views also train viewsmith's diffusion model, for
half as many steps. No external weights. Settings are the defaults; none was chosen on these sets.

framework: the framework alone. + views: one of the two sources of a pair is generated, with the same noise for all
samples (level 200) and without weights. + adaptive: with a noise level for each sample. + quality: with weights, too.
Ablations: random noise, alpha 0.5, quality weights without generated views.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_genview [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import SETS
from benchmarks.quality.study import PROTOCOLS
from benchmarks.quality.suite import UNTRAINED, Budget, Stage, Study, Trained, main
from viewsmith.estimators import GenView

# Set and framework, in the order in which cells run.
SETTINGS = (
    "cifar10_small, moco",
    "sc_citeseq_cbmc, simclr",
    "dna_human_core_promoter, simclr",
    "cifar10_small, byol",
    "fashion_mnist, moco",
    "fashion_mnist, byol",
)
FRAMEWORKS = {setting: {"framework": setting.split(", ")[1]} for setting in SETTINGS}
ALONE: dict[str, Any] = {"alpha": 0.0, "quality": False}
ARMS: dict[str, dict[str, Any]] = {
    "framework": ALONE,
    "+ views": {"noise": "constant:200", "quality": False},
    "+ adaptive": {"quality": False},
    "+ quality": {},
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "random noise": {"noise": "random", "quality": False},
    "alpha 0.5": {"alpha": 0.5},
    "quality alone": {"alpha": 0.0},
}
STUDY = Study(
    "study_genview",
    {setting: SETS[setting.split(", ")[0]] for setting in SETTINGS},
    {arm: Trained(GenView, options, FRAMEWORKS) for arm, options in (ARMS | ABLATIONS).items()}
    | {"untrained": UNTRAINED},
    stages=(Stage(("untrained", *ARMS)), Stage(tuple(ABLATIONS))),
    budget=Budget(vectors=1200, domains=300),
    protocols=PROTOCOLS,
    reference=Trained(GenView, ALONE, FRAMEWORKS),
    first=512,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
