"""The study of MetAug: do augmented features, one loss for all pairs, and meta-learning improve contrastive learning?

All trained rows have the same encoder, head, views, memory, optimizer, learning-rate schedule and encoder steps: 900 on
vectors, 300 on images and DNA, with batch size 256 or 64 (in the name of the row). Rows:

contrast     MetAug without generators, with a separate loss for each pair of views (InfoNCE against the queue)
oucl         one loss for all pairs: "MetAug (only OUCL)" of the paper
mag          contrast with generators: "MetAug (only MAG)" of the paper
metaug       both
first-order  metaug without the gradient through the encoder's step
frozen       metaug with random generators that are not trained
simclr       NT-Xent over the batch with the cosine kernel; "simclr + mag" adds generators

Train rows are limited (`common.data.SETS`), test rows to 5,000, random, seed 0. Test rows of DNA sets that are copies
of training rows are not scored. Settings are the defaults, chosen without these sets (docs, MetAug).

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_metaug [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import sets
from benchmarks.quality.suite import PCA, RAW, SEEDS, UNTRAINED, Budget, Stage, Study, Trained, main
from viewsmith.estimators import MetAug

SETS = sets("sc_citeseq_cbmc", "text_20news_tfidf2000", "fashion_mnist", "cifar10_small", "dna_human_core_promoter")
ABLATED = ("sc_citeseq_cbmc", "fashion_mnist")
PROTOCOLS = ("linear", "svm", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
BATCHES = (256, 64)
ARMS: dict[str, dict[str, Any]] = {
    "contrast": {"united": False, "meta": "none"},
    "oucl": {"meta": "none"},
    "mag": {"united": False},
    "metaug": {},
    "first-order": {"meta": "first-order"},
    "frozen": {"meta": "frozen"},
    "simclr": {"framework": "simclr", "kernel": "cosine", "meta": "none"},
    "simclr + mag": {"framework": "simclr", "kernel": "cosine"},
}
MAIN, ABLATIONS, ADDED = ("contrast", "oucl", "mag", "metaug"), ("first-order", "frozen"), ("simclr", "simclr + mag")


def seed_by_seed(arms: tuple[str, ...], batch: int, sets: tuple[str, ...] | None = None) -> list[Stage]:
    """A stage for each seed."""
    return [Stage([f"{arm}, batch {batch}" for arm in arms], sets, (seed,)) for seed in SEEDS]


STUDY = Study(
    "study_metaug",
    SETS,
    {
        **{
            f"{arm}, batch {batch}": Trained(MetAug, options | {"batch_size": batch})
            for batch in BATCHES
            for arm, options in ARMS.items()
        },
        "raw": RAW,
        "pca": PCA,
        "untrained": UNTRAINED,
    },
    stages=(
        *seed_by_seed(MAIN, 256),
        Stage(("raw", "pca", "untrained"), seeds=(0,)),
        *seed_by_seed(ABLATIONS, 256, ABLATED),
        Stage(("untrained",)),
        *seed_by_seed(ADDED, 256),
        *seed_by_seed(MAIN, 64),
        *seed_by_seed(ABLATIONS, 64, ABLATED),
    ),
    budget=Budget(vectors=900, domains=300),
    protocols=PROTOCOLS,
    reference=Trained(MetAug, {"meta": "none"}),
)

if __name__ == "__main__":
    main(STUDY, __doc__)
