"""Choosing the strength of noise without labels: short trainings, scored by how well neighbors keep the data."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone

from viewsmith.core import distributed
from viewsmith.core.random import derive_seed, stream
from viewsmith.estimators.fitting import find_device

if TYPE_CHECKING:
    from viewsmith.estimators.base import ViewsmithEstimator

GRID = (0.25, 0.5, 1.0, 2.0)
TRIAL_STEPS = 300
TRIAL_ROWS = 5000


def resolve_strength(
    estimator: ViewsmithEstimator, options: SimpleNamespace, fitted: dict[str, Any], rows: np.ndarray, seed: int
) -> dict[str, Any]:
    """The strengths to train with; one that is "auto" is chosen from `GRID`, the scores kept beside it.

    For each strength a short training on 80 % of (at most 5,000) rows is scored on the other 20 %: their first
    principal coordinates, predicted from their neighbors in the representation
    (`viewsmith.evaluation.label_free.neighbor_r2`). The highest score wins; labels play no part.
    """
    names = {"noise_strength", estimator.strength_option}
    resolved: dict[str, Any] = {n: 1.0 if getattr(options, n) == "auto" else getattr(options, n) for n in sorted(names)}
    name = estimator.strength_option
    uses_noise = name == "strength" or "noise" in fitted["view_maker"].split("+")
    if getattr(options, name) != "auto" or not uses_noise:
        return resolved
    from viewsmith.evaluation.label_free import neighbor_r2

    order = torch.randperm(len(rows), generator=stream(seed, "strength"))[:TRIAL_ROWS].numpy()
    cut = max(1, len(order) // 5)
    held, kept = rows[order[:cut]], rows[order[cut:]]
    if len(held) < 5 or len(kept) < 20:
        warnings.warn(f"{len(rows)} rows are too few to choose {name}: 1.0 is taken", UserWarning, stacklevel=4)
        return resolved
    steps_per_epoch = max(1, len(kept) // options.batch_size)
    scores = {}
    for value in GRID:
        trial = clone(estimator).set_params(
            **{name: value, **estimator.trial_options},
            domain=fitted["domain"],
            epochs=max(1, TRIAL_STEPS // steps_per_epoch),
            random_state=derive_seed(seed, "strength trial"),
            minutes=None,
            verbose=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trial's collapse is for its score to tell
            trial.fit(kept)
        x_kept, x_held = (list(trial.raw_features(part).values())[-1] for part in (kept, held))
        score = neighbor_r2(trial.transform(kept), trial.transform(held), x_kept, x_held)
        # Each process scores a model with its own BatchNorm statistics; all have to choose alike.
        device = find_device(options.device)
        scores[str(value)] = float(distributed.gather(torch.tensor([score], device=device)).mean())
    best = max(GRID, key=lambda value: scores[str(value)])
    return resolved | {name: best, "strength_scores": scores}
