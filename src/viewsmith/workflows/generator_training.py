"""The diffusion model of a DiffAug run as a generator of view caches, trained within a time budget."""

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core import __version__
from viewsmith.core.errors import InputError, StoppedEarly, printable
from viewsmith.core.rows import AnyRows, RowSource
from viewsmith.core.samples import apply_in_blocks, take_rows
from viewsmith.data import Dataset
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.fitting import find_device
from viewsmith.estimator.resolve import default_epochs
from viewsmith.methods.diffaug.estimator import DiffAug
from viewsmith.methods.diffaug.training import DiffAugMethod
from viewsmith.methods.genview import parts
from viewsmith.methods.genview.quality import ViewQuality
from viewsmith.modalities import Modality, modality_of
from viewsmith.training.run import RunFolder
from viewsmith.views.generated.diffusion_views import choose_among
from viewsmith.views.generated.noise_level import level_to_strength, noise_tolerance
from viewsmith.workflows.runs import load_run


class DiffusionGenerator:
    """The conditional diffusion model of a DiffAug run as a generator of views, for any modality."""

    def __init__(
        self, model: ViewsmithEstimator, steps: int | None = None, features: parts.FeaturesOption = parts.ENCODER
    ) -> None:
        if not isinstance(model, DiffAug) or not isinstance(model.method_, DiffAugMethod) or not model.generates:
            if model.status_ != "finished":
                raise InputError(
                    f"the training of the run was not finished ({model.status_}): finish it with `viewsmith fit ... "
                    "--resume`"
                )
            raise InputError(
                f"the run is of {type(model).__name__} and has no generator, or one that diverged: give a run of "
                "`viewsmith fit --method diffaug`"
            )
        self.model, self.generated = model, model.method_.generated
        self._quality: ViewQuality | None = None
        self._pool: Tensor | None = None
        if steps is not None:
            self.generated.generator.steps = steps
        self.weights = parts.digest(model.weights())
        self._extractor: parts.FeatureExtractor | None = None
        if parts.uses_extractor(features, model.facts_.modality):
            one = model.modality_.onnx_example(model.facts_.row_shape, model.scaler_)[0][:1]
            self._extractor = parts.FeatureExtractor(features, model.scaler_, one, self.device)

    @property
    def device(self) -> torch.device:
        return next(self.generated.parameters()).device

    def describe(self) -> dict[str, Any]:
        core = self.generated.generator
        return {
            "name": "diffusion",
            "version": __version__,
            "weights": self.weights,
            "sampler": core.sampler,
            "steps": core.steps,
            "guidance": core.guidance,
        } | parts.describe_extractor(self._extractor)

    def noise_tolerance(self, rows: Tensor | RowSource, min_max: bool) -> tuple[Tensor, Tensor]:
        if self._extractor is not None:
            return self._extractor.noise_tolerance(rows, min_max)
        return noise_tolerance(self.generated.encoder, self.model.samples(_given(rows)), min_max=min_max)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        if self._extractor is not None:
            return self._extractor.quality(rows, views, axis)
        x = self.model.scale_rows(rows)
        if self._quality is None:
            self._quality = ViewQuality(self.generated.encoder, x)
        self._quality.axis.copy_(axis)
        return self._quality(x, self.model.scale_rows(views))

    @torch.no_grad()
    def choose(self, rows: Tensor | RowSource, index: Tensor, views: Tensor, n_views: int) -> Tensor:
        """Choose among generated views by quality and novelty."""
        encoder, scale = self.generated.encoder, self.model.scale_rows
        if self._pool is None:
            self._pool = apply_in_blocks(lambda x: encoder(x).float(), self.model.samples(_given(rows)), 256)
        candidates = [scale(view) for view in views.unbind(1)]
        x = scale(take_rows(rows, index))
        return choose_among(x, candidates, index.to(self.device), self._pool, encoder, n_views).cpu()

    @torch.no_grad()
    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        x = self.model.scale_rows(rows)
        made = self.generated.generate(x, None, streams, level_to_strength(level).to(self.device))
        views: Tensor = self.model.scaler_.inverse(made)
        return views.cpu().reshape(rows.shape)


def _given(rows: Tensor | RowSource) -> np.ndarray | RowSource:
    """Samples as estimators take them."""
    return rows.numpy() if isinstance(rows, Tensor) else rows


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
    """How a generator is trained."""

    epochs: int  # of the encoder, and of the generator after it
    generator_epochs: int
    denoiser: str  # network of the generator: "fast" or "small"
    cpu_seconds: float  # estimate of the CPU time; 0 where it is small or unknown

    def minutes(self, threads: int) -> float:
        """Estimate of the time on a number of cores that do nothing else."""
        return self.cpu_seconds / threads**SCALING / 60


def plan_training(
    modality: Modality,
    n_rows: int,
    row_shape: Sequence[int],
    *,
    batch_size: int,
    epochs: int | None = None,
    minutes: float | None = None,
) -> TrainingPlan:
    """A training by sizes alone that is estimated to fit a budget on two CPU cores: 10 minutes for 10,000 images of 32
    x 32, 3 to 10 for others, to which epochs and large networks are cut."""
    batch = min(batch_size, n_rows)
    pixels, ratio = math.prod(row_shape[:2]), modality.defaults["generator_epochs"]
    small = modality.is_image and pixels > LARGE
    encoder, generator = modality.step_seconds
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
    most = default_epochs(n_rows, batch_size, modality.steps)
    return next((plan(e) for e in range(most, 1, -1) if plan(e).minutes(2) <= minutes), plan(1))


def train_generator(
    folder: RunFolder, rows: AnyRows, dataset: Dataset, context: dict[str, Any], asked: Any, *, progress: bool
) -> ViewsmithEstimator:
    """A DiffAug run for the sake of its generator in a folder: trained now, resumed, or read."""
    if folder.exists() and folder.read_summary().get("status") == "finished":
        return load_run(folder.path)
    model = DiffAug(
        phases="AB",
        modality=dataset.modality,
        impute=dataset.schema.get("impute", "none"),
        epochs=asked.epochs or "auto",
        random_state=asked.seed,
        device=asked.device,
        verbose=progress,
    )
    minutes = asked.minutes
    line = _set_length(model, folder, rows, asked.epochs, minutes)
    if minutes is not None:
        done = folder.checkpoint.seconds() if folder.exists() else 0.0
        model.set_params(minutes=minutes + done / 60)
    if progress:
        print(printable(line), file=sys.stderr)
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
    """Set epochs and generator by plan (a begun training keeps its own, a GPU takes DiffAug's); return it in words."""
    if folder.exists():
        begun = folder.read_config().get("parameters", {})
        planned = {name: begun[name] for name in PLANNED if name in begun}
        model.set_params(**planned if epochs is None else planned | {"epochs": epochs})
        return "the training of the generator is resumed"
    line = "a generator is trained first"
    if find_device(model.device).type != "cpu":
        return line
    modality, shape = modality_of(model.modality), rows.shape[1:]
    plan = plan_training(modality, len(rows), shape, batch_size=model.batch_size, epochs=epochs, minutes=minutes)
    model.set_params(epochs=plan.epochs, generator_epochs=plan.generator_epochs, denoiser=plan.denoiser)
    line += f": {plan.epochs} epochs of the encoder and {plan.generator_epochs} of the generator"
    if plan.cpu_seconds:
        threads = torch.get_num_threads()
        cores = f"{threads} idle core{'s' * (threads > 1)}"
        line += f", at most about {_minutes(plan.minutes(threads))} on {cores}"
        line += "; --minutes or --epochs for another length"
    return line


def _minutes(number: float) -> str:
    if number < 1:
        return "a minute"
    return f"{round(number)} minute{'s' * (round(number) > 1)}"
