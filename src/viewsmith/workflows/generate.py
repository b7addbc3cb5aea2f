"""Generate the view cache of a data set: the diffusion model of a DiffAug run, trained within a time budget, as a
generator; precomputed views; cleanup after errors. Views as arrays for the command ``viewsmith views``, and what their
strength does to samples."""

import contextlib
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core import __version__
from viewsmith.core.errors import InputError, StoppedEarly, check, printable
from viewsmith.core.registry import declare
from viewsmith.core.rows import AnyRows, RowSource
from viewsmith.core.samples import apply_in_blocks, take_rows
from viewsmith.data import Dataset, load_dataset
from viewsmith.data.decoding import read_images
from viewsmith.data.options import BLOCKS, GeneratorOptions, check_noise
from viewsmith.data.places import SUFFIXES
from viewsmith.data.view_cache import ViewCacheFolder, merge_folders
from viewsmith.data.write import RowStream
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.fitting import find_device
from viewsmith.estimator.model import check_has_generator
from viewsmith.estimator.plan import fingerprint, unscaled
from viewsmith.estimator.resolve import default_epochs, with_batch_size
from viewsmith.evaluation.symmetries import SAMPLES, Symmetries, symmetries
from viewsmith.methods.contrastive.estimator import Contrastive
from viewsmith.methods.diffaug.estimator import DiffAug
from viewsmith.methods.diffaug.training import DiffAugMethod
from viewsmith.methods.genview import parts
from viewsmith.methods.genview.clip import GUIDANCE, STEPS, StableUnCLIP
from viewsmith.methods.genview.parts import (
    FeatureExtractor,
    ViewGenerator,
    ViewQuality,
    check_foreground,
    describe_extractor,
    generate,
    uses_extractor,
)
from viewsmith.modalities import Modality, modality_of
from viewsmith.modalities.images.channels import check_photographs
from viewsmith.modalities.images.modality import Images
from viewsmith.modalities.images.pixels import Pixels
from viewsmith.training.run import RunFolder
from viewsmith.views.generated.diffusion_views import choose_among
from viewsmith.views.generated.noise_level import level_to_strength, noise_tolerance
from viewsmith.workflows.runs import OF_CELLS, data_record, load_run, split_rows


# ---- generators ----
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
        return self.model.scaler_.inverse(made).cpu().reshape(rows.shape)


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
    batch = with_batch_size(model, modality, shape).batch_size
    plan = plan_training(modality, len(rows), shape, batch_size=batch, epochs=epochs, minutes=minutes)
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


# ---- view caches ----
class PrecomputedViews:
    """Precomputed views: a folder of images like the folder of the data, or an array."""

    device = torch.device("cpu")

    def __init__(
        self, path: Path, rows: AnyRows, names: list[str] | None, extractor: FeatureExtractor | None = None
    ) -> None:
        self.path, self.like, self.extractor = path, rows[:1], extractor
        self.views: np.ndarray | None = None
        self.files: list[list[Path]] = []
        if path.is_dir():
            if names is None:
                raise InputError(f"{path} is a folder, but the data are not images: give an .npz file with views")
            folders = sorted((each for each in path.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
            self.files = [[_image(folder, name) for name in names] for folder in (folders or [path])]
            self.n_views = len(self.files)
        else:
            self.views = _array(path, rows)
            self.n_views = self.views.shape[1]

    def describe(self) -> dict[str, Any]:
        return {"name": "folder", "version": "1", "path": str(self.path)} | describe_extractor(self.extractor)

    def noise_tolerance(self, rows: Tensor | RowSource, min_max: bool) -> tuple[Tensor, Tensor]:
        if self.extractor is None:
            raise InputError("precomputed views have no noise level: leave the noise out, or give features")
        return self.extractor.noise_tolerance(rows, min_max)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        if self.extractor is None:
            raise InputError("precomputed views have no foreground axis to compute quality from: give features")
        return self.extractor.quality(rows, views, axis)

    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        if self.views is not None:
            return torch.from_numpy(self.views[index.numpy(), view])
        height, width = self.like.shape[1:3]
        files = [self.files[view][row] for row in index.tolist()]
        found = read_images(files, height if height == width else None, self.like.shape[3:] == (3,))
        if found.shape[1:3] != (height, width) or found[:1].size != self.like.size:
            raise InputError(
                f"views in {files[0].parent} have shape {found.shape[1:]}, expected {self.like.shape[1:]} as the data"
            )
        return torch.from_numpy(found.reshape(-1, *self.like.shape[1:]))


def _image(folder: Path, name: str) -> Path:
    base = folder / name
    for file in (base, *(base.with_suffix(suffix) for suffix in SUFFIXES)):
        if file.is_file():
            return file
    raise InputError(f"{folder} has no view of {name}: expected an image of that name, with any suffix")


def _array(path: Path, rows: AnyRows) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as content:
            views: np.ndarray = content["views"]
    except FileNotFoundError as error:
        raise InputError(f"no views at {path}: expected a folder of images, or an .npz file with views") from error
    except Exception as error:
        raise InputError(
            f"cannot read {path} as an .npz file with views ({type(error).__name__}): write it with numpy"
        ) from error
    if views.ndim < 2 or len(views) != len(rows) or not Images().same_shape(views.shape[2:], rows.shape[1:]):
        expected = f"({len(rows)}, K, {', '.join(map(str, rows.shape[1:]))})"
        raise InputError(f"the views of {path} have shape {views.shape}, expected {expected} for these data")
    if views.dtype != rows.dtype:
        raise InputError(f"the views of {path} are {views.dtype}, expected {rows.dtype} as in the data")
    return views.reshape(*views.shape[:2], *rows.shape[1:])


def generate_cache(
    dataset: Dataset, out: Path, *, transductive: bool = False, progress: bool = False, **given: Any
) -> ViewCacheFolder:
    """Generate the view cache of a data set, or its missing blocks, as the command ``viewsmith generate`` does.

    Processes that do this at the same time, in one folder, share the work.

    Parameters
    ----------
    dataset : Dataset
        Views are generated of its training rows, or of all rows if `transductive`.
    out : Path
        Folder of the view cache.
    transductive : bool
    progress : bool
    [options]

    Raises
    ------
    InputError
        Invalid options, missing weights, another view cache in the folder.
    StoppedEarly
        The training of a generator was stopped, by a signal, or all after `minutes`. The same call goes on.
    """
    options = GeneratorOptions(**given)
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    rows = dataset.fit_rows(transductive)
    rows = rows if isinstance(rows, RowSource) else np.ascontiguousarray(rows)
    name, separate = options.name, uses_extractor(options.features, dataset.modality)
    options.check(separate=separate)
    if name == "diffusion":
        check_has_generator(modality_of(dataset.modality))
    record: dict[str, Any] = {
        "data": {"fingerprint": fingerprint(rows), "modality": dataset.modality, "transductive": transductive}
        | {name: dataset.schema[name] for name in OF_CELLS if dataset.schema.get(name)},
        "rows": len(rows),
        "seed": options.seed,
        "noise": "none" if name == "folder" else check_noise(options.noise or "adaptive"),
        "candidates": options.candidates or 1,
        "block": options.batch_size or BLOCKS[name],
        "foreground": options.foreground,
    }
    check_foreground(options.foreground, dataset.modality, record["noise"])
    cache = ViewCacheFolder(out)
    cache.check_record(record)  # before any training
    with _removed_on_error(cache):
        made: ViewGenerator
        views, choose = options.views_per_sample or 1, None
        extractor = _image_extractor(options, rows) if separate and options.run is None else None  # before any training
        if name == "folder":
            made = precomputed = _precomputed(options, rows, dataset, transductive, extractor)
            views = precomputed.n_views
        elif name == "unclip":
            made = _unclip(options, dataset.modality, rows)
        else:
            context = data_record(dataset, transductive)
            made = diffusion = _diffusion(cache, rows, dataset, options, context, progress)
            choose = diffusion.choose
        cache.open_for(record | {"views_per_sample": views, "generator": made.describe()})
        left = None if end is None else end - time.monotonic()
        generate(cache, unscaled(rows), made, shard=options.shard, choose=choose, progress=progress, seconds=left)
    return cache


declare(generate_cache, GeneratorOptions)


def merge_caches(parts: Sequence[Path], out: Path) -> ViewCacheFolder:
    """Merge the folders of the shards of a job; after an error, a new folder without blocks is removed."""
    with _removed_on_error(ViewCacheFolder(out)):
        return merge_folders(parts, out)


def _precomputed(
    options: GeneratorOptions, rows: AnyRows, dataset: Dataset, transductive: bool, extractor: FeatureExtractor | None
) -> PrecomputedViews:
    """Precomputed views; those of images are matched by file names."""
    names = dataset.row_names
    if names is not None:
        names = [names[row] for row in (range(len(names)) if transductive else dataset.train_index)]
    is_image = modality_of(dataset.modality).is_image
    made = PrecomputedViews(Path(options.where), rows, names if is_image else None, extractor)
    if options.views_per_sample not in (None, made.n_views):
        raise InputError(
            f"views_per_sample is {options.views_per_sample}, but {options.where} has {made.n_views} views of each "
            "sample: leave --views-per-sample out"
        )
    return made


def _image_extractor(options: GeneratorOptions, rows: AnyRows) -> FeatureExtractor:
    """A feature extractor for images without a model, with its own input scaling."""
    scaler = Pixels(rows.shape[1:])
    scaler.fit(unscaled(rows), "auto")
    return FeatureExtractor(options.features, scaler, torch.from_numpy(rows[:1]), find_device(options.device))


def _diffusion(
    cache: ViewCacheFolder,
    rows: AnyRows,
    dataset: Dataset,
    options: GeneratorOptions,
    context: dict[str, Any],
    progress: bool,
) -> DiffusionGenerator:
    """The generator of a run, which must accept these rows; or of the view cache, trained by one process for all."""
    if options.run is None:
        folder = RunFolder(cache.path / "generator")
        if options.shard != (1, 1) and folder.read_summary().get("status") != "finished":
            raise InputError(
                "shards need a trained generator: train it with `viewsmith fit DATA --method diffaug --set phases=AB "
                "--out RUN`, and give --run RUN to every shard"
            )
        with cache.claims.hold("generator", wait=True):
            model = train_generator(folder, rows, dataset, context, options, progress=progress)
        return DiffusionGenerator(model, options.steps, options.features)
    model = load_run(options.run)
    facts = model.facts_
    if facts.modality != dataset.modality or not model.modality_.same_shape(rows.shape[1:], facts.row_shape):
        raise InputError(
            f"the run {options.run} is of {facts.modality} of shape {tuple(facts.row_shape)}, but the data "
            f"are {dataset.modality} of shape {rows.shape[1:]}: give a run on data of this shape"
        )
    return DiffusionGenerator(model, options.steps, options.features)


def _unclip(options: GeneratorOptions, modality: str, rows: Any) -> ViewGenerator:
    if not modality_of(modality).is_image:
        raise InputError(
            f"the generator unclip is for images, but the data are {modality}: use the generator 'diffusion'"
        )
    channels = modality_of(modality).channels(rows.shape[1:])
    check_photographs("the generator unclip is", channels, rows.dtype, "use the generator 'diffusion'")
    return StableUnCLIP.load(
        options.where,
        device=find_device(options.device),
        steps=STEPS if options.steps is None else options.steps,
        guidance=GUIDANCE if options.guidance is None else options.guidance,
        scheduler=options.scheduler,
    )


@contextlib.contextmanager
def _removed_on_error(cache: ViewCacheFolder) -> Iterator[None]:
    """Remove a new folder after an error, if there is nothing to reuse in it."""
    absent = not cache.path.exists()
    try:
        yield
    except BaseException:
        kinds = ("blocks/*.safetensors", "generator/checkpoint/*", "claims/*")
        useful = [path for kind in kinds for path in cache.path.glob(kind)]
        if absent and not useful and not (cache.path / "generator" / "model.safetensors").exists():
            generator = RunFolder(cache.path / "generator")
            generator.remove()
            with contextlib.suppress(OSError):
                generator.path.rmdir()
            cache.remove()
        raise


DEFAULT_VIEWS = 4


def views_of_model(
    model: ViewsmithEstimator, dataset: Dataset, n: int | None, *, split: str = "train", seed: int | None = None
) -> dict[str, Any]:
    """Views of the training or test rows of a data set by a fitted model."""
    rows, index = split_rows(dataset, split)
    pool = None if split == "train" else dataset.x_train
    if isinstance(rows, RowSource) and model.streams_views:
        made = model.view_blocks(rows, n or DEFAULT_VIEWS, random_state=seed, pool=pool)
        return {"index": index, "views": (RowStream(made, len(rows)), len(rows))}
    if isinstance(rows, RowSource):
        rows = np.asarray(rows)
    return {"index": index} | model.described_views(rows, n, random_state=seed, pool=pool)


def views_of_cache(cache: ViewCacheFolder, data: str, n: int | None, **options: Any) -> dict[str, Any]:
    """Samples and their views in a view cache."""
    record = cache.read_record()["data"]
    of_cells = {name: record[name] for name in OF_CELLS if name in record}
    dataset = load_dataset(data, modality=record["modality"], **of_cells, **options)
    rows = dataset.fit_rows(record["transductive"])
    if fingerprint(rows) != record["fingerprint"]:
        raise InputError(
            f"the view cache {cache.path} is of other rows than those of {data}: give the data it was made from"
        )
    sources = cache.sources(n)
    index = np.arange(len(rows)) if record["transductive"] else split_rows(dataset, "train")[1]
    known = {name: cache.read(name)[:, : len(sources)].numpy() for name in ("level", "quality")}
    views = RowStream(_together(sources), len(rows)), len(rows)
    samples = (RowStream(rows.blocks(), len(rows)), len(rows)) if isinstance(rows, RowSource) else rows
    return {"samples": samples, "views": views, "index": index, **known, "tolerance": cache.read("tolerance").numpy()}


def _together(sources: Sequence[RowSource]) -> Iterator[np.ndarray]:
    """Block by block, the rows of several sources beside each other: (b, K, ...)."""
    for blocks in zip(*(source.blocks() for source in sources), strict=True):
        yield np.stack(blocks, axis=1)


def strength_curve(
    dataset: Dataset, option: str, values: Sequence[float], views: str = "auto", *, seed: int = 0
) -> Symmetries:
    """Distance ratio and "told apart" of views at values of an option, after one step of `contrastive` each."""
    expected = "an option of views, such as noise_strength: viewsmith methods"
    check(option in Contrastive().get_params(), "option", repr(option), expected)
    rows = np.sort(np.random.default_rng(seed).permutation(dataset.train_index)[:SAMPLES])
    x = np.asarray(dataset.x[rows])
    found = Symmetries()
    for value in values:
        given: dict[str, Any] = {option: value, "view_maker": views, "modality": dataset.modality}
        model = Contrastive(**given, epochs=1, batch_size=64, max_rows=64, random_state=seed)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # about a training that is none
            model.fit(x)
        drawn = {f"{option} {value:g}": lambda part, model=model: model.views(part, 1)[:, 0]}
        found += symmetries(x, dataset.modality, drawn, seed=seed)
    return found
