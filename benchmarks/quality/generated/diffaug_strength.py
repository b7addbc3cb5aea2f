"""Does a strength for each sample, chosen without labels so that its views stay in the neighborhood, help DiffAug?

DiffAug on sets of vectors on which many views leave their sample's neighborhood, with half of the positives generated
so that views matter. "one strength" is the default (1: views from pure noise). "by sample": of each training row the
largest strength at which two views stay, searched upward with the trained generator; no label is read. "phase A" has
no generator, "replacement 0" one that is not used. At most 2,000 training rows, 400 encoder steps, batch 256; paired by
set and seed.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.diffaug_strength [minutes] [set or row ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common.data import sets
from benchmarks.quality.suite import SEEDS, Budget, Stage, Study, Trained, main
from benchmarks.tables.formatting import collect, gain
from viewsmith import DiffAug
from viewsmith.core.random import stream
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.networks.wrappers import Reference
from viewsmith.views.generated.diffusion_views import GeneratedViews
from viewsmith.views.generated.noise_level import AdaptiveStrength
from viewsmith.views.neighbors import outliers

STRENGTHS = (0.1, 0.3, 0.5, 0.7, 1.0)
DRAWS = 2


class StrengthOfSample(AdaptiveStrength):
    """The largest strength at which the views of a training row stay in its neighborhood."""

    def __init__(self, generated: GeneratedViews) -> None:
        super().__init__("sample")
        self.generated = Reference(generated)

    @torch.no_grad()
    def forward(self, encoder: nn.Module, rows: Rows, streams: Sequence[torch.Generator]) -> Tensor:
        """Strengths of the training rows, float64 (n,); the smallest where no view stays."""
        pool = apply_in_blocks(lambda x: encoder(x).float(), rows, 256)
        found = torch.full((len(pool),), STRENGTHS[0], dtype=torch.float64)
        climbing = torch.ones(len(pool), dtype=torch.bool)
        for strength in STRENGTHS:
            for draw in range(DRAWS):
                for index in climbing.nonzero()[:, 0].split(256):
                    rng = stream(0, "strength", str(strength), draw, int(index[0]))
                    of_all = torch.full((len(index),), strength, dtype=torch.float64)
                    views = self.generated.module.generate(rows[index], index, rng, of_all)
                    climbing[index] = ~outliers(encoder(views).float(), index, pool)
            found[climbing] = strength
        return found


class DiffAugBySample(DiffAug):
    """DiffAug with `StrengthOfSample`."""

    def _build(self, plan: Any) -> Any:
        method: Any = super()._build(plan)
        method.generated.strengths = StrengthOfSample(method.generated)
        return method


HALF = {"replacement": 0.5}
CONTROL = {"replacement": 0.0, "generator_epochs": 1}  # the same phases without generated positives
ROWS = {
    "phase A": Trained(DiffAug, {"phases": "A"}),
    "replacement 0": Trained(DiffAug, CONTROL),
    "one strength": Trained(DiffAug, HALF),
    "by sample": Trained(DiffAugBySample, HALF),
}
SETS = sets("texture", "gas_drift", "sc_citeseq_cbmc", train_rows=2000, test_rows=2000)
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
STUDY = Study(
    "diffaug_strength",
    SETS,
    ROWS,
    stages=[Stage(tuple(ROWS), seeds=(seed,)) for seed in SEEDS],
    budget=Budget(vectors=400),
    protocols=PROTOCOLS,
)

COMPARED = [("by sample", "one strength")]
COMPARED += [(row, control) for row in ("by sample", "one strength") for control in ("phase A", "replacement 0")]

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for row, reference in COMPARED:
        for metric in (*PROTOCOLS, *(("drift",) if reference == "one strength" else ())):
            print(f"{row} minus {reference}, {metric}: {gain(table, row, reference, list(SETS), metric, digits=4)}")
