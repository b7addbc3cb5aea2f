"""The study on images and DNA: does learned noise improve the fixed views of the modality, or can it replace them?

Every trained row has the same encoder (the default one for CPUs), batch size 256, optimizer and number of steps
(`STEPS`). Rows with noise have the same search over its strength: four values, a third of the steps each
(`suite.Search`).

raw: pixels / 255; for DNA 4-mer frequencies or one-hot bases, whichever score better on a part of the train rows. Train
rows are limited (`common.data.SETS`), test rows to 5,000, random, seed 0. Test rows of dna_ienhancer2l that are copies
of training rows are not scored; the others are unbalanced (two thirds are of one class).

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_modalities [minutes] [set or row ...]
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.common.data import sets
from benchmarks.quality.suite import PCA, RAW, UMAP, UNTRAINED, Budget, Row, Search, Stage, Study, Trained, main
from benchmarks.quality.vectors.study import PROTOCOLS
from viewsmith import Contrastive, PiNDA

SETS = sets("cifar10_small", "fashion_mnist", "dna_human_core_promoter", "dna_ienhancer2l")
STEPS = 300
OF_NOISE = Search("noise_strength", (0.125, 0.25, 0.5, 1.0), Budget(modalities=STEPS // 3))
OF_PINDA = replace(OF_NOISE, option="strength")

TRAINED: dict[str, Row] = {
    # As the rows that it is compared with: all columns are learned.
    "fixed views": Trained(Contrastive, {"encoder_options": {"appended_pca": 0}}),
    "pinda + fixed views": Trained(PiNDA, search=OF_PINDA),
    "noise": Trained(Contrastive, {"view_maker": "noise"}, search=OF_NOISE),
    "pinda alone": Trained(PiNDA, {"view_maker": "identity", "two_sided": True}, search=OF_PINDA),
    "neighbors": Trained(Contrastive, {"view_maker": "neighbors"}),
}
STUDY = Study(
    "study_modalities",
    SETS,
    TRAINED | {"raw": RAW, "pca": PCA, "umap": UMAP, "untrained": UNTRAINED},
    stages=(
        Stage(("raw", "pca", "untrained", "fixed views")),
        Stage(("pinda + fixed views", "umap")),
        Stage(("noise", "pinda alone"), ("cifar10_small", "dna_human_core_promoter", "dna_ienhancer2l")),
        Stage(("neighbors",), ("dna_human_core_promoter",)),
    ),
    budget=Budget(modalities=STEPS),
    protocols=PROTOCOLS,
    reference=Trained(Contrastive, {"view_maker": "identity"}),
)

if __name__ == "__main__":
    main(STUDY, __doc__)
