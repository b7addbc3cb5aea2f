"""Generate the view cache of a data set: generators, precomputed views, and cleanup after errors."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.options import declare
from viewsmith.core.rows import AnyRows, RowSource
from viewsmith.data import Dataset
from viewsmith.data.generator_options import BLOCKS, GeneratorOptions, check_noise
from viewsmith.data.readers.folders import SUFFIXES, read_images
from viewsmith.data.view_cache import ViewCacheFolder, merge_folders
from viewsmith.estimator.fitting import find_device
from viewsmith.estimator.generated import check_has_generator
from viewsmith.estimator.rows import fingerprint, unscaled
from viewsmith.methods.genview.parts import (
    FeatureExtractor,
    ViewGenerator,
    check_foreground,
    describe_extractor,
    generate,
    uses_extractor,
)
from viewsmith.methods.genview.unclip import GUIDANCE, STEPS, StableUnCLIP
from viewsmith.modalities import modality_of
from viewsmith.modalities.images.channels import check_photographs
from viewsmith.modalities.images.modality import Images
from viewsmith.modalities.images.pixels import Pixels
from viewsmith.training.run import RunFolder
from viewsmith.workflows.generator_training import DiffusionGenerator, train_generator
from viewsmith.workflows.runs import OF_CELLS, data_record, load_run


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
    dataset: Dataset, out: Path, *, transductive: bool = False, progress: bool = False, **options: Any
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
    return fill_cache(dataset, out, GeneratorOptions(**options), transductive=transductive, progress=progress)


declare(generate_cache, GeneratorOptions)


def fill_cache(
    dataset: Dataset, out: Path, options: GeneratorOptions, *, transductive: bool, progress: bool
) -> ViewCacheFolder:
    """`generate_cache`, with its options as one object."""
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
