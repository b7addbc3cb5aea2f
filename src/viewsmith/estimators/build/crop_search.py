"""Choose the size of CRL-TAC's crops without labels: short trainings, scored by the information of what they select."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.random import derive_seed, stream
from viewsmith.estimators.build.plan import TrainingData
from viewsmith.estimators.build.strength import mean_of_processes, train_briefly
from viewsmith.losses.info_max import info_max
from viewsmith.methods.crl_tac import CRLTACMethod

FRACTIONS = (1 / 4, 1 / 3, 1 / 2)  # of the shorter side of the images
CROP, STRIDE = 20, 4  # of the trials, in pixels of the resized images
TRIAL_ROWS, TRIAL_STEPS, TRIAL_BATCH = 1500, 200, 64
SCORED_ROWS, SCORED_AT_ONCE, DRAWS, BETA = 256, 64, 32, 5.0


def crop_sizes(row_shape: Sequence[int]) -> list[int]:
    """Sides of crops to choose from: multiples of `STRIDE`, at least `CROP`, at most half of the images."""
    side = min(row_shape[:2])
    return sorted({size for part in FRACTIONS if (size := max(CROP, int(side * part) // STRIDE * STRIDE)) <= side / 2})


def drawn_information(z: Tensor, p: Tensor, generator: torch.Generator) -> float:
    """Information (equation 2) of `DRAWS` views drawn from P(T|x), (B, M), with projections `z`, (B, M, d)."""
    t = torch.multinomial(p, DRAWS, replacement=True, generator=generator)
    drawn = z.gather(1, t[..., None].expand(-1, -1, z.shape[2]))
    return float(info_max(drawn, torch.full_like(drawn[..., 0], 1 / DRAWS), BETA).mean())


@torch.no_grad()
def information(method: CRLTACMethod, x: Tensor, generator: torch.Generator) -> float:
    """Mean of `drawn_information` over samples, `SCORED_AT_ONCE` at a time."""
    parts = [part for part in x.split(SCORED_AT_ONCE) if len(part) == SCORED_AT_ONCE] or [x]
    found = [
        drawn_information(method.every_projection(part), method.channel.log_p(part).exp(), generator) for part in parts
    ]
    return sum(found) / len(found)


def choose_crop_size(estimator: Any, options: Any, data: TrainingData) -> tuple[int, dict[str, float]]:
    """Choose the side of crops in pixels; returns it and the scores of all sizes.

    For each of `crop_sizes`, a model is trained briefly on at most 1,500 images. They are resized so that crops of this
    size have 20 pixels: grid and encoder are the same for all sizes, so that their information can be compared. The
    size with the largest information is chosen (docs, CRL-TAC, "Size of crops").

    Raises
    ------
    InputError
        There is nothing to choose, or other options say where crops are.
    """
    sizes, shape = crop_sizes(data.row_shape), data.row_shape
    if len(sizes) < 2:
        line = f"crop_size is 'auto', but images are {shape[0]} x {shape[1]} pixels"
        raise InputError(
            f"{line}, too small to choose among crops of at least {CROP}: give it in pixels, or leave it out"
        )
    if tuple(options.crop_scales) != (1.0,):
        raise InputError("crop_size is 'auto' and crop_scales is given: choose one of them")
    order = torch.randperm(len(data.rows), generator=stream(data.seed, "crop size"))[:TRIAL_ROWS].sort().values.numpy()
    batch = min(TRIAL_BATCH, len(order))
    epochs = max(1, TRIAL_STEPS // (len(order) // batch))
    scores = {}
    for size in sizes:
        crops = {"crop_size": CROP, "crop_stride": STRIDE, "crop_scales": (CROP / size,)}
        # The score is the information alone.
        brief = {"epochs": epochs, "batch_size": batch, "recurrence_weight": 0, "start": "none"}
        trial = train_briefly(estimator, data, order, "crop size trial", **crops, **brief)
        generator = torch.Generator(data.device).manual_seed(derive_seed(data.seed, "crop size"))
        score = information(trial.method_, trial.samples(data.rows[order[:SCORED_ROWS]])[:], generator)
        scores[str(size)] = mean_of_processes(score, data.device)
    return max(sizes, key=lambda size: scores[str(size)]), scores


def with_crop_size(estimator: Any, options: Any, data: TrainingData) -> tuple[Any, dict[str, float]]:
    """Options with a size of crops in pixels, chosen if it is "auto"; and the scores of all sizes, if it is."""
    if options.crop_size != "auto":
        return options, {}
    size, scores = choose_crop_size(estimator, options, data)
    if options.verbose and distributed.rank() == 0:
        told = ", ".join(f"{side} {score:.2f}" for side, score in scores.items())
        print(f"crop_size: {size} pixels (information: {told})", file=sys.stderr)
    return dataclasses.replace(options, crop_size=size), scores
