"""Choosing the strength of noise without labels: short trainings, scored by how well neighbours keep the data."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sklearn.base import clone
from torch import Tensor

from viewsmith.core.random import derive_seed, stream

if TYPE_CHECKING:
    from viewsmith.estimators.base import ViewsmithEstimator

GRID = (0.25, 0.5, 1.0, 2.0)
TRIAL_STEPS = 300
TRIAL_ROWS = 5000


def resolve_strength(
    estimator: ViewsmithEstimator, options: SimpleNamespace, name: str, x: Tensor, seed: int
) -> dict[str, Any]:
    """The strength to train with under `name`; with "auto", chosen from `GRID`, the scores kept beside it.

    For each strength a short training on 80 % of (at most 5,000) rows is scored on the other 20 %: their first
    principal coordinates, predicted from their neighbours in the representation
    (`viewsmith.evaluation.label_free.neighbour_r2`). The highest score wins; labels play no part.
    """
    strength = getattr(options, name)
    uses_noise = name == "strength" or "noise" in options.view_maker.split("+")
    if strength != "auto" or not uses_noise:
        return {name: 1.0 if strength == "auto" else strength}
    from viewsmith.evaluation.label_free import neighbour_r2

    order = torch.randperm(len(x), generator=stream(seed, "strength"))[:TRIAL_ROWS]
    cut = max(1, len(order) // 5)
    held, rows = x[order[:cut]].cpu().numpy(), x[order[cut:]].cpu().numpy()
    if len(held) < 5 or len(rows) < 20:
        warnings.warn(f"{len(x)} rows are too few to choose {name}: 1.0 is taken", UserWarning, stacklevel=4)
        return {name: 1.0}
    steps_per_epoch = max(1, len(rows) // options.batch_size)
    scores = {}
    for value in GRID:
        trial = clone(estimator).set_params(
            **{name: value},
            scaling="none",
            impute="none",
            epochs=max(1, TRIAL_STEPS // steps_per_epoch),
            random_state=derive_seed(seed, "strength trial"),
            minutes=None,
            verbose=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trial's collapse is for its score to tell
            trial.fit(rows)
        scores[str(value)] = float(neighbour_r2(trial.transform(rows), trial.transform(held), rows, held))
    best = max(GRID, key=lambda value: scores[str(value)])
    return {name: best, "strength_scores": scores}
