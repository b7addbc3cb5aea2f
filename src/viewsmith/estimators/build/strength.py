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
from viewsmith.core.messages import warn
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


def train_briefly(estimator: Trial, data: TrainingData, index: np.ndarray, purpose: str, **changes: Any) -> Any:
    """A clone with other arguments (`changes`), trained on the rows at `index` without messages."""
    trial = clone(estimator).set_params(
        domain=data.domain.name,
        supervision="none",
        group_mode="none",
        **AS_READ,
        random_state=derive_seed(data.seed, purpose),
        minutes=None,
        verbose=False,
        **changes,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a trial that fails has a low score
        return trial.fit(data.rows[index], np.asarray(data.labels)[index] if trial.reads_labels() else None)


def mean_of_processes(score: float, device: torch.device) -> float:
    """The mean of a score over the processes, which differ in BatchNorm statistics; with it, all choose the same."""
    return float(distributed.gather(torch.tensor([score], device=device)).mean())


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
        warn(f"{len(rows)} rows are too few to choose {name}: using 1.0")
        return 1.0, {}
    epochs = max(1, TRIAL_STEPS // max(1, len(kept) // batch_size))
    scores = {}
    for value in GRID:
        tried = {name: value, **changes, "epochs": epochs}
        trial = train_briefly(estimator, data, order[cut:], "strength trial", **tried)
        x_kept, x_held = (list(trial.raw_features(part).values())[-1] for part in (kept, held))
        score = neighbor_r2(trial.transform(kept), trial.transform(held), x_kept, x_held)
        scores[str(value)] = mean_of_processes(score, data.device)
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
