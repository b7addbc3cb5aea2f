"""The study of MetAug: do augmented features, one loss for all pairs, and meta-learning improve contrastive learning?

All trained rows have the same encoder, head, views, memory, optimizer, learning-rate schedule, batch size (256) and
encoder steps: 900, on images 300. Rows:

contrast     MetAug without generators, with a separate loss for each pair of views (InfoNCE against the queue)
oucl         one loss for all pairs: "MetAug (only OUCL)" of the paper
mag          contrast with generators: "MetAug (only MAG)" of the paper
metaug       both
first-order  metaug without the gradient through the encoder's step
frozen       metaug with random generators that are not trained

Train rows are limited (`common.data.SETS`), test rows to 5,000, random, seed 0. Settings are the defaults, chosen
without these sets (docs, MetAug). What counts as a yes: `benchmarks/quality/PLAN.md`.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_metaug [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import sets
from benchmarks.quality.suite import RAW, SEEDS, UNTRAINED, Budget, Stage, Study, Trained, main
from viewsmith import MetAug

SETS = sets("letter", "wisdm_har", "cifar10_small")
VECTORS, IMAGES = ("letter", "wisdm_har"), ("cifar10_small",)
PROTOCOLS = ("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
ARMS: dict[str, dict[str, Any]] = {
    "contrast": {"united": False, "meta": "none"},
    "oucl": {"meta": "none"},
    "mag": {"united": False},
    "metaug": {},
    "first-order": {"meta": "first-order"},
    "frozen": {"meta": "frozen"},
}
STUDY = Study(
    "study_metaug",
    SETS,
    {
        **{arm: Trained(MetAug, options | {"batch_size": 256}) for arm, options in ARMS.items()},
        "raw": RAW,
        "untrained": UNTRAINED,
    },
    stages=[
        *(Stage((*ARMS, "raw", "untrained"), VECTORS, seeds=(seed,)) for seed in SEEDS),
        *(Stage(("contrast", "oucl", "mag", "metaug", "frozen"), IMAGES, seeds=(seed,)) for seed in SEEDS),
    ],
    budget=Budget(vectors=900, modalities=300),
    protocols=PROTOCOLS,
    reference=Trained(MetAug, {"meta": "none"}),
)

if __name__ == "__main__":
    main(STUDY, __doc__)
