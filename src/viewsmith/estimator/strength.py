"""Choose the noise strength without labels.

Vectors: by the distance of noisy rows from the data. Others: by short trainings, scored by how well neighbors predict
the data.
"""

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from viewsmith.core import distributed
from viewsmith.core.deadline import check_time, together
from viewsmith.core.errors import warn
from viewsmith.core.random import derive_seed, stream
from viewsmith.estimator.plan import TrainingData
from viewsmith.estimator.resolve import O, view_entries
from viewsmith.losses.diagnostics import view_distance

# Vectors: noisy rows are so many times as far from the nearest other row as rows are. Chosen from 1.05 to 1.3 on six
# sets (docs, contrastive), on which it is better than short trainings.
DISTANCE = 1.1

STRENGTHS = tuple(round(0.05 * 2 ** (k / 2), 3) for k in range(13))  # 0.05 to 3.2
COMPARED, FEWEST = 1000, 25  # rows
GRID = (0.25, 0.5, 1.0, 2.0)
TRIAL_STEPS = 300
TRIAL_ROWS = 5000
AS_READ = {"layer": None, "use_rep": None, "normalization": "none"}  # the rows of trials are arrays


def train_briefly(estimator: Any, data: TrainingData, index: np.ndarray, purpose: str, **changes: Any) -> Any:
    """A clone with other arguments (`changes`), trained on the rows at `index` without messages."""
    trial = clone(estimator).set_params(
        modality=data.modality.name,
        supervision="none",
        group_mode="none",
        **AS_READ,
        random_state=derive_seed(data.seed, purpose),
        minutes=None,
        callbacks=None,
        verbose=False,
        **changes,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a trial that fails has a low score
        return trial.fit(data.rows[index], np.asarray(data.labels)[index] if trial.reads_labels() else None)


def mean_of_processes(score: float, device: torch.device) -> float:
    """The mean of a score over the processes, which differ in BatchNorm statistics; with it, all choose the same."""
    return float(distributed.gather(torch.tensor([score], device=device)).mean())


def strength_at_distance(x: Tensor, seed: int) -> tuple[float, dict[str, float]]:
    """The strength of Gaussian noise at which rows get the distance `DISTANCE` from the data, and all distances."""
    x = x.flatten(1).float().unique(dim=0)
    noise = torch.randn(x.shape, generator=stream(seed, "strength", device=x.device), device=x.device)
    distances = {value: float(view_distance(x, x + value * noise)) for value in STRENGTHS}
    best = min(STRENGTHS, key=lambda value: abs(math.log(distances[value] / DISTANCE)))
    return best, {str(value): distance for value, distance in distances.items()}


def choose_strength(
    estimator: Any, name: str, changes: Mapping[str, Any], data: TrainingData, batch_size: int
) -> tuple[float, dict[str, float]]:
    """Choose the strength from `GRID` by brief trainings on 80 % of at most 5,000 rows, scored on the others by
    `viewsmith.evaluation.label_free.neighbor_r2`; returns it and all scores."""
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
        with together():
            check_time()
        tried = {name: value, **changes, "epochs": epochs}
        trial = train_briefly(estimator, data, order[cut:], "strength trial", **tried)
        x_kept, x_held = (list(trial.raw_features(part).values())[-1] for part in (kept, held))
        score = neighbor_r2(trial.transform(kept), trial.transform(held), x_kept, x_held)
        scores[str(value)] = mean_of_processes(score, data.device)
    return max(GRID, key=lambda value: scores[str(value)]), scores


def with_strengths(
    estimator: Any, option: str, changes: Mapping[str, Any], options: O, data: TrainingData
) -> tuple[O, dict[str, float]]:
    """With the strengths of noise, and the scores of one that is "auto" and used: it is chosen without labels
    (`choose_strength`)."""
    chosen = {name: getattr(options, name) for name in sorted({"noise_strength", option})}
    automatic, scores = chosen[option] == "auto", dict[str, float]()
    chosen = {name: 1.0 if value == "auto" else value for name, value in chosen.items()}
    views = view_entries(options.view_maker, data.modality)
    if automatic and (option != "noise_strength" or any(view.tag("searches") == option for view in views)):
        if not data.modality.named_features:
            chosen[option], scores = choose_strength(estimator, option, changes, data, options.batch_size)
        elif len(data.x) < FEWEST:
            warn(f"{len(data.x)} rows are too few to choose {option}: using 1.0")
        else:
            order = torch.randperm(len(data.x), generator=stream(data.seed, "strength"))[:COMPARED]
            chosen[option], scores = strength_at_distance(data.x[order], data.seed)
    return dataclasses.replace(options, **chosen), scores
