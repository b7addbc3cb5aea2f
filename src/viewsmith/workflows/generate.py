"""Filling a view cache for a data set: options, the generator that they name, and a folder without half-done work."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.data import Dataset
from viewsmith.data.view_cache import ViewCacheFolder, merge_folders
from viewsmith.domains import domain_of
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.feature_extractor import ENCODER, FeatureExtractor, FeaturesOption, uses_extractor
from viewsmith.estimators.fitting import find_device
from viewsmith.estimators.rows import fingerprint
from viewsmith.networks.inputs.pixels import Pixels
from viewsmith.training.generation import ViewGenerator, check_noise, generate
from viewsmith.training.run import RunFolder
from viewsmith.workflows.diffusion_generator import DiffusionGenerator
from viewsmith.workflows.generator_training import train_generator
from viewsmith.workflows.precomputed_views import PrecomputedViews
from viewsmith.workflows.runs import data_record, load_run

BLOCKS = {"unclip": 16, "diffusion": 256, "folder": 256}


def generate_cache(
    dataset: Dataset,
    out: Path,
    *,
    generator: str = "diffusion",
    run: Path | None = None,
    seed: int = 0,
    views_per_sample: int | None = None,
    steps: int | None = None,
    guidance: float | None = None,
    scheduler: str | None = None,
    noise: str | None = None,
    features: FeaturesOption = ENCODER,
    shard: tuple[int, int] = (1, 1),
    batch_size: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    transductive: bool = False,
    device: str = "auto",
    progress: bool = False,
) -> ViewCacheFolder:
    """Make a view cache of views of a data set, or the rest of one; what the command ``viewsmith generate`` does.

    Parameters
    ----------
    dataset : Dataset
        Its train rows, or with `transductive` all.
    out : Path
        Folder of the view cache.
    generator : str
        ``diffusion``, ``unclip:FOLDER``, ``unclip:OWNER/NAME`` or ``folder:PATH``.
    run : Path, optional
        A DiffAug run whose generator to use; without it `diffusion` trains one and keeps it in the view cache.
    seed : int
    views_per_sample : int, optional
        1; of a folder, as many as it has.
    steps : int, optional
        Of the sampler.
    guidance : float, optional
    scheduler : str, optional
        Of unclip.
    noise : str, optional
        ``adaptive`` (the default), ``random`` or ``constant:L``.
    features : str or nn.Module
        Of diffusion and folder, on images: where foreground and quality are seen, whatever the noise. ``clip:FOLDER``
        or ``clip:OWNER/NAME``, or a network from scaled images (B, C, H, W) to maps (B, D, h, w). ``encoder``: by the
        encoder of the run, for adaptive noise alone.
    shard : (int, int)
        i of n.
    batch_size : int, optional
        Samples in a block.
    epochs : int, optional
        Of the encoder, in the training of a generator; by default as many as fit the budget of
        `viewsmith.workflows.generator_training.plan_training`.
    minutes : float, optional
        That budget; a training that takes longer stops.
    transductive : bool
    device : str
    progress : bool

    Raises
    ------
    InputError
        An option that does not fit, missing weights, another view cache in the folder.
    StoppedEarly
        The training of a generator was stopped, by a signal or after `minutes`. The same call resumes it.
    """
    rows = np.ascontiguousarray(dataset.fit_rows(transductive))
    name, _, where = generator.partition(":")
    own = features if uses_extractor(features, dataset.domain) else None
    _refuse_options(
        name,
        where,
        run=run,
        guidance=guidance,
        scheduler=scheduler,
        noise=noise,
        steps=steps,
        features=own,
        epochs=epochs,
        minutes=minutes,
    )
    if run is not None and (epochs is not None or minutes is not None):
        option = "epochs" if epochs is not None else "minutes"
        raise InputError(f"the generator of {run} is trained already: leave --{option} out, or --run")
    context = data_record(dataset, transductive)
    record: dict[str, Any] = {
        "data": {"fingerprint": fingerprint(rows), "domain": dataset.domain, "transductive": transductive},
        "rows": len(rows),
        "seed": seed,
        "noise": "none" if name == "folder" else check_noise(noise or "adaptive"),
        "block": batch_size or BLOCKS[name],
    }
    cache = ViewCacheFolder(out)
    cache.check_record(record)  # before a training that would be for nothing
    with _withdrawn(cache):
        made: ViewGenerator
        if name == "folder":
            made = given = _given(Path(where), rows, dataset, transductive, features, device)
            if views_per_sample not in (None, given.n_views):
                raise InputError(f"{where} has {given.n_views} views of each sample, not {views_per_sample}")
            views_per_sample = given.n_views
        elif name == "unclip":
            made = _unclip(where, dataset.domain, steps, guidance, scheduler, device)
        elif run is not None:
            made = DiffusionGenerator(_fitting(run, rows, dataset.domain), steps, features)
        else:
            if own is not None:
                _images_seen(features, rows, device)  # before a training that would be for nothing
            folder = RunFolder(cache.path / "generator")
            if shard != (1, 1) and folder.read_summary().get("status") != "finished":
                raise InputError(
                    "shards need one generator that is there already: train it with `viewsmith fit DATA --method "
                    "diffaug --set phases=AB --out RUN`, and give --run RUN to every shard"
                )
            trained = train_generator(
                folder,
                rows,
                dataset,
                context,
                seed=seed,
                epochs=epochs,
                minutes=minutes,
                device=device,
                progress=progress,
            )
            made = DiffusionGenerator(trained, steps, features)
        cache.open_for(record | {"views_per_sample": views_per_sample or 1, "generator": made.describe()})
        generate(cache, torch.from_numpy(rows), made, shard=shard, progress=progress)
    return cache


def merge_caches(parts: Sequence[Path], out: Path) -> ViewCacheFolder:
    """One view cache from the folders that shards of a job wrote; what ``viewsmith generate --merge`` does.

    An error leaves no new folder behind, unless there are blocks in it (`viewsmith.data.view_cache.merge_folders`).
    """
    with _withdrawn(ViewCacheFolder(out)):
        return merge_folders(parts, out)


def _given(
    path: Path, rows: np.ndarray, dataset: Dataset, transductive: bool, features: FeaturesOption, device: str
) -> PrecomputedViews:
    """Precomputed views, of images by the names of their files."""
    names = dataset.row_names
    if names is not None:
        names = [names[row] for row in (range(len(names)) if transductive else dataset.train_index)]
    seen = _images_seen(features, rows, device) if uses_extractor(features, dataset.domain) else None
    return PrecomputedViews(path, rows, names if domain_of(dataset.domain).picture == "pixels" else None, seen)


def _images_seen(features: FeaturesOption, rows: np.ndarray, device: str) -> FeatureExtractor:
    """Features of images that no model scales."""
    scaler = Pixels(rows.shape[1:])
    scaler.fit(torch.from_numpy(rows), "auto")
    return FeatureExtractor(features, scaler, torch.from_numpy(rows[:1]), find_device(device))


def _fitting(run: Path, rows: np.ndarray, domain: str) -> ViewsmithEstimator:
    """The model of a run on such rows."""
    model = load_run(run)
    resolved = model.resolved_
    if resolved.domain != domain or not model.domain_.same_shape(rows.shape[1:], resolved.row_shape):
        raise InputError(
            f"the run {run} is of {resolved.domain} of shape {tuple(resolved.row_shape)}, and the data "
            f"are {domain} of shape {rows.shape[1:]}: give a run on such data"
        )
    return model


def _refuse_options(name: str, where: str, **given: Any) -> None:
    if name not in BLOCKS or (name == "diffusion" and where):
        raise InputError(f"the generator is {name!r}, expected unclip:WEIGHTS, diffusion or folder:PATH")
    if name == "unclip" and not where:
        raise InputError(
            "unclip needs weights: name a folder, unclip:FOLDER, or a model on the hub to fetch, unclip:OWNER/NAME; "
            "published: unclip:stabilityai/stable-diffusion-2-1-unclip"
        )
    if name == "folder" and not where:
        raise InputError("folder needs a path: folder:PATH")
    own = {
        "diffusion": ("run", "noise", "steps", "features", "epochs", "minutes"),
        "unclip": ("guidance", "scheduler", "noise", "steps"),  # it sees by a CLIP of its own
        "folder": ("features",),
    }[name]
    for option, value in given.items():
        if value is not None and option not in own:
            raise InputError(f"the generator {name!r} takes no {option}: leave --{option} out")


def _unclip(
    where: str, domain: str, steps: int | None, guidance: float | None, scheduler: str | None, device: str
) -> ViewGenerator:
    from viewsmith.views.generated.unclip import GUIDANCE, STEPS, StableUnCLIP

    if domain_of(domain).picture != "pixels":
        raise InputError(f"unclip makes images, and the data are {domain}: take the generator 'diffusion'")
    return StableUnCLIP.load(
        where,
        device=find_device(device),
        steps=STEPS if steps is None else steps,
        guidance=GUIDANCE if guidance is None else guidance,
        scheduler=scheduler,
    )


@contextlib.contextmanager
def _withdrawn(cache: ViewCacheFolder) -> Iterator[None]:
    """Take back a new folder in which an error left nothing of use."""
    absent = not cache.path.exists()
    try:
        yield
    except BaseException:
        useful = [*cache.path.glob("blocks/*.safetensors"), *cache.path.glob("generator/checkpoint/*")]
        if absent and not useful and not (cache.path / "generator" / "model.safetensors").exists():
            shutil.rmtree(cache.path, ignore_errors=True)
        raise
