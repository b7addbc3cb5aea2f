"""Train the generator of a view cache within a time budget, with a plan that is printed before training starts."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from viewsmith.core.errors import StoppedEarly
from viewsmith.core.row_source import AnyRows
from viewsmith.data import Dataset
from viewsmith.domains import Domain, domain_of
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.resolve import default_epochs
from viewsmith.estimators.diffaug import DiffAug
from viewsmith.estimators.fitting import find_device
from viewsmith.training.run import RunFolder
from viewsmith.workflows.runs import load_run

#: Minutes, on two cores, for a data set of the reference's size or larger; smaller ones get fewer, but not below LEAST.
BUDGET, LEAST = 10.0, 3.0
#: CPU seconds of an epoch of the encoder and half an epoch of the generator on 10,000 images of 32 x 32 pixels.
REFERENCE = 21.0
#: Images with more pixels get the small network on a CPU.
LARGE = 40 * 40
SMALL_COST = 0.375  # of the small network, relative to the fast one
#: The speedup of n threads is n to this power: the defaults for 48 x 48 pixels took 18 minutes of CPU time in 11.
SCALING = 0.7
#: Arguments of DiffAug that a plan sets.
PLANNED = ("epochs", "generator_epochs", "denoiser")


@dataclass(frozen=True)
class TrainingPlan:
    """How a generator is trained.

    Attributes
    ----------
    epochs, generator_epochs : int
        Of the encoder, and of the generator after it.
    denoiser : str
        Network of the generator: "fast" or "small".
    cpu_seconds : float
        Estimate of the CPU time; 0 where it is small or unknown.
    """

    epochs: int
    generator_epochs: int
    denoiser: str
    cpu_seconds: float

    def minutes(self, threads: int) -> float:
        """Estimate of the time on a number of cores that do nothing else."""
        return self.cpu_seconds / threads**SCALING / 60


def plan_training(
    domain: Domain,
    n_rows: int,
    row_shape: Sequence[int],
    *,
    batch_size: int,
    epochs: int | None = None,
    minutes: float | None = None,
) -> TrainingPlan:
    """A training on a CPU that is estimated to fit a budget on two cores.

    The plan follows from sizes alone, so that the same command gives the same generator on any machine. The budget is
    10 minutes for 10,000 images of 32 x 32 pixels; data that are less work get less, down to 3 minutes, and data that
    are more work no more. Epochs are cut to fit it, those of the encoder and of the generator in proportion; images of
    more than 40 x 40 pixels get a smaller network, too.

    Parameters
    ----------
    domain : Domain
    n_rows : int
    row_shape : sequence of int
    batch_size : int
    epochs : int, optional
        Of the encoder, instead of a number that fits the budget.
    minutes : float, optional
        The budget.

    Returns
    -------
    TrainingPlan
    """
    batch = min(batch_size, n_rows)
    pixels, ratio = math.prod(row_shape[:2]), domain.defaults["generator_epochs"]
    small = domain.picture == "pixels" and pixels > LARGE
    encoder, generator = domain.step_seconds
    generator *= SMALL_COST if small else 1

    def plan(number: int) -> TrainingPlan:
        of_generator = max(1, round(ratio * number))
        values = pixels * batch * max(1, n_rows // batch)
        seconds = values * (encoder * number + generator * of_generator)
        return TrainingPlan(number, of_generator, "small" if small else "fast", seconds)

    if epochs is not None:
        return plan(epochs)
    if minutes is None:
        work = n_rows * pixels * (encoder + ratio * generator) / REFERENCE
        minutes = min(BUDGET, max(LEAST, BUDGET * work))
    most = default_epochs(n_rows, batch_size, domain.steps)
    return next((plan(e) for e in range(most, 1, -1) if plan(e).minutes(2) <= minutes), plan(1))


def train_generator(
    folder: RunFolder,
    rows: AnyRows,
    dataset: Dataset,
    context: dict[str, Any],
    *,
    seed: int,
    epochs: int | None,
    minutes: float | None,
    device: str,
    progress: bool,
) -> ViewsmithEstimator:
    """A DiffAug run for the sake of its generator in a folder: trained now, resumed, or read.

    Parameters
    ----------
    folder : RunFolder
    rows : ndarray or RowSource, shape (n, ...)
    dataset : Dataset
    context : dict
        See `viewsmith.workflows.runs.data_record`.
    seed : int
    epochs : int, optional
        Of the encoder. Default: of `plan_training`.
    minutes : float, optional
        The budget of the plan; after this time the training stops, however far it is.
    device : str
    progress : bool
        Say on stderr what will be trained and how long it takes, and show the progress.

    Raises
    ------
    StoppedEarly
        By a signal, or the time is over. The training can be resumed.
    """
    if folder.exists() and folder.read_summary().get("status") == "finished":
        return load_run(folder.path)
    model = DiffAug(
        phases="AB",
        domain=dataset.domain,
        impute=dataset.schema.get("impute", "none"),
        epochs=epochs or "auto",
        random_state=seed,
        device=device,
        verbose=progress,
    )
    line = _set_length(model, folder, rows, epochs, minutes)
    if minutes is not None:
        done = folder.checkpoint.seconds() if folder.exists() else 0.0
        model.set_params(minutes=minutes + done / 60)
    if progress:
        print(line, file=sys.stderr)
    folder.path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # The first is reported below; the second is expected of a generator whose training was stopped early.
        for expected in ("training ended early", "the generator diverged"):
            warnings.filterwarnings("ignore", message=expected)
        model.fit(rows, run=folder.path, resume=True, context=context)
    if model.status_ != "finished":
        why = "was interrupted" if model.status_ == "interrupted" else f"stopped after {minutes:g} minutes"
        raise StoppedEarly(f"the training of the generator {why}: run the same command again to resume it")
    return model


def _set_length(model: DiffAug, folder: RunFolder, rows: AnyRows, epochs: int | None, minutes: float | None) -> str:
    """Set the epochs and the network of the generator by plan; returns what will be trained, in words.

    A training that was begun keeps its plan, whatever the budget is now. On a GPU the defaults of DiffAug are used.
    """
    if folder.exists():
        begun = folder.read_config().get("parameters", {})
        planned = {name: begun[name] for name in PLANNED if name in begun}
        model.set_params(**planned if epochs is None else planned | {"epochs": epochs})
        return "the training of the generator is resumed"
    line = "a generator is trained first"
    if find_device(model.device).type != "cpu":
        return line
    domain, shape = domain_of(model.domain), rows.shape[1:]
    plan = plan_training(domain, len(rows), shape, batch_size=model.batch_size, epochs=epochs, minutes=minutes)
    model.set_params(epochs=plan.epochs, generator_epochs=plan.generator_epochs, denoiser=plan.denoiser)
    line += f": {plan.epochs} epochs of the encoder and {plan.generator_epochs} of the generator"
    if plan.cpu_seconds:
        threads = torch.get_num_threads()
        cores = f"{threads} core{'s' * (threads > 1)}"
        line += f", about {_minutes(plan.minutes(threads))} on {cores} that do nothing else"
        line += "; --minutes or --epochs for another length"
    return line


def _minutes(number: float) -> str:
    if number < 1:
        return "a minute"
    return f"{round(number)} minute{'s' * (round(number) > 1)}"
