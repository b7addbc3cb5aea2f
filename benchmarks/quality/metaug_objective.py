"""Other objectives of MetAug's generators: do they learn more from another look at the encoder's step?

The paper's generators minimize the loss of a batch after one plain gradient step of the encoder on this batch. The rows
change one thing each: "another batch", the loss after the step is that of the batch before; "real step", the step is
adaptive like Adam's (learning rate 3e-3, the running mean of squared gradients held constant); "head alone", the step
moves the projection head only. The generators of "frozen" do not learn. 2,000 training rows, 105 encoder steps, batch
256, generators at every step; paired by set and seed.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.metaug_objective [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.common.data import sets
from benchmarks.quality.suite import SEEDS, Budget, Stage, Study, Trained, main
from benchmarks.tables.formatting import collect, gain
from viewsmith import MetAug
from viewsmith.core.schedule import Batch
from viewsmith.methods.metaug.objective import BatchLosses, BatchProjections, InnerStep, batch_statistics, meta_losses
from viewsmith.methods.metaug.training import MetAugMethod

RATE, DECAY, EPSILON = 3e-3, 0.99, 1e-8


class Objective(MetAugMethod):
    """MetAug with another objective of the generators.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    before : InnerStep or None
        The batch before.
    moments : dict
        Running means of squared gradients by parameter, and how much of each is from gradients.
    """

    kind: str
    before: InnerStep | None
    moments: dict[str, tuple[Tensor, float]]

    def feature_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """omega: (L + alpha R) / delta of some batch at some theta'; see the head of this script."""
        terms, logs = self.terms, dict[str, Tensor]()
        inner, self.inner = self.inner, None
        assert inner is not None and self.features is not None
        judged = (self.before or inner) if self.kind == "another batch" else inner
        self.before = inner
        theta = {n: inner.state[n] for n in inner.theta if self.kind != "head alone" or n.startswith("head.")}
        gradient = {n: p.grad for n, p in self.framework.named_parameters() if n in theta and p.grad is not None}
        # Written in phi with theta = s phi, a plain step is a step of s^2 times the gradient.
        s = {n: torch.ones(()) for n in theta}
        if self.kind == "real step":
            s = {n: (RATE / (self._root(n, g) * self.inner_rate)).sqrt() for n, g in gradient.items()}
        whole = BatchLosses(terms, inner.state, judged.pair, judged.views, batch.progress)
        projector = BatchProjections(terms, inner.pair, inner.views)
        rest = {n: value for n, value in inner.state.items() if n not in theta and n.startswith(("encoder.", "head."))}
        with batch_statistics(self.framework, self.features):
            losses = meta_losses(
                lambda phi: whole.at({n: s[n] * value for n, value in phi.items()}),
                lambda phi: projector.at(rest | {n: s[n] * value for n, value in phi.items()}),
                terms.of_projections(inner.draw),
                terms.of_projections(judged.draw, regularized=True, logs=logs),
                omega=list(self.features.parameters()),
                weights={n: value / s[n] for n, value in theta.items()},
                gradient={n: s[n] * g for n, g in gradient.items()},
                z=inner.z,
                rate=self.inner_rate,
            )
        return losses / terms.feature_weight, {"margin": logs["margin"]}

    def _root(self, name: str, gradient: Tensor) -> Tensor:
        """Root of the running mean of squared gradients, with Adam's correction of its start."""
        mean, weight = self.moments.get(name, (torch.zeros_like(gradient), 0.0))
        mean, weight = mean.lerp(gradient.square(), 1 - DECAY), weight * DECAY + 1 - DECAY
        self.moments[name] = mean, weight
        return (mean / weight).sqrt() + EPSILON


class MetAugWith(MetAug):
    """MetAug whose generators have the objective of `kind`."""

    kind = ""

    def _build(self, plan: Any) -> Any:
        method: Any = super()._build(plan)
        method.__class__ = Objective
        method.kind, method.before, method.moments = self.kind, None, {}
        return method


def with_objective(kind: str) -> type[MetAug]:
    return type("MetAugWith", (MetAugWith,), {"kind": kind})


KINDS = ("same", "another batch", "real step", "head alone")
EVERY = {"feature_every": 1}
ROWS = {
    "frozen": Trained(MetAug, EVERY | {"meta": "frozen"}),
    "published": Trained(MetAug, EVERY),
    **{kind: Trained(with_objective(kind), EVERY) for kind in KINDS[1:]},
}
SETS = sets("optdigits", "satimage", train_rows=2000, test_rows=2000)
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")
STUDY = Study(
    "metaug_objective",
    SETS,
    ROWS,
    stages=[Stage(tuple(ROWS), seeds=(seed,)) for seed in SEEDS],
    budget=Budget(vectors=105),
    protocols=PROTOCOLS,
)

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for row in KINDS[1:]:
        for reference in ("published", "frozen"):
            gains = (f"{metric} {gain(table, row, reference, list(SETS), metric, digits=4)}" for metric in PROTOCOLS)
            print(f"{row} minus {reference}: {'; '.join(gains)}")
