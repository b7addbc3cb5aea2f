"""Choose the noise strength without labels: short trainings, scored by how well neighbors predict the data."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.base import clone

from viewsmith.core import distributed
from viewsmith.core.random import derive_seed, stream
from viewsmith.estimators.build.plan import Resolved, TrainingData
from viewsmith.estimators.build.resolve import view_entries

GRID = (0.25, 0.5, 1.0, 2.0)
TRIAL_STEPS = 300
TRIAL_ROWS = 5000
AS_READ = {"layer": None, "use_rep": None, "normalization": "none"}  # the rows of trials are arrays


class Trial(Protocol):
    """Interface of an estimator for trials."""

    def set_params(self, **params: Any) -> Any: ...

    def reads_labels(self) -> bool: ...


def choose_strength(
    estimator: Trial,
    name: str,
    changes: Mapping[str, Any],
    data: TrainingData,
    batch_size: int,
) -> tuple[float, dict[str, float]]:
    """Choose the strength from `GRID`; returns it and the scores of all strengths.

    For each strength, a model is trained briefly on 80 % of at most 5,000 rows and scored on the other 20 %, by how
    well their first principal components are predicted from their neighbors in the representation
    (`viewsmith.evaluation.label_free.neighbor_r2`). The strength with the highest score is chosen, without labels.
    These models search for neighbors even if fit was given a graph: few of its edges join two of their rows.

    Parameters
    ----------
    estimator : BaseEstimator
        Cloned for each trial.
    name : str
        Name of its argument for the strength.
    changes : mapping
        Other arguments that trials change.
    data : TrainingData
    batch_size : int
    """
    from viewsmith.evaluation.label_free import neighbor_r2

    rows = data.rows
    order = torch.randperm(len(rows), generator=stream(data.seed, "strength"))[:TRIAL_ROWS].numpy()
    cut = max(1, len(order) // 5)
    held, kept = rows[order[:cut]], rows[order[cut:]]
    if len(held) < 5 or len(kept) < 20:
        warnings.warn(f"{len(rows)} rows are too few to choose {name}: using 1.0", UserWarning, stacklevel=4)
        return 1.0, {}
    steps_per_epoch = max(1, len(kept) // batch_size)
    scores = {}
    for value in GRID:
        trial = clone(estimator).set_params(
            **{name: value, **changes},
            domain=data.domain.name,
            supervision="none",
            group_mode="none",
            **AS_READ,
            epochs=max(1, TRIAL_STEPS // steps_per_epoch),
            random_state=derive_seed(data.seed, "strength trial"),
            minutes=None,
            verbose=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a collapsed trial has a low score
            trial.fit(kept, np.asarray(data.labels)[order[cut:]] if trial.reads_labels() else None)
        x_kept, x_held = (list(trial.raw_features(part).values())[-1] for part in (kept, held))
        score = neighbor_r2(trial.transform(kept), trial.transform(held), x_kept, x_held)
        # Processes have different BatchNorm statistics; with the mean score, all choose the same strength.
        scores[str(value)] = float(distributed.gather(torch.tensor([score], device=data.device)).mean())
    return max(GRID, key=lambda value: scores[str(value)]), scores


def with_strengths(
    estimator: Trial,
    option: str,
    changes: Mapping[str, Any],
    options: Any,
    resolved: Resolved,
    data: TrainingData,
) -> Resolved:
    """With the strengths of noise; one that is "auto" and is used is chosen without labels (`choose_strength`)."""
    chosen = {name: getattr(options, name) for name in sorted({"noise_strength", option})}
    automatic = chosen[option] == "auto"
    chosen = {name: 1.0 if value == "auto" else value for name, value in chosen.items()}
    views = view_entries(resolved.view_maker, data.domain)
    if automatic and (option != "noise_strength" or any(view.trait("searches") == option for view in views)):
        best, scores = choose_strength(estimator, option, changes, data, options.batch_size)
        chosen |= {option: best, "strength_scores": scores}
    return dataclasses.replace(resolved, **chosen)
